package txn

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/seed-4dac0d86/ldapd/internal/pause"
	"github.com/seed-4dac0d86/ldapd/revision"
	"github.com/seed-4dac0d86/ldapd/table"
)

// Garbage collection follows the journal. A commit that falls below the horizon
// names the rows it wrote, or wrote over; of these goes what no state that is
// still read shows, and then the commit's own row in the journal. So the work is
// proportional to what was written, in the order in which it was written, and who
// is interrupted goes on where the journal begins.
//
// A horizon is announced first. Every server takes it for its own as soon as none
// of its snapshots is older, and says so in its heads cell; what is removed lies
// below the least of these (transactions.md, "Retention").

// CollectOptions of one collection.
type CollectOptions struct {
	// Retention is how long history stays.
	Retention time.Duration
	// Rate bounds what is looked at, in rows a second; zero is no bound.
	Rate int
	// All has every row looked at, not only those that the journal names.
	All bool
	// Dry counts what would go and removes nothing. It ends after Budget with what
	// it has counted by then; zero is no bound.
	Dry    bool
	Budget time.Duration
	// Now has the store give the space back at once.
	Now bool
}

// Collection is what one collection did.
type Collection struct {
	Horizon table.Revision // below it history may be gone
	Commits int            // that the journal forgot
	Rows    int            // looked at
	Removed table.Collected
	Whole   bool // every row was looked at
	Partial bool // the budget was spent: there is at least so much
}

// bounds says what may be collected.
type bounds struct {
	announced table.Revision // horizon of all servers
	honoured  table.Revision // that nobody reads below of
	stable    table.Revision // up to here all is decided and there is nothing void
	now       table.Revision // the time that age is counted from
	young     table.Revision // what no snapshot but those of the past is older than
	slots     []revision.Slot
	leader    bool // to this server it falls to collect

	visible, void func(table.Revision) bool // nil: every commit is shown
}

// before returns the moment that was some time ago.
func (b *bounds) before(age time.Duration) table.Revision {
	return min(b.stable, revision.At(b.now.Time().Add(-age)))
}

// A collector collects the garbage of a DB, one collection at a time.
type collector struct {
	mu     sync.Mutex
	done   map[revision.Slot]table.Revision // last commits whose rows were collected
	cancel context.CancelFunc
	ended  sync.WaitGroup
	tally  tally
}

// Collect collects garbage once, with whatever servers there are. Those that
// read the past below the horizon are waited for, but no longer than two leases:
// then less is collected.
func (db *DB) Collect(ctx context.Context, o CollectOptions) (Collection, error) {
	b, err := db.horizon.bounds(ctx)
	if err != nil {
		return Collection{}, err
	}
	horizon := max(b.before(o.Retention), b.announced) // it never sinks
	if o.Dry {
		return db.collect(ctx, b, horizon, o)
	}
	if b, err = db.raise(ctx, horizon); err != nil {
		return Collection{}, err
	}
	return db.collect(ctx, b, b.honoured, o)
}

// raise announces a horizon and returns when all servers honour it, or when they
// had two leases to do so.
func (db *DB) raise(ctx context.Context, horizon table.Revision) (*bounds, error) {
	if err := db.log.RaiseHorizon(ctx, horizon); err != nil {
		return nil, err
	}
	for end := time.Now().Add(2 * db.o.Lease); ; {
		b, err := db.horizon.bounds(ctx)
		if err != nil || b.honoured >= horizon || time.Now().After(end) || !db.Shared() {
			return b, err
		}
		if err := pause.For(ctx, db.o.Poll); err != nil {
			return nil, err
		}
	}
}

// collect removes what is below a horizon that everybody honours, and, of what has
// no history, what is older than the youngest horizon.
func (db *DB) collect(ctx context.Context, b *bounds, horizon table.Revision, o CollectOptions) (Collection, error) {
	g := &db.garbage
	g.mu.Lock()
	defer g.mu.Unlock()
	p := &pass{db: db, b: b, o: o, horizon: horizon, sum: Collection{Horizon: horizon}}
	err := p.run(ctx)
	if errors.Is(err, errSpent) {
		p.sum.Partial, err = true, nil
	}
	if r, ok := db.store.(table.Reclaimer); ok && err == nil && !o.Dry {
		err = r.Reclaim(ctx, o.Now)
	}
	if err != nil {
		return p.sum, fmt.Errorf("collecting garbage: %w", err)
	}
	if !o.Dry {
		g.tally.removed.Add(int64(p.sum.Removed.Cells))
		g.tally.last.Store(db.o.Now().UnixNano())
	}
	return p.sum, nil
}

// start collects in the background.
func (g *collector) start(db *DB) {
	if !db.o.Collect || db.o.ReadOnly {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	g.cancel = cancel
	g.ended.Go(func() { db.collectNowAndThen(ctx) })
}

func (g *collector) stop() {
	if g.cancel != nil {
		g.cancel()
		g.ended.Wait()
	}
}

// Secrets are looked for several times within their age, and history often enough
// that it does not outlive its retention by much.
const (
	mostOften   = 100 * time.Millisecond
	mostSeldom  = time.Hour
	secretLooks = 4
	looks       = 128
)

func (db *DB) collectNowAndThen(ctx context.Context) {
	every := min(max(db.o.Retention/looks, mostOften), mostSeldom)
	interval := max(db.o.SecretAge/secretLooks, mostOften)
	if db.o.Retention > 0 {
		interval = min(interval, every)
	}
	var last time.Time
	for pause.For(ctx, jittered(interval, db.o.random())) == nil {
		o := CollectOptions{Retention: db.o.Retention, Rate: db.o.CollectRate}
		whole := db.o.Retention > 0 && time.Since(last) >= every
		done, err := db.collectAsLeader(ctx, o, whole)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			db.o.Log.Warn("collecting garbage", "store", db.store.String(), "error", err)
		case whole:
			last = time.Now()
		}
		if done.Removed.Cells > 0 {
			db.o.Log.Info("collected garbage", "horizon", done.Horizon.Time(), "commits", done.Commits,
				"rows", done.Rows, "cells", done.Removed.Cells, "bytes", done.Removed.Bytes)
		}
	}
}

// collectAsLeader collects if it falls to this server: what is below the horizon that
// all honour by now, having announced the next one.
func (db *DB) collectAsLeader(ctx context.Context, o CollectOptions, whole bool) (Collection, error) {
	b, err := db.horizon.bounds(ctx)
	if err != nil || !b.leader {
		return Collection{}, err
	}
	if !whole {
		return db.collect(ctx, b, 0, o)
	}
	if err := db.log.RaiseHorizon(ctx, b.before(o.Retention)); err != nil {
		return Collection{}, err
	}
	if b, err = db.horizon.bounds(ctx); err != nil {
		return Collection{}, err
	}
	return db.collect(ctx, b, b.honoured, o)
}
