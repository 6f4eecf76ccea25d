package hasher

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/seed-4dac0d86/ldapd/auth"
)

// TestMain is also the main function of the process that computes hashes.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "serve" {
		if err := Serve(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func command() *exec.Cmd {
	path, err := Self()
	return &exec.Cmd{Path: path, Err: err, Args: []string{os.Args[0], "serve"}, Env: []string{}, Stderr: os.Stderr}
}

func newProcess(t *testing.T) *Process {
	p := New(command, slog.New(slog.DiscardHandler))
	t.Cleanup(p.Close)
	return p
}

func checkWorks(t *testing.T, p *Process) {
	t.Helper()
	hash, err := p.Hash("ARGON2", []byte("secret"))
	if err != nil {
		t.Fatal(err)
	}
	for password, want := range map[string]bool{"secret": true, "guess": false} {
		if fits, err := p.Verify("ARGON2", hash, []byte(password)); fits != want || err != nil {
			t.Errorf("%s: %v, %v", password, fits, err)
		}
	}
}

func TestProcess(t *testing.T) {
	p := newProcess(t)
	checkWorks(t, p)
	pid := p.running.cmd.Process.Pid
	if pid == os.Getpid() {
		t.Error("hashes are made here")
	}
	for name, err := range map[string]error{"malformed": second(p.Verify("ARGON2", []byte("?"), nil)), "unknown": second(p.Verify("NO", nil, nil))} {
		if !errors.Is(err, auth.ErrScheme) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := p.Hash("MD5", nil); err == nil || !strings.Contains(err.Error(), "MD5") {
		t.Errorf("a scheme of which none are made: %v", err)
	}
	if now := p.running.cmd.Process.Pid; now != pid {
		t.Errorf("process %d went on as %d", pid, now)
	}
	p.Close()
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the process after Close: %v", err)
	}
	checkWorks(t, p) // hashes are still computed while the server stops
}

func second[T any](_ T, err error) error { return err }

// TestYields checks that every thread of the process has the niceness of the constant niceness.
func TestYields(t *testing.T) {
	p := newProcess(t)
	checkWorks(t, p)
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.running.cmd.Process.Pid))
	if err != nil || len(threads) == 0 {
		t.Skip("no threads to be seen here:", err)
	}
	for _, name := range threads {
		stat, err := os.ReadFile(name)
		if err != nil {
			continue // the thread has ended
		}
		// The fields behind the program's name; see proc(5).
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if nice := fields[16]; nice != strconv.Itoa(niceness) {
			t.Errorf("%s: niceness %s", name, nice)
		}
	}
}

// TestDeath checks that a process is started again if it dies before or during a job.
func TestDeath(t *testing.T) {
	p := newProcess(t)
	checkWorks(t, p)
	p.running.cmd.Process.Kill()
	checkWorks(t, p)

	dying := 0
	p = New(func() *exec.Cmd {
		if dying++; dying == 1 {
			return &exec.Cmd{Path: "/bin/cat", Args: []string{"cat", "/dev/null"}}
		}
		return command()
	}, slog.New(slog.DiscardHandler))
	t.Cleanup(p.Close)
	checkWorks(t, p)
	if dying != 2 {
		t.Errorf("%d processes", dying)
	}
}

// TestNoProcess checks that Verify returns an error if every process dies, and that the
// server computes hashes itself if no process can be started.
func TestNoProcess(t *testing.T) {
	p := New(func() *exec.Cmd { return exec.Command("/bin/cat", "/dev/null") }, slog.New(slog.DiscardHandler))
	t.Cleanup(p.Close)
	if fits, err := p.Verify("ARGON2", nil, nil); err == nil || fits {
		t.Errorf("%v, %v", fits, err)
	}

	var log bytes.Buffer
	p = New(func() *exec.Cmd { return exec.Command(filepath.Join(t.TempDir(), "none")) }, slog.New(slog.NewTextHandler(&log, nil)))
	checkWorks(t, p)
	if n := strings.Count(log.String(), "level=WARN"); n != 1 {
		t.Errorf("%d warnings: %s", n, log.String())
	}
}

// TestEndOfInput checks that the process ends when its input ends, because the server
// may have been killed.
func TestEndOfInput(t *testing.T) {
	cmd := command()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if cmd.Stdout = io.Discard; cmd.Start() != nil {
		t.Fatal("not started")
	}
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
