package partition

import "time"

// SetDrainTime sets how long a reindex waits for searches; the function it gives
// sets it back.
func SetDrainTime(d time.Duration) (restore func()) {
	before := drainTime
	drainTime = d
	return func() { drainTime = before }
}
