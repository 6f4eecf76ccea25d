// Package wallclock says whether this machine's clock can be right, by what a
// store's folder remembers of it. Revisions are times: one commit by a clock that
// is years ahead puts all later ones there too, and the past out of its retention.
// What can be known and what cannot is docs/decisions/0021-clocks-that-jump.md.
package wallclock

import (
	"fmt"
	"log/slog"
	"sync"
	"time"
)

const (
	// exact is how far the clock may leave the time that the system has counted
	// since it started.
	exact = time.Hour
	// pause is how long a store may be at rest over a restart of the system, or on
	// one that counts no time, before its clock is doubted.
	pause = 24 * time.Hour
	// beat is how often a running process notes the time.
	beat = 10 * time.Minute
)

// A Guard compares the clock with the last note of it. A nil Guard doubts nothing.
type Guard struct {
	o Options

	mu    sync.Mutex
	last  note
	stop  chan struct{}
	beats sync.WaitGroup
}

// Options of a Guard.
type Options struct {
	Folder string           // of the store
	Now    func() time.Time // the clock
	Log    *slog.Logger

	// Uptime returns which start of the system this is, and the time since, also of
	// its sleep; an empty name is of a system that does not tell.
	Uptime func() (boot string, up time.Duration)
	// Synchronized reports whether the system has its time from a time server.
	Synchronized func() bool
}

// Read reads what the folder of a store has noted of the clock. It writes nothing,
// and has to come before the store is opened: without a note the times of the
// folder's files count.
func Read(o Options) (*Guard, error) {
	if o.Uptime == nil {
		o.Uptime = uptime
	}
	if o.Synchronized == nil {
		o.Synchronized = synchronized
	}
	last, err := readNote(o.Folder)
	return &Guard{o: o, last: last}, err
}

// Doubt returns why the clock cannot be believed by a store whose newest commit is
// of that time, or nil. A clock that a time server keeps is believed.
func (g *Guard) Doubt(newest time.Time) error {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.doubt(newest)
}

func (g *Guard) doubt(newest time.Time) error {
	now := g.o.Now()
	latest := g.latest(newest)
	if g.last.Time.IsZero() || !now.After(latest) || g.o.Synchronized() {
		return nil
	}
	return fmt.Errorf("the clock is in doubt: it shows %s, and this store was last open at %s and changed at %s: "+
		"set the clock, or if it is right run 'ldapd serve', or any command that changes the store, with --accept-clock once",
		date(now), date(g.last.Time), date(newest))
}

// latest returns the time up to which the clock is believed.
func (g *Guard) latest(newest time.Time) time.Time {
	boot, up := g.o.Uptime()
	known, may := g.last.Time, pause
	if boot != "" && boot == g.last.Boot {
		known, may = known.Add(up-g.last.Up), exact
	}
	if newest.After(known) {
		known = newest
	}
	return known.Add(may)
}

// Accept believes the clock as it is now.
func (g *Guard) Accept() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.last = g.here()
}

// Start notes the time, now and then, until Close. Newest returns the time of the
// newest commit.
func (g *Guard) Start(newest func() time.Time) {
	if g == nil {
		return
	}
	g.note(newest())
	g.stop = make(chan struct{})
	g.beats.Go(func() { g.beat(newest) })
}

func (g *Guard) beat(newest func() time.Time) {
	tick := time.NewTicker(beat)
	defer tick.Stop()
	for {
		select {
		case <-g.stop:
			g.note(newest())
			return
		case <-tick.C:
			g.note(newest())
		}
	}
}

// Close notes the time once more. It comes before the store is closed.
func (g *Guard) Close() {
	if g == nil {
		return
	}
	close(g.stop)
	g.beats.Wait()
}

// note writes down the time, or while it is in doubt the time that was there.
func (g *Guard) note(newest time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.doubt(newest) == nil {
		g.last = g.here()
	}
	if err := g.last.write(g.o.Folder); err != nil {
		g.o.Log.Warn("the time was not noted", "error", err)
	}
}

func (g *Guard) here() note {
	boot, up := g.o.Uptime()
	return note{g.o.Now(), boot, up}
}

func date(t time.Time) string { return t.UTC().Format(time.RFC3339) }
