// Package peer identifies the process at the other end of a Unix socket.
package peer

import (
	"net"
	"syscall"
)

// IDs returns the user and group at the other end of a Unix socket, as the kernel
// reports them: of the process that connected or, at the connecting side, of the one
// that listens. For other connections it returns nil.
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
