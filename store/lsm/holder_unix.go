//go:build unix

package lsm

import (
	"errors"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Holder returns the id of the process that has the store in a folder open, or 0 if no
// process has.
func Holder(path string) (int, error) {
	f, err := os.Open(filepath.Join(path, lockFile))
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	l := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
	if err := unix.FcntlFlock(f.Fd(), unix.F_GETLK, &l); err != nil || l.Type == unix.F_UNLCK {
		return 0, err
	}
	return int(l.Pid), nil
}
