package catalog

import (
	"testing"
	"time"
)

func TestWaitFor(t *testing.T) {
	for entries, want := range map[uint64]time.Duration{
		0: 0, 49_999: 0, 50_000: time.Millisecond, 125_000: 2500 * time.Microsecond, 1_000_000: 20 * time.Millisecond, 1 << 40: 20 * time.Millisecond,
	} {
		if got := (Lag{Entries: entries}).waitFor(); got != want {
			t.Errorf("%d entries behind: %v, want %v", entries, got, want)
		}
	}
}
