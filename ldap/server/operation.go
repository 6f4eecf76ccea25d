package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/ldap/wire"
)

var (
	errCanceled  = fmt.Errorf("the client has canceled the operation: %w", context.Canceled)
	errAbandoned = fmt.Errorf("the client has abandoned the operation: %w", context.Canceled)
	errGone      = fmt.Errorf("the client takes no more answers: %w", context.Canceled)
	errAnswered  = errors.New("the operation was answered already")
)

// The values of an operation's state. The state is what the client or the server has last
// requested for the operation.
const (
	wanted    int32 = iota
	canceled        // by Cancel: the operation should end soon, with an answer
	abandoned       // by Abandon, Bind or the end of the connection: nobody waits for an answer
	stopped         // the connection ends, and the operation, persistent or a Bind, would not end soon by itself
)

// An operation is a request being served. An operation is also the request's context, and
// the [sink] that receives the request's answers.
//
// An operation has an inner context, which can be canceled. The inner context is made
// when it is first needed, because most operations end without it.
type operation struct {
	conn    *conn
	message *op.Message
	octets  int          // octets of the message
	drawn   int64        // memory drawn for the message and the operation
	left    bool         // a goroutine other than the reader runs it; guarded by conn.ops.mu
	done    bool         // answered; guarded by conn.out.mu
	sent    atomic.Bool  // like done, but needs no lock: the client may have its answer
	gaveUp  bool         // answered with canceled; guarded by conn.out.mu
	stays   bool         // persistent: Persist was called; guarded by conn.ops.mu
	state   atomic.Int32 // wanted, canceled, abandoned or stopped
	notice  *op.Result   // the answer if the operation is stopped; set before state
	// canceler is the Cancel that waits for this operation; guarded by conn.ops.mu.
	canceler *operation

	mu     sync.Mutex
	ctx    context.Context // made by context
	cancel context.CancelCauseFunc
}

// stop sets the operation's state and ends its context.
func (o *operation) stop(state int32) {
	o.state.Store(state)
	o.release()
}

// release ends the inner context, if there is one.
func (o *operation) release() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.cancel != nil {
		o.cancel(o.cause())
	}
}

// cause returns the cause with which the inner context ends. The server answers a
// stopped operation with this cause.
func (o *operation) cause() error {
	if o.state.Load() == stopped && o.notice != nil {
		return o.notice
	}
	if e := o.conn.ops.ended.Load(); e != nil {
		return e.cause()
	}
	return nil
}

// over reports whether the operation should end soon, if not because of the server's context.
func (o *operation) over() bool { return o.state.Load() != wanted || o.conn.ops.ended.Load() != nil }

func (o *operation) context() context.Context {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ctx == nil {
		o.ctx, o.cancel = context.WithCancelCause(o.conn.server.ctx)
	}
	if o.over() {
		o.cancel(o.cause())
	}
	return o.ctx
}

// Deadline, Done, Err and Value implement context.Context. Contexts that are derived
// from the operation attach to the inner context, because Value and Done are those of
// the inner context. (Package context calls Done before it looks for the context to attach to.)
// Value alone makes the inner context only to say why the operation should end, because each search asks for
// its span.

func (o *operation) Deadline() (time.Time, bool) { return o.conn.server.ctx.Deadline() }

func (o *operation) Done() <-chan struct{} { return o.context().Done() }

func (o *operation) Value(key any) any {
	if o.over() {
		return o.context().Value(key)
	}
	o.mu.Lock()
	ctx := o.ctx
	o.mu.Unlock()
	if ctx == nil {
		ctx = o.conn.server.ctx
	}
	return ctx.Value(key)
}

func (o *operation) Err() error {
	if o.over() {
		return o.context().Err()
	}
	return o.conn.server.ctx.Err()
}

// run serves an operation. If the operation panics, run answers it, and the connection
// ends.
func (c *conn) run(o *operation) {
	defer func() {
		if p := recover(); p != nil {
			c.panicked(p, o.message.Request)
			c.fail(o)
		}
	}()
	c.session.Serve(o, o.message, (*sink)(o))
	if (*sink)(o).owed() {
		c.log().Error("a request was not answered", "request", fmt.Sprintf("%T", o.message.Request))
		c.fail(o)
	}
}

// fail answers an operation that would otherwise stay unanswered.
func (c *conn) fail(o *operation) {
	(*sink)(o).Done(&op.Response{Result: op.Result{Code: op.Other, Diagnostic: "internal error: see the server's log"}})
}

// A sink is an operation in the role of an op.Sink.
type sink operation

func (s *sink) Entry(e *op.SearchEntry) error {
	n, err := s.room(e)
	if err != nil {
		return err
	}
	defer s.conn.memory.giveBack(n)
	out := &s.conn.out
	out.mu.Lock()
	defer out.mu.Unlock()
	if err := s.check(); err != nil {
		return err
	}
	out.begin()
	*out.buf = slices.Grow(*out.buf, int(n))
	*out.buf = wire.AppendEntry(*out.buf, s.message.ID, e)
	return out.added(false)
}

func (s *sink) Reference(urls []string, controls []op.Control) error {
	out := &s.conn.out
	out.mu.Lock()
	defer out.mu.Unlock()
	if err := s.check(); err != nil {
		return err
	}
	out.begin()
	*out.buf = wire.AppendReference(*out.buf, s.message.ID, urls, controls)
	return out.added(false)
}

func (s *sink) Intermediate(oid string, value []byte, controls []op.Control) error {
	out := &s.conn.out
	out.mu.Lock()
	defer out.mu.Unlock()
	if err := s.check(); err != nil {
		return err
	}
	out.begin()
	*out.buf = wire.AppendIntermediate(*out.buf, s.message.ID, oid, value, controls)
	return out.added(false)
}

func (s *sink) Done(r *op.Response) error {
	out := &s.conn.out
	out.mu.Lock()
	defer out.mu.Unlock()
	if err := s.check(); err != nil && err != errCanceled {
		return err
	}
	out.begin()
	*out.buf = wire.AppendResponse(*out.buf, s.message.ID, s.message.Request, r)
	s.done, s.gaveUp = true, r.Code == op.Canceled
	s.sent.Store(true)
	return out.added(true)
}

// Notify implements op.Notifier.
func (s *sink) Notify(r *op.Response) error {
	out := &s.conn.out
	out.mu.Lock()
	defer out.mu.Unlock()
	if out.err != nil {
		return errGone
	}
	out.begin()
	*out.buf = wire.AppendUnsolicited(*out.buf, r)
	return out.added(false)
}

// check returns why the operation cannot send an answer, or nil. If check returns
// errCanceled, Done can still send the last answer. The caller must hold the output's lock.
func (s *sink) check() error {
	switch {
	case s.done:
		return errAnswered
	case s.conn.out.err != nil:
		return errGone
	}
	switch s.state.Load() {
	case canceled:
		return errCanceled
	case abandoned:
		return errAbandoned
	}
	return nil
}

// owed reports whether the client still waits for an answer and the answer can be sent.
func (s *sink) owed() bool {
	s.conn.out.mu.Lock()
	defer s.conn.out.mu.Unlock()
	err := s.check()
	return (err == nil || err == errCanceled) && s.conn.ops.ended.Load() == nil && s.conn.server.ctx.Err() == nil
}
