package handoff

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"github.com/seed-4dac0d86/ldapd/ldap/server/peer"
	"github.com/seed-4dac0d86/ldapd/store/pause"
)

// A Listener receives requests of tools.
type Listener struct {
	folder openFolder
	l      *net.UnixListener
	log    *slog.Logger
}

// Listen listens in the folder of a store. The caller must hold the folder's lock.
func Listen(folder string, log *slog.Logger) (*Listener, error) {
	f, err := openPath(folder)
	if err != nil {
		return nil, err
	}
	l, err := f.listen()
	if err != nil {
		f.Close()
		return nil, err
	}
	return &Listener{f, l, log}, nil
}

// Serve does the work that tools request. When ctx ends, Serve cancels the work in
// progress, waits for its end, and removes the socket. If do returns a *Failure, the
// tool receives it unchanged; any other error is sent as a new Failure.
func (l *Listener) Serve(ctx context.Context, do func(context.Context, *Call) error) {
	defer l.folder.Close()
	stop := context.AfterFunc(ctx, func() { l.l.Close() })
	defer stop()
	var calls sync.WaitGroup
	for {
		c, err := l.l.AcceptUnix()
		switch {
		case err == nil:
			calls.Go(func() { l.serve(ctx, c, do) })
			continue
		case ctx.Err() == nil && pause.For(ctx, 100*time.Millisecond) == nil: // too many open files, perhaps
			l.log.Warn("a tool could not be heard", "error", err)
			continue
		}
		if err := l.folder.remove(); err != nil {
			l.log.Warn("the socket for tools stays", "error", err)
		}
		calls.Wait()
		return
	}
}

// requestTime is how long a tool may take to send its request.
const requestTime = 10 * time.Second

// serve serves one tool.
func (l *Listener) serve(ctx context.Context, c *net.UnixConn, do func(context.Context, *Call) error) {
	defer c.Close()
	uid, _ := peer.IDs(c)
	if uid == nil || *uid != os.Geteuid() && *uid != 0 {
		l.log.Warn("a stranger asked for a tool's work", "uid", uid)
		return
	}
	var r request
	c.SetReadDeadline(time.Now().Add(requestTime))
	files, err := receive(c, &r)
	c.SetReadDeadline(time.Time{})
	if err != nil || len(files) != 2 {
		closeAll(files)
		l.log.Warn("what a tool asked for was not understood", "error", err)
		return
	}
	call := &Call{
		Work: r.Work, Args: r.Args, Terminal: r.Terminal, Stdout: files[0], Stderr: files[1],
		c: c, answers: make(chan answered), files: files,
	}
	call.run(ctx, l.log, do)
}

// A Call is work that a tool has requested.
type Call struct {
	Work           string
	Args           json.RawMessage
	Terminal       bool // the tool's standard error is a terminal
	Stdout, Stderr io.Writer

	c       *net.UnixConn
	asking  sync.Mutex    // held from a question until its answer
	answers chan answered // closed when the tool sends no more

	mu      sync.Mutex
	files   []*os.File // the tool's files, standard output and error first
	givenUp bool
}

type answered struct {
	answer
	file *os.File
}

var errGone = errors.New("cancelled by the tool")

// run does the work and sends its result.
func (c *Call) run(stopping context.Context, log *slog.Logger, do func(context.Context, *Call) error) {
	ctx, cancel := context.WithCancelCause(stopping)
	defer cancel(nil)
	go func() { // the goroutine ends when the connection is closed
		defer close(c.answers)
		c.listen(ctx)
		cancel(errGone)
	}()
	stop := context.AfterFunc(ctx, c.giveUp)
	defer stop()
	log.Info("a tool's work begins", "work", c.Work)
	begun := time.Now()
	err := c.guarded(ctx, log, do)
	log.Info("a tool's work ends", "work", c.Work, "time", time.Since(begun), "done", err == nil)
	if err != nil && stopping.Err() != nil {
		err = fmt.Errorf("the server is stopping: %w", err)
	}
	c.mu.Lock()
	closeAll(c.files)
	c.mu.Unlock()
	if err := send(c.c, question{End: true, Failure: failure(err)}); err != nil && ctx.Err() == nil {
		log.Warn("a tool did not wait for the end", "work", c.Work, "error", err)
	}
}

// guarded calls do and turns a panic into an error, so that a tool's work cannot end
// the server.
func (c *Call) guarded(ctx context.Context, log *slog.Logger, do func(context.Context, *Call) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			log.Error("a tool's work failed", "work", c.Work, "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("internal error: %v; the server's log has more", p)
		}
	}()
	return do(ctx, c)
}

func failure(err error) *Failure {
	if err == nil {
		return nil
	}
	var f *Failure
	if errors.As(err, &f) {
		return f
	}
	return &Failure{Text: err.Error()}
}

// listen receives answers until the tool sends no more.
func (c *Call) listen(ctx context.Context) {
	for {
		var a answered
		files, err := receive(c.c, &a.answer)
		if err == nil && len(files) == 1 {
			a.file, files = files[0], nil
		}
		closeAll(files)
		if err != nil {
			return
		}
		select {
		case c.answers <- a:
		case <-ctx.Done():
			if a.file != nil {
				a.file.Close()
			}
			return
		}
	}
}

// lastWords is how long cancelled work may still wait for a tool that does not read the
// output or does not send input.
var lastWords = 2 * time.Second

// giveUp sets a deadline for all further reads and writes of the tool's files.
func (c *Call) giveUp() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.givenUp = true
	for _, f := range c.files {
		f.SetDeadline(time.Now().Add(lastWords)) // works for pipes; regular files need no deadline
	}
}

// Open opens a file on the tool's side for reading. The name may be Stdin.
func (c *Call) Open(name string) (*os.File, error) { return c.ask(question{Open: name}) }

// Create creates a file on the tool's side.
func (c *Call) Create(name string) (*os.File, error) { return c.ask(question{Create: name}) }

// ask requests a file from the tool.
func (c *Call) ask(q question) (*os.File, error) {
	c.asking.Lock()
	defer c.asking.Unlock()
	if err := send(c.c, q); err != nil {
		return nil, err
	}
	a, ok := <-c.answers
	switch {
	case !ok:
		return nil, errGone
	case a.file == nil:
		return nil, errors.New(a.Error)
	}
	c.keep(a.file)
	return a.file, nil
}

// keep records a file, which run closes when the work ends.
func (c *Call) keep(f *os.File) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.files = append(c.files, f)
	if c.givenUp {
		f.SetDeadline(time.Now().Add(lastWords))
	}
}
