//go:build !linux

// Package peer identifies the process at the other end of a Unix socket.
package peer

import "net"

// IDs returns nil on this system: SO_PEERCRED is specific to Linux.
func IDs(net.Conn) (uid, gid *int) { return nil, nil }

// Await returns at once on this system.
func Await(net.Conn) {}

// Gone returns false on this system: POLLRDHUP is specific to Linux.
func Gone(net.Conn) bool { return false }
