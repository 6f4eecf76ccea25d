package txn

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/revision"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// A Snapshot is a state of the store that does not change. It implements table.View.
// Close the snapshot after use, so that garbage collection can proceed, and do not use it
// after Close.
type Snapshot struct {
	db      *DB
	view    view             // nil if every revision up to max is visible
	heads   *revision.Vector // the heads vector of the state; nil on a store of one server that never had a branch
	max     table.Revision
	low     table.Revision
	ordinal uint64  // 0 for a state of the past or of a branch
	err     error   // if the state is not available, the error of every read
	pinned  bool    // the state is below the horizon; a checkpoint or a parked branch keeps it
	branch  *Branch // the branch whose state this is; nil for the trunk
	// recordsMarks is set on a store of one server if branches existed at this state. Commits
	// then note their marks in the journal.
	recordsMarks bool
	// complete is set if every branch that is not parked was merged at or below low, or
	// began at or above low. Parked branches do not count: a merge needs the history
	// above low, and the history since a parked branch began may have been collected.
	complete bool

	refs    atomic.Int64
	expired atomic.Pointer[error] // like err, but set after the snapshot was returned
}

// A view determines what a snapshot of a shared store, or of a store with branches, shows.
type view interface {
	table.View
	// Frontier returns, for each slot, the revision up to which the view shows all
	// commits of that slot.
	Frontier() revision.Frontier
	// Swept reports whether it is certain that r is decided and that no cells of r have to be
	// removed.
	Swept(r table.Revision) bool
	// ShownBy returns the revision from which on r is visible: r itself, or the merge of
	// the branch that r belongs to.
	ShownBy(r table.Revision) table.Revision
	// Settled returns a revision s for the state at a revision, the parameter at. Of the
	// cells in the store that commits in branches wrote, this state shows all cells up to
	// s.
	Settled(at table.Revision) table.Revision
}

var _ table.Reader = (*Snapshot)(nil)
var _ table.Causal = (*Snapshot)(nil)

// Snapshot returns the newest published state. It normally neither waits nor allocates, because
// all callers between two commits share one Snapshot. After an idle time, Snapshot first waits
// for a reading of the heads, for Options.Poll at most. If the heads could not be read for a
// whole lease, Snapshot returns a snapshot whose reads fail.
func (db *DB) Snapshot() *Snapshot {
	if err := db.views.fresh(); err != nil {
		return db.tooOld(err)
	}
	for {
		s := db.current.Load()
		s.refs.Add(1)
		// If s is no longer current, it may have been dropped from the registry between the
		// two lines above. If s is still current, the goroutine that replaces s will see that
		// s is in use.
		if db.current.Load() == s {
			return s
		}
		s.refs.Add(-1)
	}
}

// Ordinal returns the ordinal of the state that Snapshot returns. It is 0 if that state
// cannot be read.
func (db *DB) Ordinal() uint64 {
	s := db.Snapshot()
	defer s.Close()
	return s.ordinal
}

// tooOld returns a snapshot whose reads all return err. It is for a server that could not
// read the store's heads for so long that other servers may have committed without its
// knowledge.
func (db *DB) tooOld(err error) *Snapshot {
	s := db.current.Load()
	return &Snapshot{db: db, view: s.view, heads: s.heads, max: s.max, low: s.low, err: err}
}

// At returns the state at a past revision. It returns ErrRevision if r is above the newest
// revision, or if commits up to r stay undecided for too long. It returns a HorizonError if r
// is below Horizon and neither a checkpoint nor a parked branch keeps the state.
func (db *DB) At(ctx context.Context, r table.Revision) (*Snapshot, error) {
	s, err := db.views.at(ctx, r)
	if err != nil {
		return nil, err
	}
	return db.admitPast(ctx, s)
}

// AtLeast makes sure that Snapshot returns states that show the commit r. Some server of
// the store must have acknowledged r. AtLeast reads the store's heads once at most: that
// is enough, because a commit is published before it is acknowledged. If there is no
// such commit, AtLeast returns an error that wraps ErrRevision.
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

