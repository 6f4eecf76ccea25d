package txn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/seed-4dac0d86/ldapd/store/journal"
	"github.com/seed-4dac0d86/ldapd/store/revision"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// An embeddedBrancher makes, changes and ends branches on a store of one server. A commit in a
// branch is one batch that includes the branch's new cell. A merge is also one such batch. Commits
// in branches and merges get their revisions under the lock that all commits take. So a branch is
// never frozen, and no change is left half done. Only one branch can change at a time: whoever
// changes a branch holds the channel changing until the change is shown. Commits of the trunk go
// on in the meantime.
type embeddedBrancher struct {
	e         *embedded
	changing  chan struct{}                    // held while a branch is made, changed or ended
	summaries map[revision.Slot]*branchSummary // the summaries of open branches; guarded by changing
	sweeping  sync.WaitGroup                   // counts the goroutines that remove discarded branches
}

var _ brancher = (*embeddedBrancher)(nil)

func newEmbeddedBrancher(e *embedded) *embeddedBrancher {
	return &embeddedBrancher{e: e, changing: make(chan struct{}, 1), summaries: map[revision.Slot]*branchSummary{}}
}

// run runs fn while nobody else changes a branch and no load runs.
func (x *embeddedBrancher) run(ctx context.Context, fn func() error) error {
	select {
	case x.changing <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-x.changing }()
	if err := x.e.db.gate.enter(ctx, false); err != nil {
		return err
	}
	defer x.e.db.gate.leave()
	if err := x.e.writable(); err != nil {
		return err
	}
	return fn()
}

// A change is one change of the branches. It consists of the batch to write and the
// position after that batch.
type change struct {
	batch table.Batch
	at    position
}

// swap calls the function prepare under the lock of commits, makes the change that the function
// returns, and shows the new state.
func (x *embeddedBrancher) swap(ctx context.Context, prepare func() (*change, error)) error {
	c, wait, err := x.logChange(context.WithoutCancel(ctx), prepare)
	if err != nil {
		return err
	}
	return x.e.await(c.at, wait)
}

func (x *embeddedBrancher) logChange(ctx context.Context, prepare func() (*change, error)) (*change, func() error, error) {
	x.e.mu.Lock()
	defer x.e.mu.Unlock()
	if err := x.e.writable(); err != nil {
		return nil, nil, err
	}
	c, err := prepare()
	if err != nil {
		return nil, nil, err
	}
	c.at.ordinal = x.e.last.ordinal + 1
	wait, err := x.e.batcher.Commit(ctx, c.batch)
	switch {
	case errors.Is(err, table.ErrRefused):
		return nil, nil, err
	case err != nil && c.batch.Revision != 0:
		return nil, nil, x.e.refused(ctx, c.batch.Revision, err)
	case err != nil:
		return nil, nil, x.e.fail(err)
	}
	x.e.last = c.at
	return c, wait, nil
}

// cellChange returns the change that replaces a branch's cell and writes nothing else. The
// caller holds e.mu.
func (x *embeddedBrancher) cellChange(s revision.Slot, c revision.Cell) *change {
	c.Sequence++
	c.Token = x.e.db.o.random()
	at := x.e.last
	at.lines = at.lines.with(s, c, nil, at.head)
	return &change{table.Batch{Writes: []table.Write{{Table: journal.Cluster, Mutations: []table.Mutation{journal.HeadWrite(s, &c)}}}}, at}
}

// nextID allocates the next revision of a branch.
func (x *embeddedBrancher) nextID(s revision.Slot) (table.Revision, error) {
	clock := revision.NewClock(s, x.e.db.o.Now)
	clock.Observe(x.e.clock.Last())
	r, err := clock.Next()
	x.e.clock.Observe(r)
	return r, err
}

