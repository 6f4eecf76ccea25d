//go:build unix

package accountlog

import (
	"time"

	"golang.org/x/sys/unix"
)

// sleep waits for d, or less long if a signal arrives. Other than a timer of the runtime, the
// kernel is late by some microseconds only.
func sleep(d time.Duration) {
	t := unix.NsecToTimeval(int64(d))
	unix.Select(0, nil, nil, nil, &t)
}
