package txn

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-4dac0d86/ldapd/store/pause"
	"github.com/seed-4dac0d86/ldapd/store/revision"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// Garbage collection follows the journal. The record of a commit names the rows that the
// commit wrote or wrote over. When a commit falls below the horizon, collection removes
// from these rows the versions that no readable state shows. Then it removes the commit's
// own row from the journal. So the work is proportional to the amount written, and it is
// done in the order of the commits. After an interruption, the next collection continues
// at the beginning of the journal.
//
// A horizon is first announced. A server honours the announced horizon as soon as none of
// its snapshots is older, and publishes the honoured horizon in its heads cell.
// Collection removes only history below the smallest honoured horizon (transactions.md,
// "Retention").

// CollectOptions are the options of one collection.
type CollectOptions struct {
	// Retention is how long history is kept.
	Retention time.Duration
	// Rate bounds the rows examined per second; zero means no bound.
	Rate int
	// All makes Collect examine every row, not only the rows that the journal names.
	All bool
	// Dry makes Collect count what it would remove, and remove nothing. A dry collection
	// that has run for the duration Budget ends with the counts so far. A zero Budget means
	// no bound.
	Dry    bool
	Budget time.Duration
	// Now makes the store release the space immediately.
	Now bool
}

// A Collection is the result of one collection.
type Collection struct {
	Horizon table.Revision // history below this revision may have been removed
	Commits int            // commits removed from the journal
	Rows    int            // rows examined
	Removed table.Collected
	Whole   bool // every row was examined
	Partial bool // the budget was exhausted, so the counts are lower bounds
}

// bounds are the limits of what may be collected.
type bounds struct {
	announced table.Revision // the horizon announced to all servers
	honoured  table.Revision // servers read no older state, except pinned states, such as checkpoints
	// All commits up to stable are decided, and no cells of aborted commits are left up
	// to stable.
	stable table.Revision
	now    table.Revision // the current time, from which ages are measured
	// Every snapshot in use, except snapshots of the past, is at or above young.
	young table.Revision
	// secrets is like young, but ignores the bases of branches.
	secrets table.Revision
	slots   []revision.Slot
	leader  bool // this server collects for all servers

	// visible, void and swept are the methods of the heads' revision.Vector with these
	// names. They are nil on a store of one server that never had a branch, because such a
	// store shows every commit.
	visible, void, swept func(table.Revision) bool
	// shownBy and noBranch are the methods ShownBy and NoBranchWithin of the heads'
	// revision.Vector. They are nil on a store of one server that never had a branch.
	shownBy, noBranch func(table.Revision) table.Revision
	// parked lists the bases of parked branches, which are kept as checkpoints are.
	parked []table.Revision
}

// The method "before" returns the revision of the time b.now minus age, or b.stable if that is
// smaller.
func (b *bounds) before(age time.Duration) table.Revision {
	return min(b.stable, revision.At(b.now.Time().Add(-age)))
}

// A collector runs the garbage collections of a DB, one at a time.
type collector struct {
	db     *DB
	mu     sync.Mutex
	done   map[revision.Slot]table.Revision // for each slot, the last commit whose rows were collected
	cancel context.CancelFunc
	ended  sync.WaitGroup
	tally  tally
	warned map[string]table.Revision // the bases of the branches for which a warning was logged, by the branch's name
}

// A tally counts what garbage collection has removed since the store was opened.
type tally struct {
	removed atomic.Int64
	// last is the end of the last collection, in nanoseconds since 1970, or 0 if there
	// was none.
	last atomic.Int64
}

// Collect runs one garbage collection, up to a horizon that all servers honour. It waits
// at most two leases for servers that read the past below the new horizon. If such
// servers remain, it collects only up to the horizon that they honour.
func (g *collector) Collect(ctx context.Context, o CollectOptions) (Collection, error) {
	b, err := g.db.horizon.bounds(ctx)
	if err != nil {
		return Collection{}, err
	}
	horizon := max(b.before(o.Retention), b.announced) // the horizon must not fall
	if o.Dry {
		return g.collect(ctx, b, horizon, o)
	}
	if b, err = g.raise(ctx, horizon); err != nil {
		return Collection{}, err
	}
	return g.collect(ctx, b, b.honoured, o)
}

// raise announces a horizon and returns when all servers honour it, or after two leases. On a
// store of one server it does not wait.
func (g *collector) raise(ctx context.Context, horizon table.Revision) (*bounds, error) {
	if err := g.db.log.RaiseHorizon(ctx, horizon); err != nil {
		return nil, err
	}
	for end := time.Now().Add(2 * g.db.o.Lease); ; {
		b, err := g.db.horizon.bounds(ctx)
		if err != nil || b.honoured >= horizon || time.Now().After(end) || !g.db.Shared() {
			return b, err
		}
		if err := pause.For(ctx, g.db.o.Poll); err != nil {
			return nil, err
		}
	}
}

