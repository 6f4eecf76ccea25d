package txn

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/revision"
	"github.com/seed-4dac0d86/ldapd/table"
)

// Snapshot is a state of the store that does not change (a table.View). Close
// it when done, so that garbage collection may pass it; do not use it after.
type Snapshot struct {
	db      *DB
	view    view             // nil: every revision up to max is visible
	heads   *revision.Vector // that a state of several servers was made of
	max     table.Revision
	low     table.Revision
	ordinal uint64 // 0: a state of the past
	err     error  // what every read answers, if the state is not to be had
	pinned  bool   // a checkpoint below the horizon

	refs    atomic.Int64
	expired atomic.Pointer[error] // as err, since then
}

// A view is what several servers show.
type view interface {
	table.View
	// Frontier returns how far each slot is shown.
	Frontier() revision.Frontier
	// Swept reports whether nothing will be done about a revision any more.
	Swept(r table.Revision) bool
}

var _ table.Reader = (*Snapshot)(nil)
var _ table.View = (*Snapshot)(nil)

// Snapshot returns the newest published state. It is cheap: nobody waits and
// nothing is allocated, since all who ask between two commits share one.
func (db *DB) Snapshot() *Snapshot {
	if err := db.views.fresh(); err != nil {
		return db.tooOld(err)
	}
	for {
		s := db.current.Load()
		s.refs.Add(1)
		// A state that is no longer current may have been dropped from the
		// list of live ones between the two lines above. One that still is
		// current now will be seen in use by whoever replaces it.
		if db.current.Load() == s {
			return s
		}
		s.refs.Add(-1)
	}
}

// tooOld stands for the state of a server that lost touch with the store for so
// long that others may have gone on without it: every read answers the error.
func (db *DB) tooOld(err error) *Snapshot {
	s := db.current.Load()
	return &Snapshot{db: db, view: s.view, heads: s.heads, max: s.max, low: s.low, err: err}
}

// At returns the state at a past revision. One above the newest is an ErrRevision,
// and one below Horizon that no checkpoint keeps a HorizonError.
func (db *DB) At(ctx context.Context, r table.Revision) (*Snapshot, error) {
	s, err := db.views.at(ctx, r)
	if err != nil {
		return nil, err
	}
	return db.admit(ctx, s)
}

// AtLeast returns when a Snapshot shows a commit that some server of the store has
// acknowledged: at once, or after one look at the store, since what is acknowledged
// is published. An error wraps ErrRevision if there is no such commit.
func (db *DB) AtLeast(ctx context.Context, r table.Revision) error {
	if db.shows(r) {
		return nil
	}
	if err := db.CatchUp(ctx); err != nil {
		return err
	}
	if db.shows(r) {
		return nil
	}
	return fmt.Errorf("%w: %s was not committed here", ErrRevision, r)
}

func (db *DB) shows(r table.Revision) bool {
	s := db.Snapshot()
	defer s.Close()
	return s.err == nil && s.Visible(r)
}

// AtTime returns the state of a moment: all that was committed up to it. One that
// has hardly passed is waited for, within bounds, until nothing can be committed
// any more that belongs to it; then it is the same state on every server, for
// ever.
func (db *DB) AtTime(ctx context.Context, t time.Time) (*Snapshot, error) {
	if now := db.o.Now(); t.After(now) {
		return nil, fmt.Errorf("%w: %s, and it is %s", ErrFuture, t.UTC().Format(time.RFC3339Nano), now.UTC().Format(time.RFC3339))
	}
	s, err := db.views.until(ctx, revision.At(t))
	if err != nil {
		return nil, err
	}
	return db.admit(ctx, s)
}

// Decided returns the newest state that nothing can be added to any more: up to its
// revision every server shows the same, for ever.
func (db *DB) Decided(ctx context.Context) (*Snapshot, error) {
	_, r := db.Bounds()
	return db.At(ctx, r)
}

// Bounds returns the revisions between which commits are kept and settled.
func (db *DB) Bounds() (first, last table.Revision) {
	s := db.Snapshot()
	defer s.Close()
	last = s.max
	if s.heads != nil {
		last = min(last, s.heads.Decided())
	}
	return db.Horizon() + 1, last
}

// Close releases the snapshot.
func (s *Snapshot) Close() { s.refs.Add(-1) }

// Max implements table.View; it is the snapshot's revision.
func (s *Snapshot) Max() table.Revision { return s.max }

// Low implements table.View.
func (s *Snapshot) Low() table.Revision { return s.low }

// Visible implements table.View.
func (s *Snapshot) Visible(r table.Revision) bool {
	return r <= s.max && (s.view == nil || s.view.Visible(r))
}

