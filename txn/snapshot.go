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

// A Snapshot is a state of the store that does not change (a table.View). Close it when
// done, so that garbage collection can proceed; do not use it after that.
type Snapshot struct {
	db      *DB
	view    view             // nil: every revision up to max is visible
	heads   *revision.Vector // of the state, on a store of several servers
	max     table.Revision
	low     table.Revision
	ordinal uint64 // 0: a state of the past
	err     error  // returned by every read, if the state is not available
	pinned  bool   // at a checkpoint below the horizon

	refs    atomic.Int64
	expired atomic.Pointer[error] // like err, set later
}

// A view is the view of a store of several servers.
type view interface {
	table.View
	// Frontier returns up to where each slot is shown.
	Frontier() revision.Frontier
	// Swept reports whether r is neither under way nor still to be removed.
	Swept(r table.Revision) bool
}

var _ table.Reader = (*Snapshot)(nil)
var _ table.View = (*Snapshot)(nil)

// Snapshot returns the newest published state. It is cheap: it does not wait or
// allocate, since all callers between two commits share one.
func (db *DB) Snapshot() *Snapshot {
	if err := db.views.fresh(); err != nil {
		return db.tooOld(err)
	}
	for {
		s := db.current.Load()
		s.refs.Add(1)
		// The state may have been dropped from the registry between the two lines above
		// if it is no longer current. If it still is, whoever replaces it will see that
		// it is in use.
		if db.current.Load() == s {
			return s
		}
		s.refs.Add(-1)
	}
}

// tooOld returns a snapshot whose reads all return err. It is for a server that lost
// touch with the store for so long that others may have gone on without it.
func (db *DB) tooOld(err error) *Snapshot {
	s := db.current.Load()
	return &Snapshot{db: db, view: s.view, heads: s.heads, max: s.max, low: s.low, err: err}
}

// At returns the state at a past revision. It returns ErrRevision if r is above the
// newest revision, and a HorizonError if r is below Horizon and no checkpoint keeps it.
func (db *DB) At(ctx context.Context, r table.Revision) (*Snapshot, error) {
	s, err := db.views.at(ctx, r)
	if err != nil {
		return nil, err
	}
	return db.admit(ctx, s)
}

// AtLeast returns when a Snapshot shows the commit r, which some server of the store
// has acknowledged. That takes at most one reading of the store, since acknowledged
// commits are published. The error wraps ErrRevision if there is no such commit.
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

// AtTime returns the state at a time: everything committed up to it. For a time that
// has only just passed it waits, within bounds, until no commit can be added up to it.
// After that the state is the same on every server, for ever.
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

// Decided returns the newest state to which nothing can be added: up to its revision
// every server shows the same, for ever.
func (db *DB) Decided(ctx context.Context) (*Snapshot, error) {
	_, r := db.Bounds()
	return db.At(ctx, r)
}

// Bounds returns the first and last revision between which commits are kept and
// decided.
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

// Swept reports whether cells of r, if the snapshot does not show r, are there by
// mistake: r is neither under way nor still to be removed.
func (s *Snapshot) Swept(r table.Revision) bool {
	return s.view == nil || s.view.Swept(r)
}

// Ordinal counts the states that this server has shown: of two current snapshots the
// one with the larger ordinal shows all that the other shows. It is zero for snapshots
// of the past; what was read there must not be cached.
func (s *Snapshot) Ordinal() uint64 { return s.ordinal }

// Unchanged reports whether id is unchanged since a snapshot of ordinal since: no other
// commit that s shows touched it. It may return false needlessly, but never true
// wrongly. It is false for snapshots of the past and if since > s.Ordinal().
func (s *Snapshot) Unchanged(id entry.ID, since uint64) bool {
	return since != 0 && since <= s.ordinal && s.db.changes.last(hash(id)) <= since
}

// UnchangedKey is Unchanged for the keys of [Tx.TouchKeys].
func (s *Snapshot) UnchangedKey(key, since uint64) bool {
	return since != 0 && since <= s.ordinal && s.db.changes.last(key) <= since
}

// TouchedWith returns the ids that commits after a snapshot of ordinal since touched
// together with a key of [Tx.TouchKeys], sorted. Some of the commits may be shown only
// by later snapshots than s. It returns false if it no longer knows all of them.
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

// show makes s the current state. States are shown one at a time, each with all that
// the one before shows. The ordinals of their commits are already in db.changes.
func (db *DB) show(s *Snapshot) {
	db.live.add(s)
	db.current.Store(s)
	db.shown.Broadcast()
}

// Oldest returns the low-water mark of the oldest snapshot in use, except snapshots of
// the past. Marks and secrets above it must not be collected.
func (db *DB) Oldest() table.Revision {
	return db.live.oldest(db.current.Load())
}

// A registry has the snapshots that may be in use.
type registry struct {
	mu   sync.Mutex
	all  []*Snapshot
	next int // length at which unused snapshots are dropped
	// horizon is the oldest revision that may be read. Snapshots in use are not older,
	// except those of checkpoints.
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

// dropUnused drops unused snapshots, but not the current one, which anybody may begin
// to use.
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

// A broadcast lets goroutines wait for the next event of a series.
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
