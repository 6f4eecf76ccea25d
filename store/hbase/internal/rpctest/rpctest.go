// Package rpctest reads what clients of HBase send. It is for tests.
package rpctest

import (
	"encoding/binary"
	"io"
	"net"
)

// Calls passes the calls that arrive on a connection with simple authentication to a function, without their
// length. It returns when the function returns false, or when the connection ends, which it then closes.
func Calls(c net.Conn, call func(b []byte) bool) {
	defer c.Close()
	if _, err := io.CopyN(io.Discard, c, 6); err != nil { // the preamble
		return
	}
	for header := true; ; header = false {
		var size [4]byte
		if _, err := io.ReadFull(c, size[:]); err != nil {
			return
		}
		b := make([]byte, binary.BigEndian.Uint32(size[:]))
		if _, err := io.ReadFull(c, b); err != nil {
			return
		}
		if !header && !call(b) {
			return
		}
	}
}
