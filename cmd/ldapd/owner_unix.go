//go:build unix

package main

import (
	"io/fs"
	"syscall"

	"golang.org/x/sys/unix"
)

// writable returns an error if this user may not write a file, or make files in a folder.
func writable(path string, folder bool) error {
	mode := uint32(unix.W_OK)
	if folder {
		mode |= unix.X_OK
	}
	return unix.Access(path, mode)
}

// ownerOf returns the ids of the user and the group that a file belongs to.
func ownerOf(info fs.FileInfo) (user, group int, ok bool) {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0, false
	}
	return int(s.Uid), int(s.Gid), true
}
