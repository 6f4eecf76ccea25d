package txn

import (
	"fmt"
	"time"

	"github.com/seed-4dac0d86/ldapd/table"
)

// Ids are times, and those of all servers are above what they have seen: one whose
// clock is an hour ahead would take all others along. So every server measures its
// clock by the store's, which is that of the last write of its own cell, and
// commits nothing while it leads that by more than Options.Drift: a fast clock
// stops its owner and nobody else. A slow one needs no rule: ids never go back.

// measure notes that the store's clock showed a time no sooner than asked, on the
// engine's clock. The zero Time is of a store without a clock.
func (e *cluster) measure(at time.Time, asked time.Duration) {
	if !at.IsZero() {
		e.storeTime.Store(at.Add(-asked).UnixNano())
	}
}

// latest is the time up to which ids may lead, if the store has a clock.
func (e *cluster) latest() (time.Time, bool) {
	zero := e.storeTime.Load()
	return time.Unix(0, zero).Add(time.Since(e.start) + e.db.o.Drift), zero != 0
}

// wall is this server's clock, as far as it may be believed.
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

// watchDrift warns, once, of commits that lead the store's clock: by another server
// that was not stopped, or from a time when the store's clock was wrong.
func (e *cluster) watchDrift() {
	latest, ok := e.latest()
	newest := e.heads.Max().Time()
	leads := ok && newest.After(latest)
	if leads && !e.warned {
		e.db.o.Log.Warn("commits lead the store's clock", "newest", newest, "clock", latest.Add(-e.db.o.Drift))
	}
	e.warned = leads
}
