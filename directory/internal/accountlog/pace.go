package accountlog

import (
	"context"
	"slices"
	"time"

	"github.com/seed-4dac0d86/ldapd/store/pause"
)

// A Pace makes refused binds take equally long. Each kind of refused bind does the same slow
// work, but small differences remain. Some kinds commit, and others only wait. The access
// rules may have to be compiled, or may be cached. Without a Pace, a client could
// distinguish the kinds by a few tenths of a millisecond.
type Pace struct{ recent durations }

// Wait waits until a refused bind has taken a little longer than most recent refused binds
// took, but not longer than maxPace. The parameter begun is the time at which the bind began.
func (p *Pace) Wait(ctx context.Context, begun time.Time) error {
	p.recent.add(time.Since(begun))
	return until(ctx, begun.Add(p.recent.ceiling()))
}

// maxPace limits the time to which Wait lengthens a refused bind.
const maxPace = time.Second

// ceiling returns the duration that seven of eight recent operations did not exceed, plus a
// margin for operations that take only a little longer. The result is at most maxPace.
func (d *durations) ceiling() time.Duration {
	d.mu.Lock()
	recent := d.recent
	n := min(d.n, len(recent))
	d.mu.Unlock()
	if n == 0 {
		return 0
	}
	slices.Sort(recent[:n])
	usual := recent[n*7/8]
	return min(usual+usual/4+2*time.Millisecond, maxPace)
}

// imprecise is the largest expected delay of a timer.
const imprecise = 1500 * time.Microsecond

// The function "until" waits until the time end. A timer may be late by about a millisecond. If
// the delay depends on the kind of bind, it reveals the kind. So until spends the last part of
// the time in a call of sleep, which is more precise but occupies a thread and ignores ctx.
func until(ctx context.Context, end time.Time) error {
	if left := time.Until(end) - imprecise; left > 0 {
		if err := pause.For(ctx, left); err != nil {
			return err
		}
	}
	for left := time.Until(end); left > 0; left = time.Until(end) {
		sleep(left)
	}
	return nil
}
