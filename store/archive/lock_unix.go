//go:build unix

package archive

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// canLock reports whether lockFile locks.
const canLock = true

// lockFile locks a file until unlock is called or the process ends.
func lockFile(path string) (unlock func() error, err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f.Close, nil
}

// inode returns a folder's inode number. A copy of the folder has another inode number.
func inode(path string) uint64 {
	var s unix.Stat_t
	if unix.Stat(path, &s) != nil {
		return 0
	}
	return uint64(s.Ino)
}
