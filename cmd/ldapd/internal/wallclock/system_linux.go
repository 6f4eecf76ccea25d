package wallclock

import (
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

func uptime() (boot string, up time.Duration) {
	var t unix.Timespec
	id, err := bootID()
	if err == nil {
		err = unix.ClockGettime(unix.CLOCK_BOOTTIME, &t)
	}
	if err != nil {
		return "", 0
	}
	return id, time.Duration(t.Nano())
}

// bootID returns the id of this boot of the system. It reads the id only once.
var bootID = sync.OnceValues(func() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b)), err
})

// synchronized reports whether the kernel's clock is synchronized. After somebody has set
// the clock, the kernel reports that the clock is not synchronized.
func synchronized() bool {
	var t unix.Timex
	_, err := unix.Adjtimex(&t)
	return err == nil && t.Status&unix.STA_UNSYNC == 0
}