// AtTime returns the state that shows everything committed up to t. If t has only just
// passed, AtTime waits for a limited time until no commit at or before t can be added.
// The state that it returns is the same on every server and never changes.
func (db *DB) AtTime(ctx context.Context, t time.Time) (*Snapshot, error) {
	if now := db.o.Now(); t.After(now) {
		return nil, fmt.Errorf("%w: %s, and it is %s", ErrFuture, t.UTC().Format(time.RFC3339Nano), now.UTC().Format(time.RFC3339))
	}
	s, err := db.views.until(ctx, revision.At(t))
	if err != nil {
		return nil, err
	}
	return db.admitPast(ctx, s)
}

// Decided returns the newest state to which no commit can be added: up to its revision
// every server shows the same commits, forever.
func (db *DB) Decided(ctx context.Context) (*Snapshot, error) {
	_, r := db.Bounds()
	return db.At(ctx, r)
}

// Bounds returns the first and the last revision of the range in which all commits are
// kept and decided.
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

// Max implements table.View. It returns the snapshot's revision.
func (s *Snapshot) Max() table.Revision { return s.max }

// Low implements table.View. Unless complete is set, the result is below every branch commit that
// s does not show.
func (s *Snapshot) Low() table.Revision {
	if s.view == nil || s.complete {
		return s.low
	}
	return min(s.low, s.view.Settled(s.max))
}

// lowMark returns a revision up to which no commit that s does not show has marks that matter. It may be above
// Low, because the marks of aborted commits do not matter.
func (s *Snapshot) lowMark() table.Revision {
	return min(s.heads.Stable(), s.view.Settled(s.max)) //rule:branch-low
}

// Decided returns a revision up to which every server shows exactly the commits that s
// shows, forever. The result is at least Low. Below the result there may be revisions
// whose cells still have to be removed.
func (s *Snapshot) Decided() table.Revision {
	if s.view == nil {
		return s.max
	}
	if v, ok := s.view.(*revision.Vector); ok {
		return min(s.max, v.Decided())
	}
	return s.low
}

// ShownBy returns the first revision whose state shows a visible revision r: r itself, or the merge
// of the branch that r belongs to.
func (s *Snapshot) ShownBy(r table.Revision) table.Revision {
	if s.view == nil {
		return r
	}
	return s.view.ShownBy(r)
}

// Visible implements table.View.
func (s *Snapshot) Visible(r table.Revision) bool {
	switch {
	case r > s.max:
		return false
	case s.view == nil:
		return !r.IsStaged()
	case !s.view.Visible(r):
		return false
	}
	return !r.IsStaged() || s.view.ShownBy(r) <= s.max //rule:shown-by
}

// IsCausal implements table.Causal. On a store of one server, each commit saw all earlier
// commits of its line, which is the trunk or a branch.
func (s *Snapshot) IsCausal() bool { return !s.db.Shared() }

// Swept reports whether it is certain that r is decided and that no cells of r have to be
// removed.
func (s *Snapshot) Swept(r table.Revision) bool {
	return s.view == nil || s.view.Swept(r)
}

// Ordinal returns the number of the state, in the order in which this server has shown
// its states. Of two snapshots of the present, the snapshot with the larger ordinal shows
// everything that the other snapshot shows. The ordinal of a snapshot of the past or of a
// branch is zero, and what was read from such a snapshot must not be cached.
func (s *Snapshot) Ordinal() uint64 { return s.ordinal }

// Unchanged reports whether no commit that s shows has touched id after the state with the
// ordinal since. It may return false although id is unchanged, but it never returns true if id
// has changed. It returns false if s.Ordinal() is zero, and if the parameter since is zero or
// larger than s.Ordinal().
func (s *Snapshot) Unchanged(id entry.ID, since uint64) bool {
	return since != 0 && since <= s.ordinal && s.db.changes.last(hash(id)) <= since
}

// UnchangedKey is like Unchanged, for a key of [Tx.TouchKeys].
func (s *Snapshot) UnchangedKey(key, since uint64) bool {
	return since != 0 && since <= s.ordinal && s.db.changes.last(key) <= since
}

