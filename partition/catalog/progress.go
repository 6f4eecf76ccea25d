package catalog

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/seed-4dac0d86/ldapd/store/pause"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// A Progress records up to which revision the records of all views of a directory have been
// updated, by this server or by others.
type Progress struct {
	Steps, Errors atomic.Uint64 // steps that this server made, and steps that failed here

	upTo atomic.Pointer[upTo] // nil: this server keeps no views, or there are none
}

type upTo struct {
	w       table.Revision
	touched uint64 // what DB.Touched returned at w or earlier
	since   time.Time
	all     bool // at the time in the field since, there was no commit after w
}

// Reach notes that all views that have begun show the commits up to the revision w. The caller
// passes as touched what DB.Touched returned at w or earlier. The caller passes true as all if
// there is no newer commit now.
func (p *Progress) Reach(w table.Revision, touched uint64, now time.Time, all bool) {
	since := w.Time()
	if all {
		since = now
	}
	p.upTo.Store(&upTo{w, touched, since, all})
}

// Begin notes that the first commit after Reach was made at the time now. It does nothing
// unless true was passed to Reach as all.
func (p *Progress) Begin(now time.Time) {
	if at := p.upTo.Load(); at != nil && at.all {
		p.upTo.Store(&upTo{at.w, at.touched, now, false})
	}
}

// Stop notes that this server does not keep views.
func (p *Progress) Stop() { p.upTo.Store(nil) }

// A Lag says how far views are behind the commits.
type Lag struct {
	Entries uint64        // touched entries that the views do not show yet, not counting loads
	Age     time.Duration // since the first commit that the views do not show yet, or a little longer
}

// ViewLag returns how far the views are behind.
func (p *Partition) ViewLag(now time.Time) (l Lag) {
	at := p.Views.upTo.Load()
	if at == nil {
		return l
	}
	if l.Entries = p.DB.Touched() - at.touched; l.Entries > 0 {
		l.Age = max(0, now.Sub(at.since))
	}
	return l
}

// If views are behind by lagAllowed entries or more, every update waits: one millisecond
// for each lagAllowed entries, and at most longestWait. This slows writers so that the views
// can catch up, and no update is refused.
const (
	lagAllowed  = 50_000
	longestWait = 20 * time.Millisecond
)

// waitFor returns how long an update waits for views that are behind.
func (l Lag) waitFor() time.Duration {
	if l.Entries < lagAllowed {
		return 0
	}
	return min(time.Duration(l.Entries)*time.Millisecond/lagAllowed, longestWait)
}

// AwaitViews makes an update wait if views are far behind.
func (p *Partition) AwaitViews(ctx context.Context) error {
	at := p.Views.upTo.Load()
	if at == nil {
		return nil
	}
	if wait := (Lag{Entries: p.DB.Touched() - at.touched}).waitFor(); wait > 0 {
		return pause.For(ctx, wait)
	}
	return nil
}
