package server

import (
	"io"
	"net"
	"sync"

	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/ldap/wire"
)

const (
	flushAt  = 32 << 10 // number of buffered octets at which the buffer is written
	poolSize = 40 << 10 // size of a new buffer, enough for flushAt and most messages
	keepSize = 64 << 10 // size above which a buffer is not kept
	maxWrite = 64 << 10 // largest single write, so that a slow client's progress is visible
)

// buffers are shared by all connections. A connection without output has no buffer.
var buffers = sync.Pool{New: func() any {
	b := make([]byte, 0, poolSize)
	return &b
}}

// An output contains the answers to be written, and the connection to write them to. A
// write holds the lock. If the client does not read, all goroutines with answers for the
// client wait, so that the amount of buffered output stays bounded.
type output struct {
	conn *conn

	mu  sync.Mutex
	w   io.Writer // the connection, or TLS over it
	buf *[]byte   // from buffers; nil: no output
	err error     // why nothing can be written any more
}

// begin gets a buffer. The caller then appends a message and calls added. The caller must
// hold the lock from begin to added.
func (o *output) begin() {
	if o.buf == nil {
		o.buf = buffers.Get().(*[]byte)
	}
}

// added writes the buffer if the buffer is large enough. Otherwise a tick writes the
// buffer soon. The last answer of an operation needs no tick, because the buffer is
// written soon after Serve has returned.
func (o *output) added(last bool) error {
	switch {
	case len(*o.buf) >= flushAt:
		if o.write() != nil {
			return errGone
		}
	case !last:
		o.conn.arm()
	}
	return nil
}

// respond answers a request that is not passed to the session.
func (o *output) respond(m *op.Message, r *op.Response) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		o.begin()
		*o.buf = wire.AppendResponse(*o.buf, m.ID, m.Request, r)
		o.added(true)
	}
}

// flush writes the buffered output.
func (o *output) flush() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.write()
}

// waiting reports whether there is output to be written. known is false if another
// goroutine holds the lock.
func (o *output) waiting() (waiting, known bool) {
	if !o.mu.TryLock() {
		return false, false
	}
	defer o.mu.Unlock()
	return o.buf != nil, true
}

// seal writes the buffered output and a notice, if any. Nothing can be added afterwards.
func (o *output) seal(notice *op.Result) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil && notice != nil {
		o.begin()
		*o.buf = wire.AppendNotice(*o.buf, notice)
	}
	o.write()
	if o.err == nil {
		o.err = net.ErrClosed
	}
}

// write writes the buffered output. The caller must hold the lock.
func (o *output) write() error {
	if o.buf == nil {
		return o.err
	}
	for rest := *o.buf; len(rest) > 0 && o.err == nil; {
		n := min(len(rest), maxWrite)
		_, o.err = o.w.Write(rest[:n])
		o.conn.traffic.Sent.Add(n)
		rest = rest[n:]
	}
	if cap(*o.buf) <= keepSize {
		*o.buf = (*o.buf)[:0]
		buffers.Put(o.buf)
	}
	o.buf = nil
	return o.err
}

// secure replaces the writer. If err is not nil, nothing can be written until the next
// call of secure.
func (o *output) secure(w io.Writer, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.w, o.err = w, err
}
