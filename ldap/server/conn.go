package server

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/seed-4dac0d86/ldapd/ldap/control"
	"github.com/seed-4dac0d86/ldapd/ldap/monitor"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/ldap/server/peer"
	"github.com/seed-4dac0d86/ldapd/ldap/wire"
)

// A conn is one connection. The package comment describes which goroutine runs what.
type conn struct {
	server  *Server
	nc      transport
	tls     *tls.Conn // TLS over nc; owned by the reader
	info    *ConnInfo
	address netip.Addr // address for which the connection is counted; guarded by server.mu
	traffic *monitor.Listener
	session Session
	bound   atomic.Bool     // an identity is bound
	ctx     context.Context // context of the connection's operations
	cancel  context.CancelCauseFunc

	// The field in is the buffer few, or a larger buffer from busyReaders that reads from few.
	// Only the reader uses this field.
	in       *bufio.Reader
	few      *bufio.Reader // small buffer over the connection
	burst    int           // octets of messages since the reader last waited
	octets   int           // octets of the last message read; owned by the reader
	drawn    int64         // memory drawn for the last message read, unless an operation has it; owned by the reader
	memory   budget        // memory that the connection has drawn
	out      output
	requests atomic.Uint64          // number of requests read so far
	ending   atomic.Pointer[ending] // why the reader has to end the connection
	// workers counts the operations that run in goroutines other than the reader.
	workers sync.WaitGroup
	idle    idleness // owned by the reaper

	armed atomic.Bool // tick will be called

	mu      sync.Mutex
	ops     []*operation // outstanding operations; searched linearly, because they are few
	waiting queue        // the outstanding operations that have not begun
	inline  *operation   // the operation that the reader runs
	seen    *operation   // the value of inline at the last tick
}

func newConn(s *Server, nc net.Conn, l *monitor.Listener) *conn {
	c := &conn{server: s, traffic: l, few: bufio.NewReaderSize(nc, fewOctets)}
	c.in = c.few
	c.nc.Conn = nc
	c.out.conn, c.out.w = c, &c.nc
	c.ctx, c.cancel = context.WithCancelCause(s.ctx)
	c.info = &ConnInfo{Local: nc.LocalAddr(), Addr: nc.RemoteAddr()}
	return c
}

// open does what precedes the first LDAP message (limits, PROXY header, TLS), and begins
// the session.
func (c *conn) open(secure bool) error {
	c.info.uid, c.info.gid = peer.IDs(c.nc.Conn)
	keepAlive(c.nc.Conn, c.server.options().KeepAlive)
	if secure {
		c.out.secure(nil, errNoTLS)
	}
	if err := c.proxied(); err != nil {
		return err
	}
	if e := c.server.addAddress(c); e != nil {
		c.stop(e)
		return errEnding
	}
	if secure {
		if err := c.handshake(); err != nil {
			return err
		}
	}
	c.session = c.server.handler.NewSession(c.info)
	return nil
}

// read runs the reader's loop. It returns when the connection has ended, or when another
// goroutine has become the reader.
func (c *conn) read() {
	defer c.endAfterPanic()
	for {
		m, err := c.next()
		if err == nil {
			var reader bool
			if reader, err = c.handle(m); !reader {
				return
			}
		}
		if err != nil {
			c.end(err)
			return
		}
	}
}

// next returns the next valid request. It answers requests whose contents are invalid.
func (c *conn) next() (*op.Message, error) {
	for {
		if c.ending.Load() != nil {
			return nil, errEnding
		}
		c.forget()
		m, err := c.decoded()
		if err == nil {
			return m, nil
		}
		var refusal *wire.Refusal
		if !errors.As(err, &refusal) {
			return nil, err
		}
		c.answer(refusal.Message, &op.Response{Result: *refusal.Result})
	}
}

// decoded reads and decodes one message.
func (c *conn) decoded() (*op.Message, error) {
	b, err := c.message()
	if err != nil {
		return nil, err
	}
	c.requests.Add(1)
	c.octets = len(b)
	c.traffic.Received.Add(float64(len(b)))
	if err := c.drawParts(b); err != nil {
		return nil, err
	}
	return wire.Decode(b)
}

// answer answers a request that is not passed to the session.
func (c *conn) answer(m *op.Message, r *op.Response) {
	defer c.contain(m.Request)
	c.out.respond(m, r)
	c.session.Answered(m, r)
}

// handle runs a request, starts a goroutine for it, or puts it into the queue. If reader
// is false, another goroutine became the reader while handle ran the request. If err is
// not nil, the caller must end the connection.
func (c *conn) handle(m *op.Message) (reader bool, err error) {
	switch r := m.Request.(type) {
	case *op.Unbind:
		c.server.options().Traffic.Unanswered(monitor.Unbind)
		return true, errUnbind
	case *op.Abandon:
		c.server.options().Traffic.Unanswered(monitor.Abandon)
		c.abandon(r.MessageID)
		return true, nil
	case *op.Bind:
		return true, c.bind(m)
	case *op.Extended:
		switch r.OID {
		case control.OIDStartTLS:
			if c.server.options().TLS != nil {
				return true, c.startTLS(m)
			}
		case control.OIDCancel:
			return true, c.cancelOperation(m)
		}
	}
	o := &operation{conn: c, message: m, octets: c.octets}
	how, err := c.admit(o)
	if err != nil {
		return true, err
	}
	switch how {
	case inGoroutine:
		go c.work(o)
		return true, nil
	case queued:
		return true, nil
	}
	c.arm()
	c.run(o)
	return c.finish(o), nil
}

// A how is a way to run an operation.
type dispatch int

