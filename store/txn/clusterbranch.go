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

// A clusterBrancher makes, changes and ends branches on a shared store.
type clusterBrancher struct{ e *cluster }

var _ brancher = (*clusterBrancher)(nil)

func (x *clusterBrancher) create(ctx context.Context, name string) (*Branch, error) {
	db := x.e.db
	if err := db.gate.enter(ctx, false); err != nil {
		return nil, err
	}
	defer db.gate.leave()
	w, err := x.e.holder() // if this server has no slot, fail before waiting
	if err != nil {
		return nil, err
	}
	if err := x.e.awaitRead(ctx); err != nil {
		return nil, err
	}
	// This snapshot protects the base, and the marks above the base, from collection
	// until the branch's cell protects them.
	held := db.Snapshot()
	defer held.Close()
	// If a server has fallen silent, other servers recover its slot within two leases.
	// The recovery decides the commits of the silent server.
	base, err := x.e.within(ctx, max(2*db.o.Lease, pastPatience), held.max)
	if err != nil {
		return nil, cmp.Or(canceled(ctx), fmt.Errorf("%w: making the branch %s: %w", ErrConflict, name, err))
	}
	if base, err = db.admitPast(ctx, base); err != nil {
		return nil, err
	}
	defer base.Close()
	return x.createAt(ctx, w, name, base.max)
}

func (x *clusterBrancher) createAt(ctx context.Context, w *writer, name string, base table.Revision) (*Branch, error) {
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
		at := w.branchCell(heads, slot)
		if c.First, err = at.nextID(); err != nil {
			return nil, err
		}
		c.Head = c.First
		done, err := at.swap(ctx, c)
		if err != nil {
			return nil, fmt.Errorf("%w: making the branch %s: %w", ErrUnknown, name, err)
		}
		if !done {
			continue // another server claimed the slot
		}
		return x.open(ctx, at)
	}
}

// open opens a branch whose cell was just made. The swap that makes the cell may reach the store
// late, when the base is no longer protected from collection. So only the server that made the
// cell opens the branch: it knows that its snapshot has protected the base until now. If that
// server does not open the branch, other servers discard the branch.
func (x *clusterBrancher) open(ctx context.Context, c *branchCell) (*Branch, error) {
	b := &Branch{x.e.db, c.slot, c.cell.Incarnation, c.cell.Owner}
	// Two servers may be making branches of the same name. Each server writes its cell
	// before it reads the heads. So at least one server finds the other's cell and gives
	// up.
	heads, err := c.w.readHeads(ctx)
	if err != nil {
		return nil, err
	}
	if isTaken(heads.Vector, c.slot, b.name) {
		_, err := c.close(ctx)
		return nil, errors.Join(fmt.Errorf("%w: %s", ErrBranchExists, b.name), err)
	}
	_, err = c.reopen(ctx) //rule:branch-opened
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: making the branch %s: %w", ErrUnknown, b.name, err)
	case c.cell.Incarnation != b.incarnation || !inProgress(c.cell):
		return nil, fmt.Errorf("%w: making the branch %s took too long", ErrConflict, b.name)
	}
	return b, x.awaitChange(ctx)
}

// read reads the heads, and returns the branch's cell in them.
func (x *clusterBrancher) read(ctx context.Context, b *Branch) (*branchCell, error) {
	w, err := x.e.holder()
	if err != nil {
		return nil, err
	}
	return w.readBranch(ctx, b)
}

