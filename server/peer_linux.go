package server

import (
	"net"
	"syscall"
)

// peer asks the kernel who connected to a Unix socket.
func peer(nc net.Conn) (uid, gid *int) {
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
