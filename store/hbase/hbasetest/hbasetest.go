// Package hbasetest runs a real HBase of one JVM. Tests share one instance per process
// ([Start]). People who want to try things on a store use the command cmd/hbase-dev,
// which `make hbase` runs.
//
// Maven downloads the jars of a version (see [VersionEnv]) once and keeps them in the user's cache folder. At most two
// test processes on the machine have instances, because a JVM is heavy and packages are
// tested in parallel. The kernel kills a JVM when its test process dies for any reason.
//
// If HBASE_QUORUM=HOST:PORT is set, Start returns that ZooKeeper quorum and starts nothing.
package hbasetest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// QuorumEnv is the environment variable with the ZooKeeper quorum of a running HBase
// for tests.
const QuorumEnv = "HBASE_QUORUM"

// patience bounds the wait for an instance: Maven may have to download 117 MB, or other
// test processes may hold all slots.
const patience = 20 * time.Minute

var shared struct {
	once sync.Once
	inst *Instance
	err  error
}

// Start returns the ZooKeeper quorum of an HBase that all tests of the process share. Each test
// uses another prefix for its tables (see [Prefix]). If QuorumEnv is not set, Start skips short
// tests, and tests on a machine that cannot run HBase (see Needs).
func Start(tb testing.TB) string {
	tb.Helper()
	if q := os.Getenv(QuorumEnv); q != "" {
		return q
	}
	return Shared(tb).Quorum()
}

// Shared is like Start without QuorumEnv, but returns the instance, for tests that kill and
// restart the instance.
func Shared(tb testing.TB) *Instance {
	tb.Helper()
	need(tb)
	if shared.once.Do(startShared); shared.err != nil {
		tb.Fatalf("starting HBase: %v", shared.err)
	}
	return shared.inst
}

// need skips a test that cannot have an HBase.
func need(tb testing.TB) {
	tb.Helper()
	if testing.Short() {
		tb.Skip("HBase is not started by short tests")
	}
	if err := Needs(); err != nil {
		tb.Skipf("no HBase: %v", err)
	}
}

func startShared() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	shared.inst, shared.err = startExclusive(ctx, "shared", Config{})
}

// Own starts an instance that only the calling test uses, so that the test may kill the
// instance while other tests run. The instance lives until the test ends.
func Own(tb testing.TB) *Instance {
	tb.Helper()
	return Configured(tb, Config{})
}

// Configured is like Own, for an HBase with settings of its own: the fields of c from Properties on.
func Configured(tb testing.TB, c Config) *Instance {
	tb.Helper()
	need(tb)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	i, err := startExclusive(ctx, filepath.Base(Prefix(tb)), c)
	if err != nil {
		tb.Fatalf("starting HBase: %v", err)
	}
	tb.Cleanup(func() {
		i.Kill()
		os.RemoveAll(i.c.Dir)
	})
	return i
}

// slots is the number of test processes on the machine that may have an HBase at a time.
// There are two, because the JVM of one process can work while the JVM of the other
// process waits.
const slots = 2

// place contains the folder of this process's instances, and the file that locks the
// folder. The garbage collector would close an unreferenced file and so release the lock.
var place struct {
	sync.Mutex
	dir  string
	held *os.File
}

// exclusive returns the folder that this process alone uses until it ends. It waits while
// other processes use all slots.
func exclusive(ctx context.Context) (dir string, err error) {
	place.Lock()
	defer place.Unlock()
	if place.held != nil {
		return place.dir, nil
	}
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	var names []string
	for n := range slots {
		names = append(names, filepath.Join(cache, fmt.Sprintf("test%d.lock", n)))
	}
	if place.held, err = lock(ctx, names...); err != nil {
		return "", err
	}
	place.dir = strings.TrimSuffix(place.held.Name(), ".lock")
	return place.dir, os.MkdirAll(place.dir, 0o755)
}

// startExclusive starts an instance in a subfolder of this process's folder.
func startExclusive(ctx context.Context, name string, c Config) (*Instance, error) {
	dir, err := exclusive(ctx)
	if err != nil {
		return nil, err
	}
	jars, err := Jars(ctx)
	if err != nil {
		return nil, err
	}
	c.Dir, c.Jars, c.Tied = filepath.Join(dir, name), jars, true
	return startAnew(ctx, c)
}

// startAnew starts an instance on an empty folder. If the instance is not ready in time,
// startAnew starts another one, because on a busy machine a table may remain incomplete
// after its creation has timed out.
func startAnew(ctx context.Context, c Config) (i *Instance, err error) {
	for try := 0; try < 5 && ctx.Err() == nil; try++ {
		// Nobody uses the contents of dir, because this process has the lock. They were left
		// behind by a process that has ended.
		if err = os.RemoveAll(c.Dir); err != nil {
			return nil, err
		}
		limited, cancel := context.WithTimeout(ctx, 90*time.Second)
		i, err = Run(limited, c)
		cancel()
		if err == nil {
			return i, nil
		}
	}
	return nil, err
}

var prefixes struct {
	sync.Mutex
	n int
}

// Prefix returns a table prefix that contains the test's name and that no other test
// uses.
func Prefix(tb testing.TB) string {
	prefixes.Lock()
	defer prefixes.Unlock()
	prefixes.n++
	clean := func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}
	name := strings.Trim(strings.Map(clean, tb.Name()), "-")
	return fmt.Sprintf("t%d-%d-%s", os.Getpid(), prefixes.n, name)
}
