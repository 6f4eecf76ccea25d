//go:build !unix

package ledger

import "time"

func sleep(d time.Duration) { time.Sleep(d) }
