// Package peer says who is at the other end of a Unix socket.
package peer

import (
	"net"
	"syscall"
)

// IDs asks the kernel for the user and group of who connected to a Unix socket or,
// to who connected, of who listens on it; nil of another connection.
func IDs(nc net.Conn) (uid, gid *int) {
	uc, ok := nc.(*net.UnixConn)
	if !ok {
		return nil, nil
	}
	raw, err := uc.SyscallConn()
	if err != nil {
		return nil, nil
	}
	raw.Control(func(fd uintptr) {
		cred, err := syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
		if err == nil {
			u, g := int(cred.Uid), int(cred.Gid)
			uid, gid = &u, &g
		}
	})
	return uid, gid
}
