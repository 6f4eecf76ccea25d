// Command hbase-dev starts and stops an HBase of one JVM for development, with its data
// in one folder, or only fetches the jars of HBase:
//
//	hbase-dev start [-dir .hbase] [-port 2181]
//	hbase-dev stop  [-dir .hbase]
//	hbase-dev fetch
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/seed-4dac0d86/ldapd/store/hbase/hbasetest"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "hbase-dev:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return errors.New("say start, stop or fetch")
	}
	flags := flag.NewFlagSet("hbase-dev", flag.ExitOnError)
	dir := flags.String("dir", ".hbase", "folder of data, configuration and log")
	port := flags.Int("port", 2181, "port of ZooKeeper on 127.0.0.1")
	heap := flags.String("heap", "512m", "heap of the JVM")
	_ = flags.Parse(args[1:])
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	switch args[0] {
	case "fetch":
		if err := hbasetest.Needs(); err != nil {
			return err
		}
		_, err := hbasetest.Jars(ctx)
		return err
	case "start":
		return start(ctx, hbasetest.Config{Dir: *dir, Port: *port, Heap: *heap})
	case "stop":
		return stop(ctx, *dir)
	}
	return fmt.Errorf("%q is neither start nor stop nor fetch", args[0])
}

func start(ctx context.Context, c hbasetest.Config) error {
	if s, err := readState(c.Dir); err == nil && s.alive() {
		return announce(s.quorum)
	}
	if err := hbasetest.Needs(); err != nil {
		return err
	}
	if err := free(c.Port); err != nil {
		return err
	}
	jars, err := hbasetest.Jars(ctx)
	if err != nil {
		return err
	}
	c.Jars = jars
	i, err := hbasetest.Run(ctx, c)
	if err != nil {
		return err
	}
	if err := writeState(c.Dir, state{i.PID(), i.Quorum()}); err != nil {
		return err
	}
	return announce(i.Quorum())
}

// free returns an error if something listens on port: another HBase, which would answer in place
// of the one that is about to fail to start.
func free(port int) error {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return fmt.Errorf("port %d is taken, say another with -port: %w", port, err)
	}
	return l.Close()
}

func announce(quorum string) error {
	_, err := fmt.Printf("HBase is ready: hbase://%s/ldapd\n", quorum)
	return err
}

// stop asks the master to shut down. If the JVM does not end, stop kills it, which
// loses nothing that HBase has acknowledged.
func stop(ctx context.Context, dir string) error {
	s, err := readState(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if s.alive() {
		ask, cancel := context.WithTimeout(ctx, 10*time.Second)
		err := hbasetest.Shutdown(ask, s.quorum)
		cancel()
		if err != nil || !s.gone(30*time.Second) {
			fmt.Fprintln(os.Stderr, "hbase-dev: HBase does not shut down, killing it:", err)
			_ = syscall.Kill(s.pid, syscall.SIGKILL)
			s.gone(10 * time.Second)
		}
	}
	return os.Remove(stateFile(dir))
}

// state is the content of the file "running" in the folder.
type state struct {
	pid    int
	quorum string
}

func stateFile(dir string) string { return filepath.Join(dir, "running") }

func writeState(dir string, s state) error {
	return os.WriteFile(stateFile(dir), fmt.Appendf(nil, "%d %s\n", s.pid, s.quorum), 0o644)
}

func readState(dir string) (s state, err error) {
	b, err := os.ReadFile(stateFile(dir))
	if err != nil {
		return s, err
	}
	pid, quorum, _ := strings.Cut(strings.TrimSpace(string(b)), " ")
	s.quorum = quorum
	s.pid, err = strconv.Atoi(pid)
	return s, err
}

// alive reports whether the process exists and is HBase's JVM. It checks the command
// line, because another process may have the same id by now.
func (s state) alive() bool {
	cmd, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", s.pid))
	if err != nil {
		return false
	}
	return strings.Contains(string(cmd), "hbase.master.HMaster")
}

func (s state) gone(patience time.Duration) bool {
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if !s.alive() {
			return true
		}
	}
	return false
}
