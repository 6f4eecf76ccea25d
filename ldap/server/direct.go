//go:build !linux || race

package server

import (
	"io"
	"net"
)

// newDirect returns nil: package net reads and writes.
func newDirect(net.Conn) io.ReadWriter { return nil }
