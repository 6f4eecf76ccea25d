package request

import (
	"time"

	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/table"
)

// Trace is what the access log tells of a request beside itself and its result.
type Trace struct {
	On         bool // there is an access log
	Lasts      bool // the request waits for what may never come
	Begun      time.Time
	Entries    int
	References int
	Cost       partition.Cost
	Plan       string // of a slow search
	Attempts   int    // of an update
	Committed  table.Revision
}

// Slow reports whether a request has taken longer than the limit by now; 0: none does.
func (t *Trace) Slow(limit time.Duration) bool {
	return limit > 0 && !t.Lasts && time.Since(t.Begun) >= limit
}
