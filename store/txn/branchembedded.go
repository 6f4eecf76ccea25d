package txn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/seed-4dac0d86/ldapd/store/journal"
	"github.com/seed-4dac0d86/ldapd/store/revision"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// On a store of one server, a commit in a branch is one batch that includes the branch's
// new cell. A merge is also one such batch. Commits in branches and merges get their
// revisions under the lock that all commits take. So a branch is never frozen, and no
// change is left half done. Only one branch can change at a time: whoever changes a
// branch holds embedded.branching until the change is shown. Commits of the trunk go on
// in the meantime.

var _ brancher = (*embedded)(nil)

// branch runs fn while nobody else changes a branch and no load runs.
func (e *embedded) branch(ctx context.Context, fn func() error) error {
	select {
	case e.branching <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-e.branching }()
	if err := e.db.gate.enter(ctx, false); err != nil {
		return err
	}
	defer e.db.gate.leave()
	if err := e.writable(); err != nil {
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
func (e *embedded) swap(ctx context.Context, prepare func() (*change, error)) error {
	c, wait, err := e.logChange(context.WithoutCancel(ctx), prepare)
	if err != nil {
		return err
	}
	return e.await(c.at, wait)
}

func (e *embedded) logChange(ctx context.Context, prepare func() (*change, error)) (*change, func() error, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.writable(); err != nil {
		return nil, nil, err
	}
	c, err := prepare()
	if err != nil {
		return nil, nil, err
	}
	c.at.ordinal = e.last.ordinal + 1
	wait, err := e.batcher.Commit(ctx, c.batch)
	switch {
	case errors.Is(err, table.ErrRefused):
		return nil, nil, err
	case err != nil && c.batch.Revision != 0:
		return nil, nil, e.refused(ctx, c.batch.Revision, err)
	case err != nil:
		return nil, nil, e.fail(err)
	}
	e.last = c.at
	return c, wait, nil
}

// cellChange returns the change that replaces a branch's cell and writes nothing else. The
// caller holds e.mu.
func (e *embedded) cellChange(s revision.Slot, c revision.Cell) *change {
	c.Sequence++
	c.Token = e.db.o.random()
	at := e.last
	at.lines = at.lines.with(s, c, nil, at.head)
	return &change{table.Batch{Writes: []table.Write{{Table: journal.Cluster, Mutations: []table.Mutation{journal.HeadWrite(s, &c)}}}}, at}
}

// nextInBranch allocates the next revision of a branch.
func (e *embedded) nextInBranch(s revision.Slot) (table.Revision, error) {
	clock := revision.NewClock(s, e.db.o.Now)
	clock.Observe(e.clock.Last())
	r, err := clock.Next()
	e.clock.Observe(r)
	return r, err
}

func (e *embedded) createBranch(ctx context.Context, name string) (b *Branch, err error) {
	err = e.branch(ctx, func() error {
		return e.swap(ctx, func() (*change, error) {
			heads := e.state(e.last).heads
			if heads == nil {
				heads = revision.NewVector(nil, nil)
			}
			slot, err := freeBranch(heads, name)
			if err != nil {
				return nil, err
			}
			first, err := e.nextInBranch(slot)
			if err != nil {
				return nil, err
			}
			old, base := heads.Cell(slot), e.last.head
			b = &Branch{e.db, slot, old.Incarnation + 1, name}
			return e.cellChange(slot, revision.Cell{
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
func (e *embedded) current(b *Branch) (revision.Cell, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.last.lines.current(b)
}

// current returns the cell of a branch that is in progress.
func (l *branchTable) current(b *Branch) (revision.Cell, error) {
	c := l.cell(b.slot)
	if c.Incarnation != b.incarnation || !inProgress(c) {
		return c, fmt.Errorf("%w: %s", ErrBranch, b.name)
	}
	return c, nil
}

func (e *embedded) updateBranch(ctx context.Context, b *Branch, fn func(*Tx) error) (r table.Revision, err error) {
	err = e.branch(ctx, func() error {
		cell, err := e.current(b)
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
		tx := &Tx{db: e.db, snapshot: s}
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
		err = e.swap(ctx, func() (c *change, err error) {
			c, rec, err = e.branchChange(b, tx)
			return c, err
		})
		if err != nil {
			return err
		}
		r = rec.Revision
		e.extend(b.slot, &cell, rec)
		return nil
	})
	return r, err
}

// branchChange returns the commit of a transaction in a branch, and the commit's record.
// The caller holds e.mu.
func (e *embedded) branchChange(b *Branch, tx *Tx) (*change, *journal.Record, error) {
	cell, err := e.last.lines.current(b)
	if err != nil {
		return nil, nil, err
	}
	if cell.Head, err = e.nextInBranch(b.slot); err != nil {
		return nil, nil, err
	}
	tx.fillIn(cell.Head)
	c := e.cellChange(b.slot, cell)
	writes := tx.batch()
	rec := tx.record(cell.Head)
	rec.Rows, rec.Marked = allRows(writes, tx.markRows)
	rec.Marks = appendNotes(nil, tx.markRows)
	c.batch.Revision, c.batch.View, c.batch.Urgent = cell.Head, tx.snapshot, tx.urgent
	c.batch.Writes = append(writes, c.batch.Writes...)
	c.batch.Last = func(found table.Found) table.Write {
		rec.Beside = found.Beside
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
	return sortedRows(keys), marked
}

func (e *embedded) clashesOf(ctx context.Context, b *Branch) (clashes []Clash, err error) {
	err = e.branch(ctx, func() error {
		x, err := e.checkBranch(ctx, b)
		if err == nil {
			clashes, err = x.clashes(ctx)
		}
		return err
	})
	return clashes, err
}

func (e *embedded) mergeBranch(ctx context.Context, b *Branch, message []byte) (m table.Revision, err error) {
	err = e.branch(ctx, func() error {
		x, err := e.checkBranch(ctx, b)
		if err != nil {
			return err
		}
		for {
			// Commits made since the last comparison are compared here, so that few are
			// left to be compared under the lock of commits.
			if err := x.compareUpTo(ctx, e.db.current.Load().max); err != nil {
				return err
			}
			if len(x.met) > 0 {
				clashes, err := x.clashes(ctx)
				return cmp.Or(err, error(&ClashError{b.name, clashes}))
			}
			if m, err = e.swapMerge(ctx, x, message); !errors.Is(err, errSuspects) {
				return err
			}
		}
	})
	return m, err
}

// errSuspects means that a commit made since the last comparison has to be compared with
// the branch's records.
var errSuspects = errors.New("a commit may conflict with the branch")

// swapMerge merges a branch that nothing conflicts with. It returns errSuspects if a
// commit that was not compared yet may conflict.
func (e *embedded) swapMerge(ctx context.Context, x *embeddedMergeCheck, message []byte) (m table.Revision, err error) {
	err = e.swap(ctx, func() (*change, error) {
		before := x.upTo
		if err := x.others(ctx, e.last.head); err != nil {
			return nil, err
		}
		if len(x.suspects) > 0 {
			clear(x.suspects)
			x.upTo = before
			return nil, errSuspects
		}
		c, err := e.mergeChange(x, message)
		if err == nil {
			m = c.batch.Revision
		}
		return c, err
	})
	if err == nil {
		delete(e.summaries, x.slot)
	}
	return m, err
}

// mergeChange returns the commit that merges a branch. The caller holds e.mu.
func (e *embedded) mergeChange(x *embeddedMergeCheck, message []byte) (*change, error) {
	m, err := e.clock.Next()
	if err != nil {
		return nil, err
	}
	cell := x.cell
	cell.State, cell.Merge = revision.Merged, m
	archived := cell
	freeing := journal.ArchiveWrite(x.slot, &cell)
	at := position{head: m, ordinal: e.last.ordinal + 1, lines: e.last.lines.with(x.slot, cell, &archived, m)}
	view := e.state(at)
	view.low, view.complete = x.heads.NoBranchWithin(x.cell.Base), true
	beside := maps.Clone(x.own.beside)
	for name, keys := range x.beside {
		beside[name] = slices.Concat(beside[name], keys)
	}
	rec := &journal.Record{Revision: m, Prio: m, Kind: journal.Merge, IDs: x.own.ids.all, Keys: x.own.keys.all, AllChanged: x.own.all, Message: message}
	if x.own.all {
		e.db.changes.everything(at.ordinal)
	} else {
		e.db.changes.touch(rec.IDs, rec.Keys, at.ordinal)
	}
	// This makes transactions that began before the merge start again, because their
	// marks are not compared with the marks of the branch.
	e.recent.knownSince = at.ordinal
	return &change{table.Batch{
		Revision: m, View: view, Joined: sortedRows(beside),
		Writes: []table.Write{{Table: journal.Cluster, Mutations: freeing}},
		Last: func(found table.Found) table.Write {
			rec.Beside = found.Beside
			return rec.Write()
		},
	}, at}, nil
}

func (e *embedded) discardBranch(ctx context.Context, b *Branch) error {
	return e.branch(ctx, func() error {
		err := e.swap(ctx, func() (*change, error) {
			c, err := e.last.lines.current(b)
			if err != nil {
				return nil, err
			}
			c.State, c.Head, c.Limit = revision.Closed, 0, c.Head
			return e.cellChange(b.slot, c), nil
		})
		if err == nil {
			delete(e.summaries, b.slot)
			e.sweep(b.slot)
		}
		return err
	})
}

func (e *embedded) parkBranch(ctx context.Context, b *Branch) error {
	return e.branch(ctx, func() error {
		return e.swap(ctx, func() (*change, error) {
			c, err := e.last.lines.current(b)
			if err != nil {
				return nil, err
			}
			c.Park()
			delete(e.summaries, b.slot)
			return e.cellChange(b.slot, c), nil
		})
	})
}

func (e *embedded) renameBranch(ctx context.Context, b *Branch, name string) error {
	return e.branch(ctx, func() error {
		return e.swap(ctx, func() (*change, error) {
			c, err := e.last.lines.current(b)
			if err != nil {
				return nil, err
			}
			if isTaken(e.last.lines.vector, b.slot, name) {
				return nil, fmt.Errorf("%w: %s", ErrBranchExists, name)
			}
			c.Owner = name
			return e.cellChange(b.slot, c), nil
		})
	})
}

// sweepClosed removes the cells of discarded branches if an earlier process has not removed
// them.
func (e *embedded) sweepClosed() {
	if e.db.o.ReadOnly || e.last.lines == nil {
		return
	}
	for s, c := range e.last.lines.cells {
		if c.State == revision.Closed {
			e.sweep(s)
		}
	}
}

// sweep removes the cells of a discarded branch in the background, and then frees its
// slot. If the removal fails, it is repeated when the store is opened again.
func (e *embedded) sweep(s revision.Slot) {
	e.sweeping.Go(func() {
		if err := e.sweepNow(e.background, s); err != nil && e.background.Err() == nil {
			e.db.o.Log.Warn("removing a discarded branch", "store", e.db.store.String(), "slot", s, "error", err)
		}
	})
}

func (e *embedded) sweepNow(ctx context.Context, s revision.Slot) error {
	e.mu.Lock()
	c := e.last.lines.cell(s)
	e.mu.Unlock()
	for rec, err := range e.db.log.Lists(ctx, s, c.First, c.Limit) {
		if err == nil {
			err = e.db.log.Erase(ctx, &rec)
		}
		if err != nil {
			return err
		}
	}
	return e.swap(ctx, func() (*change, error) {
		free := c
		freeing := journal.ArchiveWrite(s, &free)
		at := e.last
		at.lines = at.lines.with(s, free, &c, at.head)
		return &change{table.Batch{Writes: []table.Write{{Table: journal.Cluster, Mutations: freeing}}}, at}, nil
	})
}

// unbranched returns an error if the store may contain cells of branches that are not merged.
func (e *embedded) unbranched(what string) error {
	if err := e.db.unbranched(what); err != nil || !e.db.current.Load().recordsMarks {
		return err
	}
	return fmt.Errorf("%w: %s must wait until the last one that was discarded is removed", ErrBranches, what)
}
