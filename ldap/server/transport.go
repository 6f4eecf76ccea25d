package server

import (
	"io"
	"net"
	"sync/atomic"
)

// A transport is a network connection, over which TLS may run. It counts writes below
// TLS, because TLS also sends messages of its own.
type transport struct {
	net.Conn
	direct io.ReadWriter // the socket, read and written past net.Conn; nil: not possible
	writes atomic.Uint64 // counts the beginning and the end of each write; odd during a write
}

func (t *transport) Read(b []byte) (int, error) {
	if t.direct != nil {
		return t.direct.Read(b)
	}
	return t.Conn.Read(b)
}

func (t *transport) Write(b []byte) (int, error) {
	t.writes.Add(1)
	defer t.writes.Add(1)
	if t.direct != nil {
		return t.direct.Write(b)
	}
	return t.Conn.Write(b)
}

// A readAhead is a transport of which some octets were read before TLS began. They belong to TLS.
type readAhead struct {
	*transport
	octets []byte
}

func (r *readAhead) Read(b []byte) (int, error) {
	if len(r.octets) > 0 {
		n := copy(b, r.octets)
		r.octets = r.octets[n:]
		return n, nil
	}
	return r.transport.Read(b)
}
