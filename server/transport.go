package server

import (
	"net"
	"sync/atomic"
)

// A transport is what all octets of a connection go through, with TLS or
// without. What is written is counted here, and not where it is encrypted, since
// TLS writes messages of its own too.
type transport struct {
	net.Conn
	ahead  []byte        // read before TLS began, and part of it
	writes atomic.Uint64 // begun and ended, so odd during one
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
