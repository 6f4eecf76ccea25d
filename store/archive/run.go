package archive

import (
	"context"
	"errors"
	"time"

	"github.com/seed-4dac0d86/ldapd/store/pause"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

const (
	longestPause = 5 * time.Minute // longest pause between attempts to reach an archive
	lastPiece    = 10 * time.Second
)

// Run archives until ctx ends. Then it sends the last pieces, unless a base would have to be
// taken first.
func (a *Archiver) Run(ctx context.Context) {
	a.greet(ctx)
	var bases turns
	defer bases.wait()
	for failures := 0; ; {
		began := time.Now()
		err := a.Pieces(ctx)
		if ctx.Err() != nil {
			a.last(ctx)
			return
		}
		if failures = a.heard(err, failures); failures == 0 && a.due(ctx) {
			bases.start(func() { a.heard(a.turn(ctx), 0) })
		}
		a.limit()
		if pause.For(ctx, a.pause(failures, time.Since(began))) != nil {
			a.last(ctx)
			return
		}
	}
}

// pause returns the time until the next attempt. The parameter failures is the number of
// consecutive failures, and took is the duration of the last attempt. After a success, the pause
// is Lag less that duration, but not less than a tenth of Lag.
func (a *Archiver) pause(failures int, took time.Duration) time.Duration {
	if failures == 0 {
		return max(a.o.Lag-took, a.o.Lag/10)
	}
	return min(a.o.Lag<<min(failures, 10), max(longestPause, a.o.Lag))
}

// greet logs a warning if the place ignores conditions.
func (a *Archiver) greet(ctx context.Context) {
	switch ok, err := a.o.Place.Conditions(ctx); {
	case err != nil: // the first attempt to archive will probably fail too, and Run logs that
	case !ok:
		a.o.Log.Warn("the archive's place ignores conditions of puts: two servers that write to it at the same time would not be detected", "place", a.o.Place.String())
	}
}

// heard writes to the log the first of several consecutive failures, every 20th failure, and
// the first success after them. It returns the number of consecutive failures.
func (a *Archiver) heard(err error, failures int) int {
	switch {
	case err != nil && !errors.Is(err, context.Canceled):
		if failures++; failures == 1 || failures%20 == 0 {
			a.o.Log.Error("the store could not be archived; serving goes on", "place", a.o.Place.String(), "failures", failures, "error", err)
		}
		return failures
	case failures > 0:
		a.o.Log.Info("the store is archived again", "place", a.o.Place.String())
	}
	return 0
}

// The method "last" archives the commits that were made before ctx ended. If a base must be
// taken first, it does nothing.
func (a *Archiver) last(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastPiece)
	defer cancel()
	if a.needsBase() {
		return
	}
	if err := a.pieces(ctx); err != nil {
		a.o.Log.Warn("the last commits are not archived", "place", a.o.Place.String(), "error", err)
	}
}

// due reports whether it is time for a base. It reports false until longestPause has
// passed since the last attempt.
func (a *Archiver) due(ctx context.Context) bool {
	if now := a.o.Now(); now.Sub(a.tried) < longestPause {
		return false
	}
	last := a.Status().Based
	if last.IsZero() {
		last = a.lastBase(ctx)
	}
	if a.o.Now().Sub(last) < a.o.Every {
		return false
	}
	a.tried = a.o.Now()
	return true
}

// lastBase returns the time at which the archive's newest base was taken, or zero if it
// cannot find out.
func (a *Archiver) lastBase(ctx context.Context) time.Time {
	bases, err := listOf(ctx, a.o.Place, basePrefix, parseBase)
	if err != nil || len(bases) == 0 {
		return time.Time{}
	}
	m, err := ReadManifest(ctx, a.o.Place, bases[len(bases)-1])
	if err != nil {
		return time.Time{}
	}
	a.status.based(m.Taken)
	return m.Taken
}

// turn takes a base, and then removes objects that need not be kept any more.
func (a *Archiver) turn(ctx context.Context) error {
	if err := a.Base(ctx); err != nil {
		return err
	}
	_, err := a.Thin(ctx)
	return err
}

// limit removes the oldest parts of the kept log if the kept log is larger than keepMost.
// While the store's disk is full, limit removes all of the kept log.
func (a *Archiver) limit() {
	most := int64(keepMost)
	if errors.Is(a.o.Store.Refuses(), table.ErrUnavailable) {
		most = 0
	}
	removed, err := a.o.Store.LimitLogs(most)
	if removed {
		a.o.Log.Warn("the log kept for the archive takes too much space: its oldest part was removed, and the archive continues with a new base", "bytes", most)
	}
	if err != nil {
		a.o.Log.Warn("the log kept for the archive could not be limited", "error", err)
	}
}

// turns runs a function in a goroutine, but only one function at a time.
type turns struct{ running chan struct{} }

// start runs f in a goroutine, unless a function is running.
func (t *turns) start(f func()) {
	select {
	case <-t.running:
	default:
		if t.running != nil {
			return
		}
	}
	done := make(chan struct{})
	t.running = done
	go func() { defer close(done); f() }()
}

func (t *turns) wait() {
	if t.running != nil {
		<-t.running
	}
}