const (
	// The reader runs the operation. If the operation takes long, tick starts a new reader.
	byReader dispatch = iota
	// A new goroutine runs the operation.
	inGoroutine
	// The operation is not run now. It waits in the queue, or the queue was full and the
	// operation is refused.
	queued
)

// admit makes an operation outstanding and decides how to run it. If the queue is full,
// admit answers the operation with busy instead.
func (c *conn) admit(o *operation) (dispatch, error) {
	how, refusal, err := c.enter(o)
	if refusal != nil {
		c.answer(o.message, &op.Response{Result: *refusal})
	}
	return how, err
}

func (c *conn) enter(o *operation) (dispatch, *op.Result, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.unused(o.message.ID); err != nil {
		return 0, nil, err
	}
	if r, ok := c.session.(Receiver); ok {
		r.Receive(o.message)
	}
	how, refusal := c.place(o)
	if refusal == nil {
		c.ops = append(c.ops, o)
		o.drawn, c.drawn = c.drawn, 0
	}
	return how, refusal, nil
}

// place decides how to run an operation. The decision depends on the request, on the
// connection's other operations, and on whether more input has arrived. The caller must hold
// c.mu.
func (c *conn) place(o *operation) (dispatch, *op.Result) {
	if len(c.ops) > 0 {
		switch running := c.running(); {
		case running >= c.mostOutstanding() && o.message.Received == nil:
			return queued, c.enqueue(o)
		case running > 0 && waits(o.message.Request):
			c.workers.Add(1)
			return inGoroutine, nil
		}
	}
	if waits(o.message.Request) && c.unread() > 0 {
		c.workers.Add(1)
		return inGoroutine, nil
	}
	c.inline = o
	return byReader, nil
}

// mostOutstanding returns how many operations may run at once. A session may have a lower
// limit than the server.
func (c *conn) mostOutstanding() int {
	most := c.server.options().MaxOutstanding
	if n := c.session.Outstanding(); n > 0 && n < most {
		return n
	}
	return most
}

// waits reports whether a request most likely waits for something other than a CPU.
func waits(r op.Request) bool {
	switch r.(type) {
	case *op.Search, *op.Compare:
		return false
	}
	return true
}

// unused returns an error if an outstanding operation has the id (RFC 4511, 4.1.1.1). An
// answered operation may still be listed for a moment. The client may already have the
// answer and use the id again, so unused ignores answered operations. The caller must
// hold c.mu.
func (c *conn) unused(id int32) error {
	if o := c.find(id); o == nil || o.sent.Load() {
		return nil
	}
	return &wire.Error{Err: fmt.Errorf("message ID %d is that of an operation still outstanding", id)}
}

// remove removes an operation from the outstanding operations. The caller must hold c.mu.
func (c *conn) remove(o *operation) {
	i := slices.Index(c.ops, o)
	last := len(c.ops) - 1
	c.ops[i], c.ops[last] = c.ops[last], nil
	c.ops = c.ops[:last]
	c.giveBack(o.drawn)
	o.drawn = 0
}

// find returns the outstanding operation with the given id, or nil. If there are two, it
// returns the one that is not yet answered. The caller must hold c.mu.
func (c *conn) find(id int32) (found *operation) {
	for _, o := range c.ops {
		if o.message.ID == id && (found == nil || found.sent.Load()) {
			found = o
		}
	}
	return found
}

// bind abandons the outstanding searches, waits until no other operation runs, and then
// runs a Bind.
func (c *conn) bind(m *op.Message) error {
	o := &operation{conn: c, message: m}
	c.mu.Lock()
	err := c.unused(m.ID)
	if err == nil {
		c.ops = append(c.ops, o)
	}
	c.mu.Unlock()
	if err != nil {
		return err
	}
	c.drain(&ending{grace: cancelSearches})
	c.out.flush() // so that earlier answers do not wait for a slow password hash
	c.run(o)
	c.bound.Store(c.session.Name() != "")
	c.finish(o)
	return nil
}

// binding returns the Bind that is outstanding, or nil. The caller must hold c.mu.
func (c *conn) binding() *operation {
	for _, o := range c.ops {
		if _, bind := o.message.Request.(*op.Bind); bind {
			return o
		}
	}
	return nil
}

// abandon abandons an operation. A Cancel cannot be abandoned (RFC 3909, 3). Bind and
// StartTLS cannot be abandoned either (RFC 4511, 4.11). abandon does not check for them,
// because the reader reads nothing while a Bind or StartTLS is outstanding.
func (c *conn) abandon(id int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if o := c.find(id); o != nil && !o.isCancel() {
		o.stop(abandoned)
		if c.leaveQueue(o) {
			c.remove(o)
		}
	}
}

// work runs an operation in a goroutine other than the reader's.
func (c *conn) work(o *operation) {
	o.left = true
	c.run(o)
	c.finish(o)
}

// finish ends an operation after run. It reports whether the calling goroutine, which
// ran the operation, is still the reader.
func (c *conn) finish(o *operation) (reader bool) {
	reader = c.leave(o)
	o.release()
	if o.canceler != nil {
		c.answerCanceler(o)
	}
	if !reader {
		c.flush()
		c.workers.Done()
	}
	return reader
}

// leave removes an operation from the outstanding operations, and also the Cancel that
// waits for it, if any. Then it starts waiting operations. It reports whether the
// calling goroutine, which ran the operation, is still the reader.
func (c *conn) leave(o *operation) (reader bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(o)
	if o.canceler != nil {
		c.remove(o.canceler)
	}
	if c.inline == o {
		c.inline = nil
	}
	c.startWaiting()
	return !o.left
}

// flush writes the buffered output.
func (c *conn) flush() {
	defer c.contain(nil)
	c.out.flush()
}
