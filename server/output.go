package server

import (
	"io"
	"net"
	"sync"

	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/wire"
)

const (
	flushAt  = 32 << 10 // octets in the buffer that are worth a write
	poolSize = 40 << 10 // what a buffer has room for: flushAt and most messages
	keepSize = 64 << 10 // a buffer that has grown beyond is not kept
	maxWrite = 64 << 10 // one write, so that a slow client's progress shows
)

// buffers are shared by all connections: one with nothing to say holds none.
var buffers = sync.Pool{New: func() any {
	b := make([]byte, 0, poolSize)
	return &b
}}

// An output is the answers that wait to be written, and the way out. Whoever
// writes holds the lock meanwhile, so that a client that does not read stops
// those who have more for it, and what waits stays bounded.
type output struct {
	conn *conn

	mu     sync.Mutex
	w      io.Writer // the connection, or TLS over it
	buf    []byte
	pooled *[]byte // where buf came from
	err    error   // nothing can be written any more
}

// begin gets a buffer. Then the caller appends a message and calls added. All of
// that needs the lock.
func (o *output) begin() {
	if o.pooled == nil {
		o.pooled = buffers.Get().(*[]byte)
		o.buf = (*o.pooled)[:0]
	}
}

// added writes the buffer if it is worth it. What the operation ended with is
// written when Serve returns; for everything else the ticker sees to it.
func (o *output) added(last bool) error {
	switch {
	case len(o.buf) >= flushAt:
		if o.write() != nil {
			return errGone
		}
	case !last:
		o.conn.arm()
	}
	return nil
}

// respond answers a request that never became an operation.
func (o *output) respond(m *op.Message, r *op.Response) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		o.begin()
		o.buf = wire.AppendResponse(o.buf, m.ID, m.Request, r)
		o.added(true)
	}
}

// flush writes what there is.
func (o *output) flush() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.write()
}

// waiting reports whether anything waits to be written. It is not known while
// someone else has the lock.
func (o *output) waiting() (waiting, known bool) {
	if !o.mu.TryLock() {
		return false, false
	}
	defer o.mu.Unlock()
	return o.pooled != nil, true
}

// seal writes what there is and a notice, if any; nothing can be added then.
func (o *output) seal(notice *op.Result) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil && notice != nil {
		o.begin()
		o.buf = wire.AppendNotice(o.buf, notice)
	}
	o.write()
	if o.err == nil {
		o.err = net.ErrClosed
	}
}

// write needs the lock.
func (o *output) write() error {
	if o.pooled == nil {
		return o.err
	}
	for rest := o.buf; len(rest) > 0 && o.err == nil; {
		n := min(len(rest), maxWrite)
		_, o.err = o.w.Write(rest[:n])
		o.conn.traffic.Sent.Add(float64(n))
		rest = rest[n:]
	}
	if cap(o.buf) <= keepSize {
		*o.pooled = o.buf[:0]
		buffers.Put(o.pooled)
	}
	o.buf, o.pooled = nil, nil
	return o.err
}

// secure changes the way out, or closes it for the time of an error.
func (o *output) secure(w io.Writer, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.w, o.err = w, err
}
