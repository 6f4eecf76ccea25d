//go:build !race

package server

import (
	"io"
	"net"
	"os"
	"syscall"
	"unsafe"
)

// A direct reads and writes a socket without telling Go's scheduler of the system calls. They do not
// wait, because the sockets of package net do not block. Telling it costs as much as a short system call, and
// when the kernel lets the client run in the middle of a write, the scheduler wakes another thread for the
// rest of the work. Waiting for the socket, deadlines and Close are those of package net. The race detector
// learns from package net what happens before what, so it gets programs without a direct.
type direct struct {
	raw     syscall.RawConn
	in, out transfer
}

// A transfer is what one call of read or write has to do. Its function do is made once, because it would
// be allocated at each call.
type transfer struct {
	do    func(fd uintptr) (done bool)
	b     []byte
	n     int
	errno syscall.Errno
}

// newDirect returns the socket of a connection, or nil if it has none.
func newDirect(nc net.Conn) io.ReadWriter {
	switch nc.(type) {
	case *net.TCPConn, *net.UnixConn:
	default:
		return nil
	}
	raw, err := nc.(syscall.Conn).SyscallConn()
	if err != nil {
		return nil
	}
	d := &direct{raw: raw}
	d.in.do = func(fd uintptr) bool { return d.in.call(syscall.SYS_READ, fd) }
	d.out.do = func(fd uintptr) bool {
		return d.out.call(syscall.SYS_WRITE, fd) && (d.out.errno != 0 || d.out.n == len(d.out.b))
	}
	return d
}

// call makes a system call for the octets that are left. It returns false if it must be called again when the
// socket is ready.
func (t *transfer) call(number, fd uintptr) bool {
	for {
		rest := t.b[t.n:]
		n, _, errno := syscall.RawSyscall(number, fd, uintptr(unsafe.Pointer(unsafe.SliceData(rest))), uintptr(len(rest)))
		switch errno {
		case 0:
			t.n += int(n)
			return true
		case syscall.EINTR:
		case syscall.EAGAIN:
			return false
		default:
			t.errno = errno
			return true
		}
	}
}

// Read is net.Conn.Read. Only one goroutine may read.
func (d *direct) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	d.in.b, d.in.n, d.in.errno = b, 0, 0
	err := d.raw.Read(d.in.do)
	n, errno := d.in.n, d.in.errno
	d.in.b = nil
	switch {
	case err != nil:
		return 0, err
	case errno != 0:
		return 0, os.NewSyscallError("read", errno)
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// Write is net.Conn.Write. Only one goroutine may write.
func (d *direct) Write(b []byte) (int, error) {
	d.out.b, d.out.n, d.out.errno = b, 0, 0
	err := d.raw.Write(d.out.do)
	n, errno := d.out.n, d.out.errno
	d.out.b = nil
	if err == nil && errno != 0 {
		err = os.NewSyscallError("write", errno)
	}
	return n, err
}
