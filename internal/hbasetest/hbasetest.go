// Package hbasetest runs a real HBase of one JVM: for tests, which share one instance
// per process ([Start]), and for people who want a store to try things on
// (cmd/hbase-dev, behind make hbase).
//
// Maven downloads the jars once; they stay in the user's cache folder. At most one test
// process on the machine has an instance, because the JVM is heavy and packages are
// tested in parallel. The kernel kills the JVM when the test process dies, however it
// dies.
//
// With LDAPD_TEST_HBASE=HOST:PORT (a ZooKeeper quorum) tests use that HBase and start
// nothing.
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

// QuorumEnv is the environment variable that names a running HBase for tests.
const QuorumEnv = "LDAPD_TEST_HBASE"

// patience bounds the wait for an instance: Maven may have to download 117 MB, or
// another test process may hold the machine's only instance.
const patience = 20 * time.Minute

var shared struct {
	once sync.Once
	inst *Instance
	skip error // why tests cannot have an HBase
	err  error
}

// Start returns the ZooKeeper quorum of an HBase that all tests of the process share.
// They use different table prefixes (see [Prefix]). Start skips the test if the machine
// has no Java or Maven.
func Start(tb testing.TB) string {
	tb.Helper()
	if q := os.Getenv(QuorumEnv); q != "" {
		return q
	}
	return Shared(tb).Quorum()
}

// Shared is Start for tests that kill and restart the instance.
func Shared(tb testing.TB) *Instance {
	tb.Helper()
	if testing.Short() {
		tb.Skip("HBase is not started by short tests")
	}
	shared.once.Do(startShared)
	switch {
	case shared.skip != nil:
		tb.Skipf("no HBase: %v", shared.skip)
	case shared.err != nil:
		tb.Fatalf("starting HBase: %v", shared.err)
	}
	return shared.inst
}

func startShared() {
	if shared.skip = Needs(); shared.skip != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	shared.inst, shared.err = startExclusive(ctx)
}

// machine has the machine's test lock. It stays open for the life of the process: the
// garbage collector closes unreferenced files, and that would release the lock.
var machine struct {
	sync.Mutex
	held *os.File
}

// exclusive takes the machine's test lock for the life of the process, and returns the
// folder that it protects.
func exclusive(ctx context.Context) (cache string, err error) {
	machine.Lock()
	defer machine.Unlock()
	if cache, err = cacheDir(); err != nil || machine.held != nil {
		return cache, err
	}
	machine.held, err = lock(ctx, filepath.Join(cache, "test.lock"))
	return cache, err
}

// startExclusive starts the instance that all tests of the process share.
func startExclusive(ctx context.Context) (*Instance, error) {
	cache, err := exclusive(ctx)
	if err != nil {
		return nil, err
	}
	jars, err := Jars(ctx)
	if err != nil {
		return nil, err
	}
	return startAnew(ctx, filepath.Join(cache, "test"), jars)
}

// startAnew starts an instance on an empty folder. If it is not ready in time,
// startAnew starts another: on a busy machine, a table whose creation timed out may
// stay half made.
func startAnew(ctx context.Context, dir, jars string) (i *Instance, err error) {
	for try := 0; try < 5 && ctx.Err() == nil; try++ {
		// We have the lock, so anything here was left by a process that is gone.
		if err = os.RemoveAll(dir); err != nil {
			return nil, err
		}
		limited, cancel := context.WithTimeout(ctx, 90*time.Second)
		i, err = Run(limited, Config{Dir: dir, Jars: jars, Tied: true})
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

// Prefix returns a table prefix that no other test uses, made from the test's name.
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
