package txn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed-4dac0d86/ldapd/store/journal"
	"github.com/seed-4dac0d86/ldapd/store/revision"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// A Branch is a line of commits that nobody sees outside of the branch until a merge
// shows all of them at one revision. A Branch begins at a state of the trunk, which is
// its base. It has a slot of its own, so the slot in a revision shows whether the commit
// belongs to a branch. A commit in the branch is decided by the branch's cell in the row
// of heads. The commits of a branch form one sequence, and any server may make the next
// commit. docs/design/transactions.md, "Branches", has the rules.
type Branch struct {
	db          *DB
	slot        revision.Slot
	incarnation uint64
	name        string
}

// These are the errors of branches.
var (
	// ErrBranch: the branch does not exist, or it was merged or discarded.
	ErrBranch = errors.New("no such branch")
	// ErrBranchExists: another branch has the name.
	ErrBranchExists = errors.New("the branch exists")
	// ErrBranches: the request is not possible while there are branches, or while there are
	// so many.
	ErrBranches = errors.New("there are branches")
	// ErrParked: the branch is parked, so it takes no commits and cannot be merged.
	ErrParked = errors.New("the branch is parked")
)

// MaxBranches is the largest number of branches.
const MaxBranches = 64

// maxBranchCells is the largest number of cells of branches. It is bounded because every
// reading of the heads reads all of these cells. On a shared store, a merged branch keeps its
// cell at least while a branch that began before the merge is open. A discarded branch keeps
// its cell until the branch's data is removed.
const maxBranchCells = 512

// Name returns the name of the branch.
func (b *Branch) Name() string { return b.name }

// CreateBranch makes a branch of the newest state, which includes every commit that any
// server had made when CreateBranch was called.
func (db *DB) CreateBranch(ctx context.Context, name string) (*Branch, error) {
	return db.branches.createBranch(ctx, name)
}

func (e *cluster) createBranch(ctx context.Context, name string) (*Branch, error) {
	db := e.db
	if err := db.gate.enter(ctx, false); err != nil {
		return nil, err
	}
	defer db.gate.leave()
	w, err := e.holder() // if this server has no slot, fail before waiting
	if err != nil {
		return nil, err
	}
	if err := e.awaitRead(ctx); err != nil {
		return nil, err
	}
	// This snapshot protects the base, and the marks above the base, from collection
	// until the branch's cell protects them.
	held := db.Snapshot()
	defer held.Close()
	// If a server has fallen silent, other servers recover its slot within two leases.
	// The recovery decides the commits of the silent server.
	base, err := e.within(ctx, max(2*db.o.Lease, pastPatience), held.max)
	if err != nil {
		return nil, cmp.Or(canceled(ctx), fmt.Errorf("%w: making the branch %s: %w", ErrConflict, name, err))
	}
	if base, err = db.admit(ctx, base); err != nil {
		return nil, err
	}
	defer base.Close()
	return w.createBranch(ctx, name, base.max)
}

func (w *writer) createBranch(ctx context.Context, name string, base table.Revision) (*Branch, error) {
	for {
		heads, err := w.readHeads(ctx)
		if err != nil {
			return nil, err
		}
		slot, err := freeBranch(heads.Vector, name)
		if err != nil {
			return nil, err
		}
		old := heads.Cell(slot)
		c := revision.Cell{
			Kind: revision.Branch, State: revision.Recovering, Incarnation: old.Incarnation + 1, //rule:branch-made
			Sequence: old.Sequence, Oldest: base, Base: base, Horizon: base, Owner: name,
		}
		at := &branchCell{slot: slot, heads: heads, cell: old, raw: heads.Raw(slot)}
		if c.First, err = w.branchID(at); err != nil {
			return nil, err
		}
		c.Head = c.First
		done, err := w.swapBranch(ctx, at, c)
		if err != nil {
			return nil, fmt.Errorf("%w: making the branch %s: %w", ErrUnknown, name, err)
		}
		if !done {
			continue // another server claimed the slot
		}
		return w.openBranch(ctx, at)
	}
}

