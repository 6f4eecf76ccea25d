package handoff

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"

	"github.com/seed-4dac0d86/ldapd/ldap/server/peer"
)

// An openFolder addresses the socket by the folder's descriptor, for two reasons. The
// path of a Unix socket has room for only 107 octets, and a descriptor certainly refers
// to the folder that was opened.
type openFolder struct{ *os.File }

func openPath(path string) (openFolder, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_DIRECTORY, 0)
	return openFolder{f}, err
}

func (f openFolder) socket() string { return fmt.Sprintf("/proc/self/fd/%d/%s", f.Fd(), Name) }

// listen creates the socket, which only the server's own user may use. It replaces an
// existing socket. An existing socket was left behind by a killed server, because only
// the server that holds the store listens.
func (f openFolder) listen() (*net.UnixListener, error) {
	if err := f.remove(); err != nil {
		return nil, err
	}
	// The permissions are set before the socket has a name, so that no process can open
	// it with other permissions.
	private := func(_, _ string, c syscall.RawConn) (err error) {
		return errors.Join(c.Control(func(fd uintptr) { err = syscall.Fchmod(int(fd), 0o600) }), err)
	}
	l, err := (&net.ListenConfig{Control: private}).Listen(context.Background(), "unix", f.socket())
	if err != nil {
		return nil, err
	}
	u := l.(*net.UnixListener)
	u.SetUnlinkOnClose(false)
	return u, nil
}

// remove removes the socket. If the file of that name is no socket, remove returns an
// error.
func (f openFolder) remove() error {
	st, err := os.Lstat(f.socket())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case st.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%s is there and is not a socket", Name)
	}
	return os.Remove(f.socket())
}

// dial connects to the server that holds the folder. It first checks that the file is a
// socket, so that it follows no symbolic link, and then that it trusts the user who listens.
func (f openFolder) dial() (*net.UnixConn, error) {
	fd, err := syscall.Open(f.socket(), oPath|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer syscall.Close(fd)
	var st syscall.Stat_t
	if err := syscall.Fstat(fd, &st); err != nil {
		return nil, err
	}
	if st.Mode&syscall.S_IFMT != syscall.S_IFSOCK {
		return nil, errors.New("it is not a socket")
	}
	c, err := net.Dial("unix", fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		return nil, err
	}
	uid, _ := peer.IDs(c)
	if uid == nil || !f.trusts(*uid) {
		c.Close()
		return nil, errors.New("who listens there is not the folder's owner")
	}
	return c.(*net.UnixConn), nil
}

// oPath is the flag O_PATH: open(2) returns a descriptor of a location in the file
// system without opening the file. Package syscall does not define the flag.
const oPath = 0x200000

// trusts reports whether a tool may send work to a server that the user uid runs. Root
// and the store's owner are trusted, because both can read the store anyway.
func (f openFolder) trusts(uid int) bool {
	st, err := f.Stat()
	if err != nil {
		return false
	}
	return uid == 0 || uid == int(st.Sys().(*syscall.Stat_t).Uid)
}
