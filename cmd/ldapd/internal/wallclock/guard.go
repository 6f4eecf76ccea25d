// Package wallclock reports whether this machine's clock can be right. It compares the clock
// with the earlier times that a store's folder records. Revisions are times. So a single commit
// that is made while the clock is years ahead moves all later revisions to that time. The past
// then looks older than the retention. docs/decisions/0021-clocks-that-jump.md explains which
// errors of a clock can be found.
package wallclock

import (
	"fmt"
	"log/slog"
	"sync"
	"time"
)

const (
	// exact is how far the clock may be ahead of the expected time. The expected time is the time
	// in the newest note plus the time that the system has counted since, or the time of the
	// newest commit if that is later.
	exact = time.Hour
	// pause is how far the clock may be ahead of the newest note and the newest commit if the
	// system was rebooted since the note, or does not count the time since its boot.
	pause = 24 * time.Hour
	// beat is how often a running process records the time.
	beat = 10 * time.Minute
)

// A Guard compares the clock with the newest note. A nil Guard always trusts the clock.
type Guard struct {
	o Options

	mu    sync.Mutex
	last  note
	stop  chan struct{}
	beats sync.WaitGroup
}

// Options are the options of a Guard.
type Options struct {
	Folder string           // the store's folder
	Now    func() time.Time // the clock
	Log    *slog.Logger

	// Uptime returns the id of the system's boot and the time since then, including
	// sleep. The id is empty on a system that does not report it.
	Uptime func() (boot string, up time.Duration)
	// Synchronized reports whether the system's clock is synchronized with a time
	// server.
	Synchronized func() bool
}

// Read reads the note in the folder of a store. Read writes nothing. It must be called
// before the store is opened: without a note, Read uses the times of the folder's files,
// and opening the store changes these times.
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

// Doubt returns the reason why the clock cannot be trusted, or nil. newest is the time of
// the store's newest commit. A clock that is synchronized with a time server is trusted.
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

// latest returns the time up to which the clock is trusted.
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

// Accept declares that the present clock is right.
func (g *Guard) Accept() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.last = g.here()
}

// Start starts to record the time periodically, until Close. newest must return the
// time of the store's newest commit.
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

// Close records the time once more. It must be called before the store is closed.
func (g *Guard) Close() {
	if g == nil {
		return
	}
	close(g.stop)
	g.beats.Wait()
}

// note records the time. While the clock is in doubt, note writes the last trusted note
// again.
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