// Swept reports whether what r wrote, if the snapshot does not show it, is there
// by mistake: no commit under way, and nothing that is still to be removed.
func (s *Snapshot) Swept(r table.Revision) bool {
	return s.view == nil || s.view.Swept(r)
}

// Ordinal counts the states this server has shown: of two current snapshots the
// one with the larger ordinal shows all that the other shows. Zero for
// snapshots of the past: what was read there is not for caches.
func (s *Snapshot) Ordinal() uint64 { return s.ordinal }

// Unchanged reports whether no commit that s shows, beyond those a snapshot of
// ordinal since showed, has touched id. It may say false without need, never
// true wrongly. False for snapshots of the past and when since > s.Ordinal().
func (s *Snapshot) Unchanged(id entry.ID, since uint64) bool {
	return since != 0 && since <= s.ordinal && s.db.changes.last(hash(id)) <= since
}

// UnchangedKey is Unchanged for what [Tx.TouchKeys] names.
func (s *Snapshot) UnchangedKey(key, since uint64) bool {
	return since != 0 && since <= s.ordinal && s.db.changes.last(key) <= since
}

// TouchedWith returns the ids that commits, beyond those that a snapshot of ordinal
// since showed, have touched together with a key of [Tx.TouchKeys], sorted. It may
// return some that only later snapshots show. False: that is not known any more.
func (s *Snapshot) TouchedWith(key, since uint64) ([]entry.ID, bool) {
	if since == 0 || since > s.ordinal {
		return nil, false
	}
	return s.db.changes.latest.with(key, since)
}

// Get implements Reader.
func (s *Snapshot) Get(ctx context.Context, t table.Table, row []byte, sel table.Select) (table.Row, error) {
	if err := s.unreadable(); err != nil {
		return table.Row{}, err
	}
	sel.View = s
	r, err := t.Get(ctx, row, sel)
	if err == nil {
		err = s.stillKept(ctx)
	}
	return r, err
}

// GetMany implements Reader.
func (s *Snapshot) GetMany(ctx context.Context, t table.Table, rows [][]byte, sel table.Select) ([]table.Row, error) {
	if err := s.unreadable(); err != nil {
		return nil, err
	}
	sel.View = s
	got, err := t.GetMany(ctx, rows, sel)
	if err == nil {
		err = s.stillKept(ctx)
	}
	return got, err
}

// Scan implements Reader.
func (s *Snapshot) Scan(ctx context.Context, t table.Table, r table.Range, sel table.Select) iter.Seq2[table.Row, error] {
	if err := s.unreadable(); err != nil {
		return func(yield func(table.Row, error) bool) { yield(table.Row{}, err) }
	}
	sel.View = s
	if !s.asked() {
		return s.scanKept(ctx, t.Scan(ctx, r, sel))
	}
	return t.Scan(ctx, r, sel)
}

// show makes s the current state. States are shown one at a time, each with
// all that the one before shows; the ordinals of their commits are in
// db.changes already.
func (db *DB) show(s *Snapshot) {
	db.live.add(s)
	db.current.Store(s)
	db.shown.Broadcast()
}

// Oldest returns the low-water mark of the oldest snapshot in use, except those of
// the past: what the collection of marks and of secrets may not pass.
func (db *DB) Oldest() table.Revision {
	return db.live.oldest(db.current.Load())
}

// A registry has the snapshots that may be in use.
type registry struct {
	mu   sync.Mutex
	all  []*Snapshot
	next int // length at which unused ones are swept
	// horizon: no state older than it is in use, except checkpoints, nor given.
	horizon table.Revision
}

func (g *registry) add(s *Snapshot) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.all) >= g.next {
		g.dropUnused()
		g.next = max(64, 2*len(g.all))
	}
	g.all = append(g.all, s)
}

// dropUnused drops what nobody uses. The last one may be the current state, which
// anybody may begin to use.
func (g *registry) dropUnused() {
	kept := g.all[:0]
	for _, s := range g.all {
		if s.refs.Load() > 0 || s == s.db.current.Load() {
			kept = append(kept, s)
		}
	}
	clear(g.all[len(kept):])
	g.all = kept
}

func (g *registry) oldest(current *Snapshot) table.Revision {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.dropUnused()
	low := current.low
	for _, s := range g.all {
		if s.ordinal != 0 {
			low = min(low, s.low)
		}
	}
	return low
}

// broadcast lets goroutines wait for the next of a row of events.
type broadcast struct {
	mu sync.Mutex
	ch chan struct{} // nil: nobody waits
}

// Next returns a channel that the next Broadcast closes.
func (b *broadcast) Next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch == nil {
		b.ch = make(chan struct{})
	}
	return b.ch
}

func (b *broadcast) Broadcast() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch != nil {
		close(b.ch)
		b.ch = nil
	}
}
