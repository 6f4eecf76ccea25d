package server

import (
	"net"
	"sync/atomic"
)

// A transport passes all octets of a connection, with TLS or without. It counts writes
// after encryption, because TLS also sends messages that the server did not write.
type transport struct {
	net.Conn
	ahead  []byte        // octets that were read before TLS began, and belong to TLS
	writes atomic.Uint64 // number of begun and ended writes, which is odd during a write
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
