package handoff

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
)

// Ask makes the server that holds a folder do some work. Ask returns a *Failure if the
// work failed, and ErrNobody if no server that may be trusted listens in the folder. When ctx
// ends, Ask cancels the work and waits until it has ended.
func Ask(ctx context.Context, folder string, r Request) error {
	f, err := openPath(folder)
	if err != nil {
		return err
	}
	defer f.Close()
	c, err := f.dial()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNobody, err)
	}
	defer c.Close()
	a := &asker{Request: r, c: c}
	defer a.close()
	if err := a.begin(); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { c.CloseWrite() })
	defer stop()
	return a.follow()
}

// An asker is the tool's side of a request.
type asker struct {
	Request
	c       *net.UnixConn
	outputs sync.WaitGroup
	mu      sync.Mutex
	failed  error      // error of writing the output
	inputs  []*os.File // write ends of the pipes for the work's input
}

// begin sends the request, and starts to copy the work's output to its destination.
func (a *asker) begin() error {
	args, err := json.Marshal(a.Args)
	if err != nil {
		return err
	}
	stdout, err := a.output(a.Stdout)
	if err != nil {
		return err
	}
	defer stdout.Close()
	stderr, err := a.output(a.Stderr)
	if err != nil {
		return err
	}
	defer stderr.Close()
	return send(a.c, request{a.Work, args, a.Terminal}, stdout, stderr)
}

// output returns a pipe that is copied to w. If writing to w fails, the pipe breaks, so
// the work fails and ends.
func (a *asker) output(w io.Writer) (*os.File, error) {
	in, out, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	a.outputs.Go(func() {
		defer in.Close()
		if _, err := io.Copy(w, in); err != nil {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.failed = err
		}
	})
	return out, nil
}

// follow answers questions until the work has ended.
func (a *asker) follow() error {
	for {
		var q question
		files, err := receive(a.c, &q)
		closeAll(files)
		if err != nil {
			return errors.New("the server went away before it said how the work ended")
		}
		if q.End {
			a.outputs.Wait()
			if a.failed != nil {
				return a.failed
			}
			if q.Failure == nil {
				return nil
			}
			return q.Failure
		}
		a.answer(q) // if the server has ended, the next receive reports that
	}
}

// answer sends the requested file.
func (a *asker) answer(q question) {
	f, err := a.file(q)
	if err != nil {
		send(a.c, answer{err.Error()})
		return
	}
	defer f.Close()
	send(a.c, answer{}, f)
}

func (a *asker) file(q question) (*os.File, error) {
	open, name := a.Open, q.Open
	switch {
	case name == Stdin && a.Stdin != nil:
		return a.input(io.NopCloser(a.Stdin))
	case name == "":
		open, name = a.Create, q.Create
	}
	if open == nil {
		return nil, errors.New("the tool gives no such file")
	}
	f, err := open(name)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err != nil || st.Mode().IsRegular() || q.Open == "" {
		return f, err
	}
	return a.input(f)
}

// input returns a pipe to which r is copied until the work ends. If the goroutine that copies
// is blocked in a read from a terminal when the work ends, the goroutine stays until the
// process ends.
func (a *asker) input(r io.ReadCloser) (*os.File, error) {
	in, out, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	a.inputs = append(a.inputs, out)
	go func() {
		defer out.Close()
		defer r.Close()
		io.Copy(out, r)
	}()
	return in, nil
}

func (a *asker) close() {
	closeAll(a.inputs)
	a.outputs.Wait()
}