// TouchedWith returns the ids that were touched together with key, which is a key of
// [Tx.TouchKeys]. It considers only commits after the state with the ordinal since. The ids are
// sorted. Some of these commits may be visible only in later snapshots than s. TouchedWith
// returns false if some of the commits are no longer recorded, and if the parameter since is
// zero or larger than s.Ordinal().
func (s *Snapshot) TouchedWith(key, since uint64) ([]entry.ID, bool) {
	if since == 0 || since > s.ordinal {
		return nil, false
	}
	return s.db.changes.latest.ids(&key, since)
}

// TouchedSince is like TouchedWith, but returns all ids that were touched.
func (s *Snapshot) TouchedSince(since uint64) ([]entry.ID, bool) {
	if since == 0 || since > s.ordinal {
		return nil, false
	}
	return s.db.changes.latest.ids(nil, since)
}

// Get implements Reader.
func (s *Snapshot) Get(ctx context.Context, t table.Table, row []byte, sel table.Select) (table.Row, error) {
	return viewed{s, s}.Get(ctx, t, row, sel)
}

// GetMany implements Reader.
func (s *Snapshot) GetMany(ctx context.Context, t table.Table, rows [][]byte, sel table.Select) ([]table.Row, error) {
	return viewed{s, s}.GetMany(ctx, t, rows, sel)
}

// Scan implements Reader.
func (s *Snapshot) Scan(ctx context.Context, t table.Table, r table.Range, sel table.Select) iter.Seq2[table.Row, error] {
	return viewed{s, s}.Scan(ctx, t, r, sel)
}

// Noting returns a Reader of the same state. It calls note with the revisions of cells that it meets
// and that s does not show, if s.Swept reports true for them. It meets the newest cell of each
// column that it reads, even if the cell is newer than the state.
func (s *Snapshot) Noting(note func(table.Revision)) table.Reader {
	return viewed{s, &recordingView{s, note}}
}

// A noting is the view of a snapshot that notes revisions.
type recordingView struct {
	*Snapshot
	note func(table.Revision)
}

func (n *recordingView) Max() table.Revision { return revision.Last }

func (n *recordingView) Visible(r table.Revision) bool {
	visible := n.Snapshot.Visible(r)
	if !visible && n.Swept(r) {
		n.note(r)
	}
	return visible
}

// viewed reads the tables of a snapshot through a view.
type viewed struct {
	s    *Snapshot
	view table.View
}

func (v viewed) Get(ctx context.Context, t table.Table, row []byte, sel table.Select) (table.Row, error) {
	s := v.s
	if err := s.unreadable(); err != nil {
		return table.Row{}, err
	}
	if s.branch != nil {
		rows, err := s.getBranch(ctx, t, [][]byte{row}, sel)
		if err != nil {
			return table.Row{}, err
		}
		return rows[0], nil
	}
	sel.View = v.view
	r, err := t.Get(ctx, row, sel)
	if err == nil {
		err = s.stillKept(ctx)
	}
	return r, err
}

func (v viewed) GetMany(ctx context.Context, t table.Table, rows [][]byte, sel table.Select) ([]table.Row, error) {
	s := v.s
	if err := s.unreadable(); err != nil {
		return nil, err
	}
	if s.branch != nil {
		return s.getBranch(ctx, t, rows, sel)
	}
	sel.View = v.view
	got, err := t.GetMany(ctx, rows, sel)
	if err == nil {
		err = s.stillKept(ctx)
	}
	return got, err
}

func (v viewed) Scan(ctx context.Context, t table.Table, r table.Range, sel table.Select) iter.Seq2[table.Row, error] {
	s := v.s
	if err := s.unreadable(); err != nil {
		return func(yield func(table.Row, error) bool) { yield(table.Row{}, err) }
	}
	if s.branch != nil {
		return s.scanBranch(ctx, t, r, sel)
	}
	sel.View = v.view
	if !s.asked() {
		return s.scanKept(ctx, t.Scan(ctx, r, sel))
	}
	return t.Scan(ctx, r, sel)
}

// show makes s the current state. The caller shows one state at a time. Each state shows
// everything that the state before it shows. The caller has already recorded in
// db.changes what the new commits of s changed.
func (db *DB) show(s *Snapshot) {
	db.registry.add(s)
	db.current.Store(s)
	db.shown.Broadcast()
}

// A broadcast lets goroutines wait for the next event of a series.
type broadcast struct {
	mu sync.Mutex
	ch chan struct{} // nil if nobody waits
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
