package directory

import (
	"time"

	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/table"
)

// trace is what the access log tells of a request beside itself and its result.
type trace struct {
	on         bool // there is an access log
	lasts      bool // the request waits for what may never come
	begun      time.Time
	entries    int
	references int
	cost       partition.Cost
	plan       string // of a slow search
	attempts   int    // of an update
	committed  table.Revision
}

// slow reports whether a request has taken longer than the limit by now; 0: none does.
func (t *trace) slow(limit time.Duration) bool {
	return limit > 0 && !t.lasts && time.Since(t.begun) >= limit
}
