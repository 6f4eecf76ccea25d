// Package hasher computes slow password hashes in a separate process. While the server uses all
// CPUs, the operating system runs that process rarely. The server's garbage collector does not
// have to scan the memory of hashes (docs/decisions/0019).
//
// [Process] is the server's side and implements auth.Hasher. [Serve] is the side of the
// separate process. They talk over the process's standard input and output. The process
// is started for the first password that needs a slow hash. The process ends when its
// input is closed, and therefore also when the server dies.
package hasher

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os/exec"
	"sync"

	"github.com/seed-4dac0d86/ldapd/auth"
)

// A Process computes hashes in a process that command starts. If that process dies, for example
// because verifying a stored hash needs more memory than the system has, Process starts
// another. If it cannot start one, it computes the hash in the calling process.
type Process struct {
	command func() *exec.Cmd
	log     *slog.Logger
	warn    sync.Once

	mu      sync.Mutex
	running *helper // nil if none is running
	closed  bool
}

type helper struct {
	*caller
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
}

// New returns a Process that runs command. The program of command must call [Serve].
func New(command func() *exec.Cmd, log *slog.Logger) *Process {
	return &Process{command: command, log: log}
}

// Verify implements auth.Hasher.
func (p *Process) Verify(scheme string, stored, password []byte) (bool, error) {
	out, err := p.do(Job{Scheme: scheme, Stored: stored, Password: password})
	return out.Fits, err
}

// Hash implements auth.Hasher.
func (p *Process) Hash(scheme string, password []byte) ([]byte, error) {
	out, err := p.do(Job{Make: true, Scheme: scheme, Password: password})
	return out.Hash, err
}

// do does a job. If the process dies, do tries once more, because another job may have
// killed the process.
func (p *Process) do(j Job) (out Outcome, err error) {
	for range 2 {
		var h *helper
		if h, err = p.helper(); err != nil {
			p.missing(err)
			out = do(j)
			return out, out.err()
		}
		if out, err = h.call(j); err == nil {
			return out, out.err()
		}
		p.drop(h)
	}
	return Outcome{}, fmt.Errorf("the process that makes password hashes has died: %w", err)
}

// missing logs err, which is the reason why this process computes hashes itself. It logs only
// the first such reason. If the Process was closed, missing logs nothing.
func (p *Process) missing(err error) {
	if err != errClosed {
		p.warn.Do(func() {
			p.log.Warn("slow password hashes are made by the server itself, and take time from others", "error", err)
		})
	}
}

var errClosed = errors.New("closed")

// helper returns the running process, and starts one if none is running.
func (p *Process) helper() (*helper, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return nil, errClosed
	case p.running != nil:
		return p.running, nil
	}
	h, err := start(p.command())
	if err == nil {
		p.running = h
	}
	return h, err
}

func start(cmd *exec.Cmd) (*helper, error) {
	apart(cmd)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	h := &helper{newCaller(out, in), cmd, make(chan struct{})}
	go func() {
		defer close(h.done)
		cmd.Wait() // error ignored: the operating system reports why the process died
	}()
	return h, nil
}

// drop ends h, which does not answer, so that the next job starts another process.
func (p *Process) drop(h *helper) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running == h {
		p.running = nil
	}
	h.end()
}

func (h *helper) end() {
	h.to.Close()
	h.cmd.Process.Kill()
	<-h.done
}

// Close ends the process.
func (p *Process) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	if p.running != nil {
		p.running.end()
		p.running = nil
	}
}

// A Job is one hash to compute or to verify.
type Job struct {
	Make             bool
	Scheme           string
	Stored, Password []byte
}

// An Outcome is the result of a Job.
type Outcome struct {
	Fits       bool
	Unreadable bool // the error is auth.ErrScheme
	Failed     string
	Hash       []byte
}

func (o *Outcome) err() error {
	switch {
	case o.Unreadable:
		return auth.ErrScheme
	case o.Failed != "":
		return errors.New(o.Failed)
	}
	return nil
}

// do does a job in this process.
func do(j Job) (o Outcome) {
	var err error
	if j.Make {
		o.Hash, err = auth.Here.Hash(j.Scheme, j.Password)
	} else {
		o.Fits, err = auth.Here.Verify(j.Scheme, j.Stored, j.Password)
	}
	switch {
	case errors.Is(err, auth.ErrScheme):
		o.Unreadable = true
	case err != nil:
		o.Failed = err.Error()
	}
	return o
}

// Serve does the jobs that arrive on the stream in, until the stream ends. It runs at low CPU
// priority.
func Serve(in io.Reader, out io.Writer) error {
	if err := yield(); err != nil {
		return err
	}
	return serve(in, out)
}
