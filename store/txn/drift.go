package txn

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

// Ids are times, and every server issues ids above all ids that it has seen. So one
// server whose clock is an hour ahead would advance the ids of all servers. To prevent that,
// every server compares its clock with the store's clock. A server with a slot reads that clock
// from the timestamp of the last write of its own cell, and a server without a slot calls
// journal.Log.Time. A server commits nothing while its clock leads by more than Options.Drift.
// So a fast clock stops only its own server. A slow clock needs no rule, because ids never go
// back.

// A storeClock compares this server's clock with the clock of a shared store.
type storeClock struct {
	o     *Options
	start time.Time // base of the monotonic clock
	// zero is the time that the store's clock showed at start, in nanoseconds since 1970. It is
	// 0 if the store has no clock.
	zero   atomic.Int64
	warned bool // at the last call of watch, commits led the store's clock
}

// measure records a reading of the store's clock. at is the time that the store's clock
// showed. asked is the time of the engine's clock when the reading was requested. If at
// is the zero Time, the store has no clock.
func (c *storeClock) measure(at time.Time, asked time.Duration) {
	if !at.IsZero() {
		c.zero.Store(at.Add(-asked).UnixNano())
	}
}

// latest returns the time that ids must not exceed. It returns false if the store has no
// clock.
func (c *storeClock) latest() (time.Time, bool) {
	zero := c.zero.Load()
	return time.Unix(0, zero).Add(time.Since(c.start) + c.o.Drift), zero != 0 //rule:fast-clock
}

// wall returns the time of this server's clock, but at most the time that latest returns.
func (c *storeClock) wall() time.Time {
	now := c.o.Now()
	if latest, ok := c.latest(); ok && now.After(latest) {
		return latest
	}
	return now
}

// drifted returns an error if this server must not commit because its clock is too far
// ahead of the store's clock.
func (c *storeClock) drifted() error {
	now := c.o.Now()
	if latest, ok := c.latest(); ok && now.After(latest) {
		ahead := now.Sub(latest.Add(-c.o.Drift)).Round(time.Millisecond)
		return fmt.Errorf("%w: this server's clock is %v ahead of the store's, more than %v: set it right", table.ErrUnavailable, ahead, c.o.Drift)
	}
	return nil
}

// watch warns when commits begin to lead the store's clock by more than Options.Drift. In
// that case either a server with a fast clock was not stopped, or the store's clock was wrong
// for a time.
func (c *storeClock) watch(newest time.Time) {
	latest, ok := c.latest()
	leads := ok && newest.After(latest)
	if leads && !c.warned {
		c.o.Log.Warn("commits lead the store's clock", "newest", newest, "clock", latest.Add(-c.o.Drift))
	}
	c.warned = leads
}
