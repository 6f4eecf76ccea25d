package revision

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

// ErrLimit: the next id would be above the clock's limit. Either the wall clock is wrong,
// or the owner did not renew its lease.
var ErrLimit = errors.New("revision clock ahead of its limit")

// A Clock issues the ids of one slot. Each id is larger than every id that the clock
// issued or observed before, and its time is not behind the wall clock.
type Clock struct {
	slot Slot
	now  func() time.Time

	mu    sync.Mutex
	last  table.Revision // the largest id issued or observed
	limit table.Revision
}

// NewClock returns the clock of a slot. now returns the time of the wall clock; a nil now
// means time.Now.
func NewClock(s Slot, now func() time.Time) *Clock {
	if now == nil {
		now = time.Now
	}
	return &Clock{slot: s, now: now, limit: Last}
}

// Slot returns the slot whose ids the clock issues.
func (c *Clock) Slot() Slot { return c.slot }

// Observe makes every later id larger than r.
func (c *Clock) Observe(r table.Revision) {
	c.mu.Lock()
	c.last = max(c.last, r)
	c.mu.Unlock()
}

// SetLimit makes Next issue no id above r. The clock's owner has announced ids up to r
// and no further, and the next holder of the slot begins above r.
func (c *Clock) SetLimit(r table.Revision) {
	c.mu.Lock()
	c.limit = r
	c.mu.Unlock()
}

// Next issues an id.
func (c *Clock) Next() (table.Revision, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := after(max(c.last, Make(millis(c.now()), c.slot, 0)-1), c.slot)
	if r <= c.last || r > c.limit {
		return 0, fmt.Errorf("%w: %v would follow %v, up to %v may be issued", ErrLimit,
			r.Time().Format(time.RFC3339Nano), c.last.Time().Format(time.RFC3339Nano), c.limit.Time().Format(time.RFC3339Nano))
	}
	c.last = r
	return r, nil
}

// Last returns the largest id issued or observed.
func (c *Clock) Last() table.Revision {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last
}

// Behind returns how far the wall clock is behind the largest id issued or observed.
func (c *Clock) Behind() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return max(0, c.last.Time().Sub(c.now()))
}

// The function "after" returns the smallest id of slot s that is larger than r.
func after(r table.Revision, s Slot) table.Revision {
	ms := Millis(r)
	switch {
	case SlotOf(r) < s:
		return Make(ms, s, 0)
	case SlotOf(r) == s && Counter(r) < maxCounter:
		return r + 1
	}
	return Make(ms+1, s, 0)
}
