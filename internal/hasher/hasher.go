// Package hasher makes slow password hashes in a process of its own, to which
// the operating system gives the time that the server leaves, and whose memory
// the server's collector does not have to look after (docs/decisions/0019).
//
// [Process] is the server's side, an auth.Hasher; [Serve] is the other one. They
// speak net/rpc over the process's standard input and output. It is started by
// the first password that needs it and ends with the server, whatever ends that:
// its input is closed then.
package hasher

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/rpc"
	"os/exec"
	"sync"

	"github.com/seed-4dac0d86/ldapd/auth"
)

// Process has hashes made by the process that a command starts. One that dies,
// since the system has no memory for a hash that somebody stored, is started
// again. Where none can be started, hashes are made here.
type Process struct {
	command func() *exec.Cmd
	log     *slog.Logger
	warn    sync.Once

	mu      sync.Mutex
	running *helper // nil: none
	closed  bool
}

type helper struct {
	*rpc.Client
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
}

// New makes a Process. The command's program calls [Serve].
func New(command func() *exec.Cmd, log *slog.Logger) *Process {
	return &Process{command: command, log: log}
}

// Verify is auth.Hasher's.
func (p *Process) Verify(scheme string, stored, password []byte) (bool, error) {
	out, err := p.do(Job{Scheme: scheme, Stored: stored, Password: password})
	return out.Fits, err
}

// Hash is auth.Hasher's.
func (p *Process) Hash(scheme string, password []byte) ([]byte, error) {
	out, err := p.do(Job{Make: true, Scheme: scheme, Password: password})
	return out.Hash, err
}

// do does a job. One whose process dies, be it of another job, has another try.
func (p *Process) do(j Job) (out Outcome, err error) {
	for range 2 {
		var h *helper
		if h, err = p.helper(); err != nil {
			p.missing(err)
			Service{}.Do(j, &out)
			return out, out.err()
		}
		if err = h.Call(serviceName+".Do", j, &out); err == nil {
			return out, out.err()
		}
		p.drop(h)
	}
	return Outcome{}, fmt.Errorf("the process that makes password hashes has died: %w", err)
}

// missing says once why the work is done here. When the server stops it is said
// anyway.
func (p *Process) missing(err error) {
	if err != errClosed {
		p.warn.Do(func() {
			p.log.Warn("slow password hashes are made by the server itself, and take time from others", "error", err)
		})
	}
}

var errClosed = errors.New("closed")

// helper returns the process that runs, or another one.
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
	h := &helper{rpc.NewClient(pipes{out, in}), cmd, make(chan struct{})}
	go func() {
		defer close(h.done)
		cmd.Wait() // what it died of is the operating system's to say
	}()
	return h, nil
}

// drop forgets a process that does not answer.
func (p *Process) drop(h *helper) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running == h {
		p.running = nil
	}
	h.end()
}

func (h *helper) end() {
	h.Close()
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

// pipes are a process's ends of both ways.
type pipes struct {
	io.Reader
	io.WriteCloser
}

const serviceName = "Hashing"

// A Job is one hash to make or to verify.
type Job struct {
	Make             bool
	Scheme           string
	Stored, Password []byte
}

// An Outcome is a Job's.
type Outcome struct {
	Fits       bool
	Unreadable bool // auth.ErrScheme
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

// Service does jobs.
type Service struct{}

// Do has the form of a method of net/rpc; what fails is in the Outcome.
func (Service) Do(j Job, o *Outcome) error {
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
	return nil
}

// Serve does what comes by in, with little claim to the CPU, until that ends.
func Serve(in io.Reader, out io.WriteCloser) error {
	if err := yield(); err != nil {
		return err
	}
	s := rpc.NewServer()
	if err := s.RegisterName(serviceName, Service{}); err != nil {
		return err
	}
	s.ServeConn(pipes{in, out})
	return nil
}
