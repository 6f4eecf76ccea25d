//go:build !unix

package accountlog

import "time"

func sleep(d time.Duration) { time.Sleep(d) }
