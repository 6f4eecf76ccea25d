package txn

import (
	"fmt"
	"time"

	"github.com/seed-4dac0d86/ldapd/table"
)

// Ids are times, and every server issues ids above all that it has seen. So one server
// whose clock is an hour ahead would advance all others. To prevent that, every server
// compares its clock with the store's, taken from the last write of its own cell, and
// commits nothing while it leads by more than Options.Drift: a fast clock stops its
// owner and nobody else. A slow clock needs no rule, since ids never go back.

// measure records a reading of the store's clock, at, which was taken when the engine's
// clock showed asked or later. The zero Time means that the store has no clock.
func (e *cluster) measure(at time.Time, asked time.Duration) {
	if !at.IsZero() {
		e.storeTime.Store(at.Add(-asked).UnixNano())
	}
}

// latest returns the time up to which ids may lead, and false if the store has no
// clock.
func (e *cluster) latest() (time.Time, bool) {
	zero := e.storeTime.Load()
	return time.Unix(0, zero).Add(time.Since(e.start) + e.db.o.Drift), zero != 0
}

// wall returns the time of this server's clock, limited to what the store's clock
// allows.
func (e *cluster) wall() time.Time {
	now := e.db.o.Now()
	if latest, ok := e.latest(); ok && now.After(latest) {
		return latest
	}
	return now
}

// drifted returns why this server may not commit.
func (e *cluster) drifted() error {
	now := e.db.o.Now()
	if latest, ok := e.latest(); ok && now.After(latest) {
		ahead := now.Sub(latest.Add(-e.db.o.Drift)).Round(time.Millisecond)
		return fmt.Errorf("%w: this server's clock is %v ahead of the store's, more than %v: set it right", table.ErrUnavailable, ahead, e.db.o.Drift)
	}
	return nil
}

// watchDrift warns, once, if commits lead the store's clock. In that case another
// server with a fast clock was not stopped, or the store's clock was wrong at times.
func (e *cluster) watchDrift() {
	latest, ok := e.latest()
	newest := e.heads.Max().Time()
	leads := ok && newest.After(latest)
	if leads && !e.warned {
		e.db.o.Log.Warn("commits lead the store's clock", "newest", newest, "clock", latest.Add(-e.db.o.Drift))
	}
	e.warned = leads
}
