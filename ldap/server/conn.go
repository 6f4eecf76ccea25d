package server

import (
	"crypto/tls"
	"errors"
	"net"
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
	info    ConnInfo
	traffic *monitor.Listener
	session Session
	bound   atomic.Bool // an identity is bound
	armed   atomic.Bool // tick will be called
	counted bool        // for its address; guarded by server.mu
	memory  allowance
	in      input
	out     output
	ops     outstanding
	idle    idleness // owned by the reaper
}

func newConn(s *Server, nc net.Conn, l *monitor.Listener) *conn {
	c := &conn{server: s, traffic: l}
	c.nc.Conn = nc
	c.memory.server, c.in.conn, c.ops.conn = s, c, c
	c.out.conn, c.out.w = c, &c.nc
	c.unpark()
	c.info.Local, c.info.Addr = nc.LocalAddr(), nc.RemoteAddr()
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
	c.info.remote = c.info.Remote()
	c.session = c.server.handler.NewSession(&c.info)
	return nil
}

// read runs the reader's loop. It returns when the connection has ended or is parked, or when
// another goroutine has become the reader.
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
		switch err {
		case nil:
		case errPark:
			c.park()
			return
		default:
			c.end(err)
			return
		}
	}
}

// next returns the next valid request. It answers requests whose contents are invalid.
func (c *conn) next() (*op.Message, error) {
	for {
		if c.in.ending.Load() != nil {
			return nil, errEnding
		}
		c.in.forget()
		m, err := c.in.decoded()
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
		c.ops.abandon(r.MessageID)
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
	o := &operation{conn: c, message: m, octets: c.in.octets}
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

// admit makes an operation outstanding and decides how to run it. If the queue is full,
// admit answers the operation with busy instead.
func (c *conn) admit(o *operation) (dispatch, error) {
	how, refusal, err := c.ops.enter(o)
	if refusal != nil {
		c.answer(o.message, &op.Response{Result: *refusal})
	}
	return how, err
}

// bind abandons the outstanding searches, waits until no other operation runs, and then
// runs a Bind.
func (c *conn) bind(m *op.Message) error {
	o := &operation{conn: c, message: m}
	if err := c.ops.add(o); err != nil {
		return err
	}
	c.ops.drain(&ending{grace: cancelSearches})
	c.out.flush() // so that earlier answers do not wait for a slow password hash
	c.run(o)
	c.bound.Store(c.session.Name() != "")
	c.finish(o)
	if l := c.session.Layer(); l != nil {
		return c.protect(l)
	}
	return nil
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
	reader = c.ops.leave(o)
	o.release()
	if o.canceler != nil {
		c.answerCanceler(o)
	}
	if !reader {
		c.flush()
		c.ops.workers.Done()
	}
	return reader
}

// flush writes the buffered output.
func (c *conn) flush() {
	defer c.contain(nil)
	c.out.flush()
}