func (x *embeddedBrancher) create(ctx context.Context, name string) (b *Branch, err error) {
	err = x.run(ctx, func() error {
		return x.swap(ctx, func() (*change, error) {
			heads := x.e.state(x.e.last).heads
			if heads == nil {
				heads = revision.NewVector(nil, nil)
			}
			slot, err := freeBranch(heads, name)
			if err != nil {
				return nil, err
			}
			first, err := x.nextID(slot)
			if err != nil {
				return nil, err
			}
			old, base := heads.Cell(slot), x.e.last.head
			b = &Branch{x.e.db, slot, old.Incarnation + 1, name}
			return x.cellChange(slot, revision.Cell{
				Kind: revision.Branch, State: revision.Open, Incarnation: b.incarnation, Sequence: old.Sequence,
				First: first, Head: first, Oldest: base, Base: base, Horizon: base, Owner: name,
			}), nil
		})
	})
	if err != nil {
		return nil, err
	}
	return b, nil
}

// current returns the cell of a branch. The caller does not hold e.mu.
func (x *embeddedBrancher) current(b *Branch) (revision.Cell, error) {
	x.e.mu.Lock()
	defer x.e.mu.Unlock()
	return x.e.last.lines.current(b)
}

// current returns the cell of a branch that is in progress.
func (l *branchTable) current(b *Branch) (revision.Cell, error) {
	c := l.cell(b.slot)
	if c.Incarnation != b.incarnation || !inProgress(c) {
		return c, fmt.Errorf("%w: %s", ErrBranch, b.name)
	}
	return c, nil
}

func (x *embeddedBrancher) update(ctx context.Context, b *Branch, fn func(*Tx) error) (r table.Revision, err error) {
	err = x.run(ctx, func() error {
		cell, err := x.current(b)
		if err == nil {
			err = b.changeable(&cell)
		}
		if err != nil {
			return err
		}
		s, err := b.Snapshot(ctx)
		if err != nil {
			return err
		}
		defer s.Close()
		s.recordsMarks = true
		tx := &Tx{db: x.e.db, snapshot: s}
		if err := fn(tx); err != nil {
			return err
		}
		if tx.refused != nil {
			return tx.refused
		}
		if r = s.max; tx.empty() {
			return nil
		}
		var rec *journal.Record
		err = x.swap(ctx, func() (c *change, err error) {
			c, rec, err = x.commitOf(b, tx)
			return c, err
		})
		if err != nil {
			return err
		}
		r = rec.Revision
		x.extend(b.slot, &cell, rec)
		return nil
	})
	return r, err
}

// commitOf returns the commit of a transaction in a branch, and the commit's record.
// The caller holds e.mu.
func (x *embeddedBrancher) commitOf(b *Branch, tx *Tx) (*change, *journal.Record, error) {
	cell, err := x.e.last.lines.current(b)
	if err != nil {
		return nil, nil, err
	}
	if cell.Head, err = x.nextID(b.slot); err != nil {
		return nil, nil, err
	}
	tx.fillIn(cell.Head)
	c := x.cellChange(b.slot, cell)
	writes := tx.batch()
	rec := tx.record(cell.Head)
	rec.Rows, rec.Marked = allRows(writes, tx.markRows)
	rec.Marks = appendNotes(nil, tx.markRows)
	c.batch.Revision, c.batch.View, c.batch.Urgent = cell.Head, tx.snapshot, tx.urgent
	c.batch.Writes = append(writes, c.batch.Writes...)
	c.batch.Last = func(found table.Found) table.Write {
		rec.Hidden = found.Hidden
		return rec.Write()
	}
	return c, rec, nil
}

// allRows lists the rows that have cells or marks, and the tables that have marks.
func allRows(writes []table.Write, marks []markRow) (rows []table.Rows, marked []string) {
	keys := map[string][][]byte{}
	for _, w := range writes {
		keys[w.Table] = rowsOf(w.Table, w.Mutations).Keys
	}
	for _, m := range marks {
		keys[m.table] = append(keys[m.table], m.row)
		if !slices.Contains(marked, m.table) {
			marked = append(marked, m.table)
		}
	}
	return table.SortedRows(keys), marked
}

func (x *embeddedBrancher) clashes(ctx context.Context, b *Branch) (clashes []Clash, err error) {
	err = x.run(ctx, func() error {
		check, err := x.check(ctx, b)
		if err == nil {
			clashes, err = check.clashes(ctx)
		}
		return err
	})
	return clashes, err
}