// openBranch opens a branch whose cell was just made. The swap that makes the cell may
// reach the store late, when the base is no longer protected from collection. So only
// the server that made the cell opens the branch: it knows that its snapshot has
// protected the base until now. If that server does not open the branch, other servers
// discard the branch.
func (w *writer) openBranch(ctx context.Context, c *branchCell) (*Branch, error) {
	b := &Branch{w.e.db, c.slot, c.cell.Incarnation, c.cell.Owner}
	// Two servers may be making branches of the same name. Each server writes its cell
	// before it reads the heads. So at least one server finds the other's cell and gives
	// up.
	heads, err := w.readHeads(ctx)
	if err != nil {
		return nil, err
	}
	if isTaken(heads.Vector, c.slot, b.name) {
		_, err := w.closeBranch(ctx, c)
		return nil, errors.Join(fmt.Errorf("%w: %s", ErrBranchExists, b.name), err)
	}
	_, err = w.reopen(ctx, c) //rule:branch-opened
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: making the branch %s: %w", ErrUnknown, b.name, err)
	case c.cell.Incarnation != b.incarnation || !inProgress(c.cell):
		return nil, fmt.Errorf("%w: making the branch %s took too long", ErrConflict, b.name)
	}
	return b, w.e.awaitChange(ctx)
}

