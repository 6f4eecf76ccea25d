package server

import (
	"net"
	"sync/atomic"
)

// A transport passes all octets of a connection, with TLS or without. Writes are counted
// here and not before encryption, because TLS sends messages of its own too.
type transport struct {
	net.Conn
	ahead  []byte        // read before TLS began, and belongs to it
	writes atomic.Uint64 // begun and ended writes, so it is odd during a write
}

func (t *transport) Read(b []byte) (int, error) {
	if len(t.ahead) > 0 {
		n := copy(b, t.ahead)
		t.ahead = t.ahead[n:]
		return n, nil
	}
	return t.Conn.Read(b)
}

func (t *transport) Write(b []byte) (int, error) {
	t.writes.Add(1)
	defer t.writes.Add(1)
	return t.Conn.Write(b)
}
