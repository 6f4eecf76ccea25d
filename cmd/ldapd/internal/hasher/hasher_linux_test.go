package hasher

import (
	"bytes"
	"context"
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
	"time"

	"github.com/seed-4dac0d86/ldapd/directory/auth"
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
	hash, err := p.Hash(context.Background(), "ARGON2", []byte("secret"))
	if err != nil {
		t.Fatal(err)
	}
	for password, want := range map[string]bool{"secret": true, "guess": false} {
		if fits, err := p.Verify(context.Background(), "ARGON2", hash, []byte(password)); fits != want || err != nil {
			t.Errorf("%s: %v, %v", password, fits, err)
		}
	}
}

func TestProcess(t *testing.T) {
	p := newProcess(t)
	checkWorks(t, p)
	pid := p.idle[0].cmd.Process.Pid
	if pid == os.Getpid() {
		t.Error("hashes are made here")
	}
	for name, err := range map[string]error{"malformed": second(p.Verify(context.Background(), "ARGON2", []byte("?"), nil)), "unknown": second(p.Verify(context.Background(), "NO", nil, nil))} {
		if !errors.Is(err, auth.ErrScheme) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := p.Hash(context.Background(), "MD5", nil); err == nil || !strings.Contains(err.Error(), "MD5") {
		t.Errorf("a scheme of which none are made: %v", err)
	}
	if now := p.idle[0].cmd.Process.Pid; now != pid {
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
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.idle[0].cmd.Process.Pid))
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
	p.idle[0].cmd.Process.Kill()
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
	if fits, err := p.Verify(context.Background(), "ARGON2", nil, nil); err == nil || fits {
		t.Errorf("%v, %v", fits, err)
	}

	var log bytes.Buffer
	p = New(func() *exec.Cmd { return exec.Command(filepath.Join(t.TempDir(), "none")) }, slog.New(slog.NewTextHandler(&log, nil)))
	checkWorks(t, p)
	if n := strings.Count(log.String(), "level=WARN"); n != 1 {
		t.Errorf("%d warnings: %s", n, log.String())
	}
}

// slowValue takes a few seconds to verify.
var slowValue = []byte("$2y$16$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW")

// TestEndsHash checks that a hash whose client is gone is ended with its process, and that hashes
// of others go on.
func TestEndsHash(t *testing.T) {
	p := newProcess(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("the client is gone")
	ended := make(chan error)
	go func() {
		_, err := p.Verify(ctx, "BCRYPT", slowValue, []byte("x"))
		ended <- err
	}()
	for p.processes() == 0 {
		time.Sleep(time.Millisecond)
	}
	checkWorks(t, p) // in another process
	p.mu.Lock()
	other := p.idle[0].cmd.Process.Pid
	var slow int
	for h := range p.all {
		if h.cmd.Process.Pid != other {
			slow = h.cmd.Process.Pid
		}
	}
	p.mu.Unlock()
	cancel(gone)
	if err := <-ended; err != gone {
		t.Errorf("the hash ended with %v", err)
	}
	if n := p.processes(); n != 1 {
		t.Errorf("%d processes", n)
	}
	waitGone(t, slow)
	checkWorks(t, p)
	if now := p.idle[0].cmd.Process.Pid; now != other {
		t.Errorf("process %d went on as %d", other, now)
	}
}

func (p *Process) processes() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.all)
}

// waitGone waits until no process has the pid.
func waitGone(t *testing.T, pid int) {
	t.Helper()
	for range 3000 {
		if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("process %d still runs", pid)
}

// TestEndOfInputDuringHash checks that the process ends when its server is killed, even while it
// computes a hash.
func TestEndOfInputDuringHash(t *testing.T) {
	h, err := start(command())
	if err != nil {
		t.Fatal(err)
	}
	if err := h.encoder.Encode(Job{Scheme: "BCRYPT", Stored: slowValue, Password: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(300 * time.Millisecond) // most likely, the hash has begun
	h.to.Close()
	var o Outcome
	if err := h.decoder.Decode(&o); !errors.Is(err, io.EOF) {
		t.Errorf("it went on to the outcome %v, %v", o, err)
	}
	if err := h.cmd.Wait(); err != nil {
		t.Error(err)
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