// collect removes the history below the given horizon, which every server must honour unless
// o.Dry is set. From the families without history, collect removes what no state at or above
// secretHorizon shows.
func (g *collector) collect(ctx context.Context, b *bounds, horizon table.Revision, o CollectOptions) (Collection, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if b.noBranch != nil {
		horizon = b.noBranch(horizon)
	}
	p := &pass{db: g.db, b: b, o: o, horizon: horizon, sum: Collection{Horizon: horizon}}
	var err error
	if !o.Dry {
		err = g.db.keepNumbers(ctx, horizon)
	}
	if err == nil {
		err = p.run(ctx)
	}
	if errors.Is(err, errSpent) {
		p.sum.Partial, err = true, nil
	}
	if r, ok := g.db.store.(table.Reclaimer); ok && err == nil && !o.Dry {
		err = r.Reclaim(ctx, o.Now)
	}
	if err != nil {
		return p.sum, fmt.Errorf("collecting garbage: %w", err)
	}
	if !o.Dry {
		g.tally.removed.Add(int64(p.sum.Removed.Cells))
		g.tally.last.Store(g.db.o.Now().UnixNano())
	}
	return p.sum, nil
}

// start starts collection in the background.
func (g *collector) start() {
	if !g.db.o.Collect || g.db.o.ReadOnly {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	g.cancel = cancel
	g.ended.Go(func() { g.collectNowAndThen(ctx) })
}

func (g *collector) stop() {
	if g.cancel != nil {
		g.cancel()
		g.ended.Wait()
	}
}

// mostOften and mostSeldom bound the interval between collections. secretLooks is the
// number of collections that run during SecretAge. looks is the number of collections
// that run during the retention of history, so that history does not outlive its
// retention by much.
const (
	mostOften   = 100 * time.Millisecond
	mostSeldom  = time.Hour
	secretLooks = 4
	looks       = 128
)

func (g *collector) collectNowAndThen(ctx context.Context) {
	every := min(max(g.db.o.Retention/looks, mostOften), mostSeldom)
	interval := max(g.db.o.SecretAge/secretLooks, mostOften)
	if g.db.o.Retention > 0 {
		interval = min(interval, every)
	}
	var last time.Time
	for pause.For(ctx, jittered(interval, g.db.o.random())) == nil {
		o := CollectOptions{Retention: g.db.o.Retention, Rate: g.db.o.CollectRate}
		whole := g.db.o.Retention > 0 && time.Since(last) >= every
		done, err := g.collectAsLeader(ctx, o, whole)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			g.db.o.Log.Warn("collecting garbage", "store", g.db.store.String(), "error", err)
		case whole:
			last = time.Now()
		}
		if ctx.Err() == nil && err == nil && whole {
			g.parkOld(ctx)
		}
		if done.Removed.Cells > 0 {
			g.db.o.Log.Info("collected garbage", "horizon", done.Horizon.Time(), "commits", done.Commits,
				"rows", done.Rows, "cells", done.Removed.Cells, "bytes", done.Removed.Bytes)
		}
	}
}

// collectAsLeader collects if this server collects for all servers. If whole is set, it
// announces the next horizon and then removes the history below the horizon that all
// servers honour by now. Otherwise it collects only the families without history.
func (g *collector) collectAsLeader(ctx context.Context, o CollectOptions, whole bool) (Collection, error) {
	b, err := g.db.horizon.bounds(ctx)
	if err != nil || !b.leader {
		return Collection{}, err
	}
	if !whole {
		return g.collect(ctx, b, 0, o)
	}
	if err := g.db.log.RaiseHorizon(ctx, b.before(o.Retention)); err != nil {
		return Collection{}, err
	}
	if b, err = g.db.horizon.bounds(ctx); err != nil {
		return Collection{}, err
	}
	return g.collect(ctx, b, b.honoured, o)
}

// parkOld parks the branches that are too old. It warns of branches that will soon be too
// old.
func (g *collector) parkOld(ctx context.Context) {
	b, err := g.db.horizon.bounds(ctx)
	if err != nil || !b.leader || g.db.o.BranchAge == 0 {
		return
	}
	limit := max(g.db.o.BranchAge, g.db.o.Retention)
	for _, branch := range g.db.Branches() {
		i, err := branch.Info()
		if err != nil || i.Parked || i.Merging {
			continue
		}
		age := b.now.Time().Sub(i.Base.Time())
		if age < limit {
			g.warnOfOld(branch.name, i.Base, age, limit)
		} else if err = branch.Park(ctx); err == nil {
			g.db.o.Log.Warn("a branch was parked: it can be read, rebased or discarded, but not merged", "branch", branch.name, "base", i.Base.Time(), "age", age.Round(time.Second))
		} else if !errors.Is(err, ErrConflict) && !errors.Is(err, ErrBranch) {
			g.db.o.Log.Warn("parking an old branch", "branch", branch.name, "error", err)
		}
	}
}

// warnOfOld logs one warning for a branch that has at most a fourth of the limit left
// before it is parked.
func (g *collector) warnOfOld(name string, base table.Revision, age, limit time.Duration) {
	if age < limit-limit/4 || g.warned[name] == base {
		return
	}
	if g.warned == nil {
		g.warned = map[string]table.Revision{}
	}
	g.warned[name] = base
	g.db.o.Log.Warn("a branch will soon be parked: merge, rebase or discard it before", "branch", name,
		"base", base.Time(), "in", (limit - age).Round(time.Second))
}

// Collected returns how many versions the collections of this server have removed, and
// when the last successful collection ended. The zero time means that there was none.
func (g *collector) Collected() (versions int64, last time.Time) {
	t := &g.tally
	if n := t.last.Load(); n != 0 {
		last = time.Unix(0, n)
	}
	return t.removed.Load(), last
}
