// Package hasher computes slow password hashes in a separate process. While the server uses all
// CPUs, the operating system runs that process rarely. The server's garbage collector does not
// have to scan the memory of hashes (docs/decisions/0019).
//
// [Process] is the server's side and implements auth.Hasher. [Serve] is the side of the
// separate process. They talk over the process's standard input and output. A process
// is started for the first password that needs a slow hash, and another if a second hash is
// needed at the same time. A process ends at once when its input is closed, and therefore also
// when the server dies, even while it computes a hash.
package hasher

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os/exec"
	"sync"
	"time"

	"github.com/seed-4dac0d86/ldapd/directory/auth"
)

// A Process computes hashes in processes that command starts, as many as there are hashes at the
// same time. If a process dies, for example because verifying a stored hash needs more memory than
// the system has, Process starts another. If it cannot start one, it computes the hash in the
// calling process. A hash whose context ends is ended with its process.
type Process struct {
	command func() *exec.Cmd
	log     *slog.Logger
	warn    sync.Once

	mu     sync.Mutex
	idle   []*helper
	all    map[*helper]bool
	ended  sync.WaitGroup // counts the processes
	closed bool
}

// New returns a Process that runs command. The program of command must call [Serve].
func New(command func() *exec.Cmd, log *slog.Logger) *Process {
	return &Process{command: command, log: log, all: map[*helper]bool{}}
}

// Verify implements auth.Hasher.
func (p *Process) Verify(ctx context.Context, scheme string, stored, password []byte) (bool, error) {
	out, err := p.do(ctx, Job{Scheme: scheme, Stored: stored, Password: password})
	return out.Fits, err
}

// Hash implements auth.Hasher.
func (p *Process) Hash(ctx context.Context, scheme string, password []byte) ([]byte, error) {
	out, err := p.do(ctx, Job{Make: true, Scheme: scheme, Password: password})
	return out.Hash, err
}

// longest is the time after which a hash is ended. The limits of package auth let a hash take a
// few seconds of CPU time.
const longest = time.Minute

var errLongest = fmt.Errorf("a password hash took longer than %v", longest)

// do does a job. If the process dies, do tries once more with another, because the process may
// have died before the job reached it.
func (p *Process) do(ctx context.Context, j Job) (out Outcome, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, longest, errLongest)
	defer cancel()
	for range 2 {
		var h *helper
		if h, err = p.take(); err != nil {
			p.missing(err)
			out = do(j)
			return out, out.err()
		}
		if out, err = h.call(ctx, j); err == nil {
			p.put(h)
			return out, out.err()
		}
		p.drop(h)
		if ctx.Err() != nil {
			return Outcome{}, context.Cause(ctx)
		}
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

// take returns an idle process, and starts one if none is idle. The caller must call put or drop.
func (p *Process) take() (*helper, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errClosed
	}
	if last := len(p.idle) - 1; last >= 0 {
		h := p.idle[last]
		p.idle = p.idle[:last]
		return h, nil
	}
	h, err := start(p.command())
	if err != nil {
		return nil, err
	}
	p.all[h] = true
	p.ended.Go(func() {
		h.cmd.Wait() // error ignored: the operating system reports why the process died
	})
	return h, nil
}

func (p *Process) put(h *helper) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = append(p.idle, h)
}

// drop ends a process that does not answer.
func (p *Process) drop(h *helper) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.all, h)
	h.end()
}

// Close ends the processes.
func (p *Process) Close() {
	p.mu.Lock()
	p.closed = true
	for h := range p.all {
		h.end()
	}
	p.mu.Unlock()
	p.ended.Wait()
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
		o.Hash, err = auth.Here.Hash(context.Background(), j.Scheme, j.Password)
	} else {
		o.Fits, err = auth.Here.Verify(context.Background(), j.Scheme, j.Stored, j.Password)
	}
	switch {
	case errors.Is(err, auth.ErrScheme):
		o.Unreadable = true
	case err != nil:
		o.Failed = err.Error()
	}
	return o
}

// Serve does the jobs that arrive on the stream in, until the stream ends. It does not wait for a
// job in progress then: the caller must end the process. It runs at low CPU priority.
func Serve(in io.Reader, out io.Writer) error {
	if err := yield(); err != nil {
		return err
	}
	return serve(in, out)
}
