package ledger

import (
	"context"
	"runtime"
	"slices"
	"time"

	"github.com/seed-4dac0d86/ldapd/internal/pause"
)

// A Pace makes refused binds take equally long. Each kind of refused bind does the same
// slow work, but some differences remain: a commit or a wait, and access rules that must be
// compiled or are already known. They would tell the kinds apart by some tenths of a
// millisecond.
type Pace struct{ recent durations }

// Wait waits until a refused bind has taken a little longer than recent refused binds took.
// The parameter begun is the time at which the bind began.
func (p *Pace) Wait(ctx context.Context, begun time.Time) error {
	p.recent.add(time.Since(begun))
	return until(ctx, begun.Add(p.recent.ceiling()))
}

// maxPace is the longest time that a refused bind is made to take.
const maxPace = time.Second

// ceiling returns the time in which seven of eight recent operations ended, plus a margin
// for operations that take only a little longer. It is at most maxPace.
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

// imprecise is how much longer a timer may take than it should.
const imprecise = 1500 * time.Microsecond

// until waits until the time end. A timer may be late by about a millisecond. The delay may
// depend on the kind of bind, and would reveal the kind. So until spends the last part of
// the time in a loop, without a timer.
func until(ctx context.Context, end time.Time) error {
	if left := time.Until(end) - imprecise; left > 0 {
		if err := pause.For(ctx, left); err != nil {
			return err
		}
	}
	for time.Now().Before(end) {
		runtime.Gosched()
	}
	return nil
}