func (x *embeddedBrancher) merge(ctx context.Context, b *Branch, message []byte) (m table.Revision, err error) {
	err = x.run(ctx, func() error {
		check, err := x.check(ctx, b)
		if err != nil {
			return err
		}
		for {
			// Commits made since the last comparison are compared here, so that few are
			// left to be compared under the lock of commits.
			if err := check.compareUpTo(ctx, x.e.db.current.Load().max); err != nil {
				return err
			}
			if len(check.met) > 0 {
				clashes, err := check.clashes(ctx)
				return cmp.Or(err, error(&ClashError{b.name, clashes}))
			}
			if m, err = check.swap(ctx, message); !errors.Is(err, errSuspects) {
				return err
			}
		}
	})
	return m, err
}

// edit changes the cell of a branch. The caller holds x.changing.
func (x *embeddedBrancher) edit(ctx context.Context, b *Branch, fn func(*revision.Cell) error) error {
	return x.swap(ctx, func() (*change, error) {
		c, err := x.e.last.lines.current(b)
		if err == nil {
			err = fn(&c)
		}
		if err != nil {
			return nil, err
		}
		return x.cellChange(b.slot, c), nil
	})
}

func (x *embeddedBrancher) discard(ctx context.Context, b *Branch) error {
	return x.run(ctx, func() error {
		err := x.edit(ctx, b, func(c *revision.Cell) error {
			c.State, c.Head, c.Limit = revision.Closed, 0, c.Head
			return nil
		})
		if err == nil {
			delete(x.summaries, b.slot)
			x.sweep(b.slot)
		}
		return err
	})
}

func (x *embeddedBrancher) park(ctx context.Context, b *Branch) error {
	return x.run(ctx, func() error {
		return x.edit(ctx, b, func(c *revision.Cell) error {
			c.Park()
			delete(x.summaries, b.slot)
			return nil
		})
	})
}

func (x *embeddedBrancher) rename(ctx context.Context, b *Branch, name string) error {
	return x.run(ctx, func() error {
		return x.edit(ctx, b, func(c *revision.Cell) error {
			if isTaken(x.e.last.lines.vector, b.slot, name) {
				return fmt.Errorf("%w: %s", ErrBranchExists, name)
			}
			c.Owner = name
			return nil
		})
	})
}

// sweepClosed removes the cells of discarded branches if an earlier process has not removed
// them.
func (x *embeddedBrancher) sweepClosed() {
	if x.e.db.o.ReadOnly || x.e.last.lines == nil {
		return
	}
	for s, c := range x.e.last.lines.cells {
		if c.State == revision.Closed {
			x.sweep(s)
		}
	}
}

// sweep removes the cells of a discarded branch in the background, and then frees its
// slot. If the removal fails, it is repeated when the store is opened again.
func (x *embeddedBrancher) sweep(s revision.Slot) {
	x.sweeping.Go(func() {
		if err := x.sweepNow(x.e.background, s); err != nil && x.e.background.Err() == nil {
			x.e.db.o.Log.Warn("removing a discarded branch", "store", x.e.db.store.String(), "slot", s, "error", err)
		}
	})
}

func (x *embeddedBrancher) sweepNow(ctx context.Context, s revision.Slot) error {
	x.e.mu.Lock()
	c := x.e.last.lines.cell(s)
	x.e.mu.Unlock()
	for rec, err := range x.e.db.log.Lists(ctx, s, c.First, c.Limit) {
		if err == nil {
			err = x.e.db.log.Erase(ctx, &rec)
		}
		if err != nil {
			return err
		}
	}
	return x.swap(ctx, func() (*change, error) {
		free := c
		freeing := journal.ArchiveWrite(s, &free)
		at := x.e.last
		at.lines = at.lines.with(s, free, &c, at.head)
		return &change{table.Batch{Writes: []table.Write{{Table: journal.Cluster, Mutations: freeing}}}, at}, nil
	})
}

// unbranched returns an error if the store may contain cells of branches that are not merged.
func (x *embeddedBrancher) unbranched(what string) error {
	if err := x.e.db.unbranched(what); err != nil || !x.e.db.current.Load().recordsMarks {
		return err
	}
	return fmt.Errorf("%w: %s must wait until the last one that was discarded is removed", ErrBranches, what)
}
