//go:build !linux

package wallclock

import "time"

func uptime() (string, time.Duration) { return "", 0 }

func synchronized() bool { return false }