// awaitChange waits until this server shows its own change of a branch's cell. The change
// is already durable.
func (e *cluster) awaitChange(ctx context.Context) error {
	if err := e.awaitRead(ctx); err != nil {
		return fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	return nil
}

// freeBranch returns a free slot for a new branch. It returns an error if the name is taken, or
// if there are too many branches or cells of branches.
func freeBranch(heads *revision.Vector, name string) (free revision.Slot, err error) {
	cells, branches := 0, 0
	for _, s := range heads.Slots() {
		c := heads.Cell(s)
		switch {
		case !s.IsBranch():
			continue
		case c.State == revision.Free:
			free = s
		case isNamed(c, name):
			return 0, fmt.Errorf("%w: %s", ErrBranchExists, name)
		case c.State != revision.Merged && c.State != revision.Closed:
			branches++
		}
		cells++
	}
	switch {
	case branches >= MaxBranches:
		return 0, fmt.Errorf("%w: %d, the most that there may be", ErrBranches, branches)
	case free != 0:
		return free, nil
	case cells >= maxBranchCells:
		return 0, fmt.Errorf("%w, which began before %d others were merged or discarded: merge or discard the oldest one first", ErrBranches, cells-branches)
	}
	return revision.FirstBranch + revision.Slot(cells), nil
}

// inProgress reports whether c is the cell of a branch that was opened and is neither merged
// nor discarded. A branch that is being made is not in progress yet.
func inProgress(c revision.Cell) bool {
	return c.Kind == revision.Branch &&
		(c.State == revision.Open || c.State == revision.Frozen || c.State == revision.Merging || c.State == revision.Parked)
}

// unbranched returns an error if there are branches that are neither merged nor discarded.
func (db *DB) unbranched(what string) error {
	if all := db.Branches(); len(all) > 0 {
		return fmt.Errorf("%w: %s must wait until %s is merged or discarded", ErrBranches, what, all[0].name)
	}
	return nil
}

// Branches returns the branches that are neither merged nor discarded, as of the newest
// state that this server shows.
func (db *DB) Branches() (all []*Branch) {
	v := db.current.Load().heads
	if v == nil {
		return nil
	}
	for _, s := range v.Slots() {
		if c := v.Cell(s); isShownInProgress(v, s) {
			name, _ := names(c)
			all = append(all, &Branch{db, s, c.Incarnation, name})
		}
	}
	return all
}

// Branch returns the branch with the given name.
func (db *DB) Branch(name string) (*Branch, error) {
	for _, b := range db.Branches() {
		if b.name == name {
			return b, nil
		}
	}
	return nil, fmt.Errorf("%w: %s", ErrBranch, name)
}

// Snapshot returns the branch's newest state that this server knows of: what the base
// shows, and the branch's own commits.
func (b *Branch) Snapshot(ctx context.Context) (*Snapshot, error) {
	now := b.db.Snapshot()
	defer now.Close()
	if err := now.unreadable(); err != nil {
		return nil, err
	}
	return b.snapshot(ctx, now.heads)
}

func (b *Branch) snapshot(ctx context.Context, v *revision.Vector) (*Snapshot, error) {
	if v == nil || v.Cell(b.slot).Incarnation != b.incarnation || v.Cell(b.slot).State == revision.Closed || v.Cell(b.slot).State == revision.Free {
		return nil, fmt.Errorf("%w: %s", ErrBranch, b.name)
	}
	c := v.Cell(b.slot)
	own := c.Archive()
	s := &Snapshot{
		db: b.db, view: &branchView{v, b.slot, own, c.Base}, heads: v, branch: b,
		max: max(c.Base, c.Head), low: min(c.Base, v.Low()),
	}
	return b.db.admit(ctx, s)
}

// A branchView is the table.View of a branch: it shows what the branch's base shows and
// the branch's own commits.
type branchView struct {
	vector *revision.Vector
	slot   revision.Slot
	own    revision.Archive // the branch's own commits
	base   table.Revision
}

func (v *branchView) isOwn(r table.Revision) bool {
	return revision.SlotOf(r) == v.slot && r >= v.own.First
}

func (v *branchView) Visible(r table.Revision) bool {
	if v.isOwn(r) {
		return v.own.Shows(r)
	}
	return v.vector.VisibleAt(r, v.base)
}

func (v *branchView) ShownBy(r table.Revision) table.Revision {
	if v.isOwn(r) {
		return r
	}
	return v.vector.ShownBy(r)
}

func (v *branchView) Max() table.Revision { return max(v.base, v.own.Head) }

func (v *branchView) Low() table.Revision { return min(v.base, v.vector.Low()) }

func (v *branchView) Settled(table.Revision) table.Revision { return v.vector.Settled(v.base) }

func (v *branchView) Swept(r table.Revision) bool { return v.vector.Swept(r) }

// Frontier returns nil, because nobody follows the changes of a branch.
func (v *branchView) Frontier() revision.Frontier { return nil }

// A branchCell is the cell of a branch in one reading of the heads.
type branchCell struct {
	slot  revision.Slot
	heads *journal.Heads
	cell  revision.Cell
	raw   []byte
}

// readBranch reads the heads, and returns the branch's cell in them.
func (w *writer) readBranch(ctx context.Context, b *Branch) (*branchCell, error) {
	heads, err := w.readHeads(ctx)
	if err != nil {
		return nil, err
	}
	c := &branchCell{b.slot, heads, heads.Cell(b.slot), heads.Raw(b.slot)}
	if c.cell.Incarnation != b.incarnation || !inProgress(c.cell) {
		return nil, fmt.Errorf("%w: %s", ErrBranch, b.name)
	}
	return c, nil
}

// isBusy reports whether a commit in the branch, or the merge of the branch, is under way.
func (c *branchCell) isBusy() bool {
	return c.cell.State == revision.Frozen || c.cell.State == revision.Merging || len(c.cell.Undecided) > 0
}

// awaitFree waits until the branch whose cell is c is no longer busy. It stops waiting
// when the cell has not changed for two leases. Within that time, other servers normally
// end what a silent server has left half done. random spreads out the attempts of
// several callers. The caller draws random before it calls awaitFree, so that a
// simulation can be repeated: one reading of the heads wakes many callers, and the order
// in which they run varies.
func (e *cluster) awaitFree(ctx context.Context, c *branchCell, random uint64) error {
	now, since := *c, time.Now()
	for try := 0; now.isBusy() && time.Since(since) < 2*e.db.o.Lease; try++ {
		if err := awaitEvent(ctx, nil, jittered(min(time.Millisecond<<min(try, 8), e.db.o.Poll), random)); err != nil {
			return err
		}
		if err := e.awaitRead(ctx); err != nil {
			return err
		}
		if cell := e.shown().Cell(c.slot); cell.Token != now.cell.Token {
			now.cell, since = cell, time.Now()
		}
	}
	return nil
}

// swapBranch replaces the cell c of a branch with a new cell. If another server has changed
// the cell since c was read, swapBranch leaves the cell as it is. In both cases swapBranch
// sets c to the cell that the store has now. done reports whether that cell is the new cell.
// Even if done is false, the swap may have taken place: another server may have changed the
// cell again. Every change has a token and a sequence number of its own, so the bytes of a
// cell never repeat, and a swap from outdated bytes fails.
func (w *writer) swapBranch(ctx context.Context, c *branchCell, next revision.Cell) (done bool, err error) {
	next.Sequence++                //rule:branch-bytes
	next.Token = w.e.db.o.random() //rule:branch-token
	var now []byte
	err = w.step(ctx, func(ctx context.Context) error {
		done, now, err = w.e.db.log.SwapHead(ctx, c.slot, c.raw, next.Append(nil))
		return err
	})
	if err != nil {
		return false, err
	}
	c.raw = now
	c.cell, err = revision.DecodeCell(now)
	return done, err
}

// branchID allocates the next revision of a branch. The revision is above every revision
// that the branch or this server has seen.
func (w *writer) branchID(c *branchCell) (table.Revision, error) {
	if err := w.e.drifted(); err != nil {
		return 0, err
	}
	clock := revision.NewClock(c.slot, w.e.wall)
	clock.Observe(max(c.heads.Max(), w.clock.Last(), c.cell.Head, c.cell.Limit, c.cell.First))
	return clock.Next()
}

// Discard closes the branch. Nobody sees its commits from then on, and later their cells
// are removed.
func (b *Branch) Discard(ctx context.Context) error { return b.db.branches.discardBranch(ctx, b) }

func (e *cluster) discardBranch(ctx context.Context, b *Branch) error {
	for {
		w, err := e.holder()
		if err != nil {
			return err
		}
		c, err := w.readBranch(ctx, b)
		if err != nil {
			return err
		}
		if c.cell.State == revision.Merging {
			return fmt.Errorf("%w: %s is being merged", ErrConflict, b.name)
		}
		if _, err := w.closeBranch(ctx, c); err != nil {
			return fmt.Errorf("%w: discarding %s: %w", ErrUnknown, b.name, err)
		}
		switch {
		case c.cell.Incarnation != b.incarnation || c.cell.State == revision.Free || c.cell.State == revision.Merged:
			return fmt.Errorf("%w: discarding %s", ErrUnknown, b.name)
		case c.cell.State == revision.Closed:
			return e.awaitChange(ctx)
		}
	}
}

// closeBranch replaces a branch's cell with a closed one, which shows none of the branch's
// commits.
func (w *writer) closeBranch(ctx context.Context, c *branchCell) (done bool, err error) {
	next := c.cell
	next.State, next.Head, next.Limit = revision.Closed, 0, max(next.Head, next.LastUndecided())
	next.Undecided = nil
	return w.swapBranch(ctx, c, next)
}

// Update runs fn on a transaction in the branch and commits what fn wrote there, as
// [DB.Update] does on the trunk. If another server commits in the branch at the same
// time, one of the two servers runs its fn again. fn must not make, change, merge or end a
// branch: on a store of one server such a call would wait until its context ends.
func (b *Branch) Update(ctx context.Context, fn func(*Tx) error) (table.Revision, error) {
	return b.db.branches.updateBranch(ctx, b, fn)
}

func (e *cluster) updateBranch(ctx context.Context, b *Branch, fn func(*Tx) error) (table.Revision, error) {
	for try := range b.db.o.Attempts {
		w, err := e.holder()
		if err != nil {
			return 0, err
		}
		r, met, err := w.tryInBranch(ctx, b, fn)
		if met == nil || err != nil {
			return r, err
		}
		random := e.db.o.random()
		if err := e.awaitFree(ctx, met, random); err != nil {
			return 0, err
		}
		if err := awaitEvent(ctx, nil, jittered(min(time.Millisecond<<min(try, 8), e.db.o.Lease/4), random)); err != nil {
			return 0, err
		}
	}
	return 0, fmt.Errorf("%w after %d attempts in the branch %s", ErrConflict, b.db.o.Attempts, b.name)
}

// tryInBranch runs fn on the newest state of the branch and commits what fn wrote. If the
// branch is busy, or if another commit was quicker, tryInBranch returns the branch's cell in
// met.
func (w *writer) tryInBranch(ctx context.Context, b *Branch, fn func(*Tx) error) (r table.Revision, met *branchCell, err error) {
	if err := b.db.gate.enter(ctx, false); err != nil {
		return 0, nil, err
	}
	defer b.db.gate.leave()
	c, err := w.readBranch(ctx, b)
	if err != nil {
		return 0, nil, err
	}
	if err := b.changeable(&c.cell); err != nil {
		return 0, nil, err
	}
	if c.isBusy() {
		return 0, c, nil
	}
	s, err := b.snapshot(ctx, c.heads.Vector)
	if err != nil {
		return 0, nil, err
	}
	defer s.Close()
	w.clock.Observe(s.max) // so that the transaction's stamp is above every revision that the transaction sees
	tx := &Tx{db: b.db, snapshot: s}
	if err := fn(tx); err != nil {
		return 0, nil, err
	}
	if tx.refused != nil {
		return 0, nil, tx.refused
	}
	if tx.empty() {
		return s.max, nil, nil
	}
	if r, err = w.branchID(c); err != nil {
		return 0, nil, fmt.Errorf("%w: %w", table.ErrUnavailable, err)
	}
	tx.fillIn(r)
	return w.commitInBranch(ctx, tx, c, r)
}

// commitInBranch commits a transaction in a branch. It first reserves the revision in the
// branch's cell. Then it writes the journal row, the cells and the marks. Last, it publishes
// the revision in the branch's cell. If the cell does not change for a whole lease, other
// servers make the revision void, and publishing fails.
func (w *writer) commitInBranch(ctx context.Context, tx *Tx, c *branchCell, r table.Revision) (_ table.Revision, met *branchCell, err error) {
	reserved := c.cell
	reserved.Undecided = []table.Revision{r}
	if done, err := w.swapBranch(ctx, c, reserved); err != nil || !done {
		return 0, c, err
	}
	// A client that stops waiting must not leave half a commit.
	ctx = context.WithoutCancel(ctx)
	p := &pendingCommit{rec: tx.record(r)}
	p.rec.State, p.rec.Token = journal.Committed, w.e.db.o.random()
	for _, m := range tx.markRows {
		if !slices.Contains(p.rec.Marked, m.table) {
			p.rec.Marked = append(p.rec.Marked, m.table)
		}
	}
	writes := withMarks(tx.batch(), tx.markRows, c.slot)
	err = w.renewing(ctx, c, func(ctx context.Context) error {
		if err := w.begin(ctx, p, writes); err != nil {
			return err
		}
		return w.apply(ctx, p, writes)
	})
	if err != nil {
		w.voidReserved(ctx, c, p.rec)
		if errors.Is(err, errTaken) {
			return 0, c, nil
		}
		return 0, nil, fmt.Errorf("commit in a branch: %w", err)
	}
	published := c.cell
	published.Head, published.Undecided = r, nil
	_, err = w.swapBranch(ctx, c, published)
	own := c.cell.Archive()
	switch {
	case err != nil:
		return 0, nil, fmt.Errorf("%w: publishing %s: %w", ErrUnknown, r, err)
	case c.cell.Incarnation != published.Incarnation || !inProgress(c.cell) && c.cell.State != revision.Merged:
		return 0, nil, fmt.Errorf("%w: publishing %s: the branch has ended", ErrUnknown, r)
	case !own.Shows(r):
		return 0, c, nil // another server made r void
	}
	return r, nil, w.e.awaitChange(ctx)
}

// voidReserved voids the revision that a branch's cell reserves, and removes the cells of that
// revision from the store. The revision stays void for as long as the branch exists, because
// some of its cells may still land later.
func (w *writer) voidReserved(ctx context.Context, c *branchCell, rec *journal.Record) {
	next := c.cell
	next.Void = append(slices.Clone(next.Void), next.Undecided...) //rule:branch-void
	next.Head, next.Undecided = max(next.Head, next.LastUndecided()), nil
	done, err := w.swapBranch(ctx, c, next)
	if err == nil && done && rec != nil {
		err = w.step(ctx, func(ctx context.Context) error { return w.e.db.log.Erase(ctx, rec) })
	}
	if err != nil {
		w.e.db.o.Log.Debug("a commit in a branch is left to be made void", "branch", c.cell.Owner, "error", err)
	}
}