// awaitChange waits until this server shows its own change of a branch's cell. The change
// is already durable.
func (x *clusterBrancher) awaitChange(ctx context.Context) error {
	if err := x.e.awaitRead(ctx); err != nil {
		return fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	return nil
}

// awaitFree waits until the branch whose cell is c is no longer busy. It stops waiting
// when the cell has not changed for two leases. Within that time, other servers normally
// end what a silent server has left half done. random spreads out the attempts of
// several callers. The caller draws random before it calls awaitFree, so that a
// simulation can be repeated: one reading of the heads wakes many callers, and the order
// in which they run varies.
func (x *clusterBrancher) awaitFree(ctx context.Context, c *branchCell, random uint64) error {
	now, since := *c, time.Now()
	for try := 0; now.isBusy() && time.Since(since) < 2*x.e.db.o.Lease; try++ {
		if err := awaitEvent(ctx, nil, jittered(min(time.Millisecond<<min(try, 8), x.e.db.o.Poll), random)); err != nil {
			return err
		}
		if err := x.e.awaitRead(ctx); err != nil {
			return err
		}
		if cell := x.e.shown().Cell(c.slot); cell.Token != now.cell.Token {
			now.cell, since = cell, time.Now()
		}
	}
	return nil
}

func (x *clusterBrancher) update(ctx context.Context, b *Branch, fn func(*Tx) error) (table.Revision, error) {
	for try := range b.db.o.Attempts {
		r, met, err := x.try(ctx, b, fn)
		if met == nil || err != nil {
			return r, err
		}
		random := x.e.db.o.random()
		if err := x.awaitFree(ctx, met, random); err != nil {
			return 0, err
		}
		if err := awaitEvent(ctx, nil, jittered(min(time.Millisecond<<min(try, 8), x.e.db.o.Lease/4), random)); err != nil {
			return 0, err
		}
	}
	return 0, fmt.Errorf("%w after %d attempts in the branch %s", ErrConflict, b.db.o.Attempts, b.name)
}

// try runs fn on the newest state of the branch and commits what fn wrote. If the branch is busy,
// or if another commit was quicker, try returns the branch's cell in met.
func (x *clusterBrancher) try(ctx context.Context, b *Branch, fn func(*Tx) error) (r table.Revision, met *branchCell, err error) {
	if err := b.db.gate.enter(ctx, false); err != nil {
		return 0, nil, err
	}
	defer b.db.gate.leave()
	c, err := x.read(ctx, b)
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
	c.w.clock.Observe(s.max) // so that the transaction's stamp is above every revision that the transaction sees
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
	if r, err = c.nextID(); err != nil {
		return 0, nil, fmt.Errorf("%w: %w", table.ErrUnavailable, err)
	}
	tx.fillIn(r)
	return x.commit(ctx, tx, c, r)
}

// commit commits a transaction in a branch. It first reserves the revision in the branch's cell.
// Then it writes the journal row, the cells and the marks. Last, it publishes the revision in the
// branch's cell. If the cell does not change for a whole lease, other servers make the revision
// void, and publishing fails.
func (x *clusterBrancher) commit(ctx context.Context, tx *Tx, c *branchCell, r table.Revision) (_ table.Revision, met *branchCell, err error) {
	w, reserved := c.w, c.cell
	reserved.Undecided = []table.Revision{r}
	if done, err := c.swap(ctx, reserved); err != nil || !done {
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
	writes := withMarks(tx.batch(), tx.markRows, c.slot, 0)
	err = c.renewing(ctx, func(ctx context.Context) error {
		if err := w.begin(ctx, p, writes); err != nil {
			return err
		}
		return w.apply(ctx, p, writes)
	})
	if err != nil {
		c.voidReserved(ctx, p.rec)
		if errors.Is(err, errTaken) {
			return 0, c, nil
		}
		return 0, nil, fmt.Errorf("commit in a branch: %w", err)
	}
	published := c.cell
	published.Head, published.Undecided = r, nil
	_, err = c.swap(ctx, published)
	own := c.cell.Archive()
	switch {
	case err != nil:
		return 0, nil, fmt.Errorf("%w: publishing %s: %w", ErrUnknown, r, err)
	case c.cell.Incarnation != published.Incarnation || !inProgress(c.cell) && c.cell.State != revision.Merged:
		return 0, nil, fmt.Errorf("%w: publishing %s: the branch has ended", ErrUnknown, r)
	case !own.Shows(r):
		return 0, c, nil // another server made r void
	}
	return r, nil, x.awaitChange(ctx)
}

func (x *clusterBrancher) discard(ctx context.Context, b *Branch) error {
	for {
		c, err := x.read(ctx, b)
		if err != nil {
			return err
		}
		if c.cell.State == revision.Merging {
			return fmt.Errorf("%w: %s is being merged", ErrConflict, b.name)
		}
		if _, err := c.close(ctx); err != nil {
			return fmt.Errorf("%w: discarding %s: %w", ErrUnknown, b.name, err)
		}
		switch {
		case c.cell.Incarnation != b.incarnation || c.cell.State == revision.Free || c.cell.State == revision.Merged:
			return fmt.Errorf("%w: discarding %s", ErrUnknown, b.name)
		case c.cell.State == revision.Closed:
			return x.awaitChange(ctx)
		}
	}
}

func (x *clusterBrancher) park(ctx context.Context, b *Branch) error {
	c, err := x.read(ctx, b)
	switch {
	case err != nil:
		return err
	case c.cell.State == revision.Parked:
		return nil
	case c.cell.State != revision.Open || len(c.cell.Undecided) > 0:
		return fmt.Errorf("%w: %s is being changed or merged", ErrConflict, b.name)
	}
	next := c.cell
	next.Park()
	_, err = c.swap(ctx, next)
	switch {
	case err != nil:
		return fmt.Errorf("%w: parking %s: %w", ErrUnknown, b.name, err)
	case c.cell.Incarnation != b.incarnation || c.cell.State != revision.Parked:
		return fmt.Errorf("%w: %s was changed meanwhile", ErrConflict, b.name)
	}
	return x.awaitChange(ctx)
}

func (x *clusterBrancher) rename(ctx context.Context, b *Branch, name string) error {
	for done := false; !done; {
		var err error
		if done, err = x.tryRename(ctx, b, name); err != nil {
			return err
		}
	}
	return x.awaitChange(ctx)
}

// tryRename replaces the name in a branch's cell. After the first swap tryRename reads the heads
// again. If another branch has the new name too, tryRename restores the old name. If the cell was
// changed between the two swaps, tryRename has done nothing and returns false: the new name may
// have been dropped, and another branch may have it.
func (x *clusterBrancher) tryRename(ctx context.Context, b *Branch, name string) (done bool, err error) {
	c, err := x.read(ctx, b)
	switch {
	case err != nil:
		return false, err
	case c.cell.Owner == name:
		return true, nil
	case isTaken(c.heads.Vector, c.slot, name):
		return false, fmt.Errorf("%w: %s", ErrBranchExists, name)
	case c.cell.State == revision.Merging:
		return false, fmt.Errorf("%w: %s is being merged", ErrConflict, b.name)
	}
	old, _ := names(c.cell)
	if done, err := c.setNames(ctx, old+nameSeparator+name); err != nil || !done {
		return false, err
	}
	heads, err := c.w.readHeads(ctx)
	if err == nil && isTaken(heads.Vector, c.slot, name) { //rule:rename-again
		err = fmt.Errorf("%w: %s", ErrBranchExists, name)
	}
	if err != nil {
		c.setNames(ctx, old) // if this fails, other servers drop the new name after a lease
		return false, err
	}
	if done, err = c.setNames(ctx, name); err != nil {
		return false, fmt.Errorf("%w: renaming the branch %s: %w", ErrUnknown, old, err)
	}
	return done, nil
}
