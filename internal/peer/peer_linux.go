// Package peer identifies the process at the other end of a Unix socket.
package peer

import (
	"net"
	"syscall"
)

// IDs returns the user and group of the process at the other end of a Unix socket, as the
// kernel reports them. On the listening side this is the process that connected. On the
// connecting side it is the process that listens. If nc is no Unix socket, or if the
// kernel reports an error, IDs returns nil.
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
