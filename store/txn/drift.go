package txn

import (
	"fmt"
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

// measure records a reading of the store's clock. at is the time that the store's clock
// showed. asked is the time of the engine's clock when the reading was requested. If at
// is the zero Time, the store has no clock.
func (e *cluster) measure(at time.Time, asked time.Duration) {
	if !at.IsZero() {
		e.storeTime.Store(at.Add(-asked).UnixNano())
	}
}

// latest returns the time that ids must not exceed. It returns false if the store has no
// clock.
func (e *cluster) latest() (time.Time, bool) {
	zero := e.storeTime.Load()
	return time.Unix(0, zero).Add(time.Since(e.start) + e.db.o.Drift), zero != 0 //rule:fast-clock
}

// wall returns the time of this server's clock, but at most the time that latest returns.
func (e *cluster) wall() time.Time {
	now := e.db.o.Now()
	if latest, ok := e.latest(); ok && now.After(latest) {
		return latest
	}
	return now
}

// drifted returns an error if this server must not commit because its clock is too far
// ahead of the store's clock.
func (e *cluster) drifted() error {
	now := e.db.o.Now()
	if latest, ok := e.latest(); ok && now.After(latest) {
		ahead := now.Sub(latest.Add(-e.db.o.Drift)).Round(time.Millisecond)
		return fmt.Errorf("%w: this server's clock is %v ahead of the store's, more than %v: set it right", table.ErrUnavailable, ahead, e.db.o.Drift)
	}
	return nil
}

// watchDrift warns when commits begin to lead the store's clock by more than Options.Drift. In
// that case either a server with a fast clock was not stopped, or the store's clock was wrong
// for a time.
func (e *cluster) watchDrift() {
	latest, ok := e.latest()
	newest := e.heads.Max().Time()
	leads := ok && newest.After(latest)
	if leads && !e.warned {
		e.db.o.Log.Warn("commits lead the store's clock", "newest", newest, "clock", latest.Add(-e.db.o.Drift))
	}
	e.warned = leads
}
