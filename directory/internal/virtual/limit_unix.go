//go:build unix

package virtual

import "syscall"

// maxFiles returns how many files and connections the process may have open, or 0 if the
// limit cannot be read.
func maxFiles() int64 {
	var l syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l) != nil {
		return 0
	}
	return int64(min(l.Cur, 1<<62))
}
