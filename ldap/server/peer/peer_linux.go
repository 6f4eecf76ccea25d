// Package peer identifies the process at the other end of a Unix socket.
package peer

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
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

// Await waits until the connection has something to read, has ended, or exceeds its deadline for
// reading. It reads nothing, and needs little stack. It returns at once if nc is not a socket.
func Await(nc net.Conn) {
	if sc, ok := nc.(syscall.Conn); ok {
		if raw, err := sc.SyscallConn(); err == nil {
			raw.Read(readable)
		}
	}
}

func readable(fd uintptr) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN | unix.POLLRDHUP}}
	n, err := unix.Poll(fds, 0)
	return err != nil || n == 1
}

// Gone reports whether the process at the other end has closed the connection, at least for what
// it sends. It reads nothing, so another goroutine may use the connection meanwhile. It returns
// false if the kernel does not know, as for a connection that is not a socket.
func Gone(nc net.Conn) (gone bool) {
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return false
	}
	raw.Control(func(fd uintptr) {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		n, err := unix.Poll(fds, 0)
		gone = err == nil && n == 1
	})
	return gone
}
