package txn

import (
	"context"
	"time"

	"github.com/seed-4dac0d86/ldapd/store/journal"
	"github.com/seed-4dac0d86/ldapd/store/revision"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// helpBranches completes or undoes, in the background, changes that servers have left half done
// in the cells of branches. It also frees the slots of branches that were merged or discarded.
// All servers may do so at the same time, because each step is a swap that compares the cell.
func (o *others) helpBranches(w *writer) {
	heads := w.e.heads
	var due []revision.Slot
	for _, s := range heads.Slots() {
		if s.IsBranch() && o.isDue(heads.Cell(s), time.Since(o.seen[s].since)) {
			due = append(due, s)
		}
	}
	if len(due) == 0 || !o.helping.CompareAndSwap(false, true) {
		return
	}
	silent := map[revision.Slot]bool{}
	for _, s := range due {
		silent[s] = time.Since(o.seen[s].since) >= o.e.db.o.Lease
	}
	w.e.done.Go(func() {
		defer o.helping.Store(false)
		for _, s := range due {
			if err := w.branchCell(heads, s).help(w.e.background, silent[s]); err != nil && w.e.background.Err() == nil {
				w.e.db.o.Log.Warn("helping a branch", "slot", s, "error", err)
			}
		}
	})
}

// isDue reports whether a branch needs help. c is the branch's cell, and unchanged is the
// time since the cell last changed.
func (o *others) isDue(c revision.Cell, unchanged time.Duration) bool {
	switch c.State {
	case revision.Merging:
		return true
	case revision.Frozen, revision.Recovering:
		return unchanged >= o.e.db.o.Lease
	case revision.Open, revision.Parked:
		_, next := names(c)
		return (len(c.Undecided) > 0 || next != "") && unchanged >= o.e.db.o.Lease
	case revision.Merged, revision.Closed:
		// A server that had reserved a revision in the branch may have gone on sending
		// cells until half a lease after the branch was merged or closed.
		return unchanged > o.e.db.o.InFlight+o.e.db.o.Lease
	}
	return false
}

func (c *branchCell) help(ctx context.Context, silent bool) error {
	switch c.cell.State {
	case revision.Merging:
		return c.helpMerge(ctx, silent)
	case revision.Frozen:
		_, err := c.reopen(ctx)
		return err
	case revision.Recovering:
		_, err := c.close(ctx)
		return err
	case revision.Open, revision.Parked:
		if len(c.cell.Undecided) == 0 {
			name, _ := names(c.cell)
			_, err := c.setNames(ctx, name)
			return err
		}
		rec, err := c.w.record(ctx, c.cell.LastUndecided())
		if err == nil {
			c.voidReserved(ctx, &rec)
		}
		return err
	case revision.Merged:
		if !c.heads.Passed(c.cell.Merge) {
			return nil
		}
		for _, r := range c.cell.Void { //rule:branch-erase
			if err := c.w.eraseVoid(ctx, r); err != nil {
				return err
			}
		}
	case revision.Closed:
		for rec, err := range c.w.e.db.log.Lists(ctx, c.slot, c.cell.First-1, c.cell.Limit) { //rule:discarded
			if err == nil {
				err = c.w.step(ctx, func(ctx context.Context) error { return c.w.e.db.log.Erase(ctx, &rec) })
			}
			if err != nil {
				return err
			}
		}
	}
	return c.w.step(ctx, func(ctx context.Context) error { return c.w.e.db.log.Free(ctx, c.slot, c.raw) })
}

func (w *writer) record(ctx context.Context, r table.Revision) (rec journal.Record, err error) {
	err = w.step(ctx, func(ctx context.Context) error {
		rec, err = w.e.db.log.Get(ctx, r)
		return err
	})
	return rec, err
}

// eraseVoid removes the cells of a void commit of a branch.
func (w *writer) eraseVoid(ctx context.Context, r table.Revision) error {
	rec, err := w.record(ctx, r)
	if err == nil {
		err = w.step(ctx, func(ctx context.Context) error { return w.e.db.log.Erase(ctx, &rec) })
	}
	return err
}

// helpMerge ends the merge of a branch if the merge is decided. Afterwards the branch is
// merged, or open again. helpMerge uses the heads and not the journal alone. If the server that
// merged no longer holds its slot and the heads do not show the merge, the merge is void,
// whatever the journal says. If that server holds its slot, the merge is pending until the
// journal or the heads decide it. If the decision takes longer than a lease, helpMerge aborts
// the merge.
func (c *branchCell) helpMerge(ctx context.Context, silent bool) error {
	m := c.cell.Merge
	by := c.heads.Cell(revision.SlotOf(m))
	over := by.State == revision.Free || by.State == revision.Closed || m < by.First
	visible := c.heads.Visible(m)
	if over && !visible { //rule:help-open
		_, err := c.reopen(ctx)
		return err
	}
	if !over {
		var state journal.State
		err := c.w.step(ctx, func(ctx context.Context) error {
			rec, err := c.w.e.db.log.State(ctx, m)
			if err == nil && silent && !visible && rec.State == journal.Pending {
				rec.State, err = c.w.e.db.log.Decide(ctx, &rec, journal.Aborted)
			} else if err == nil && silent && !visible && rec.State == journal.None {
				rec, err = c.w.e.db.log.Forbid(ctx, m, c.w.e.db.o.random())
			}
			state = rec.State
			return err
		})
		if err != nil || state == journal.Pending || state == journal.None || state == journal.Committed && !visible {
			return err
		}
		if state == journal.Aborted {
			_, err := c.reopen(ctx)
			return err
		}
	}
	next := c.cell
	next.State = revision.Merged
	_, err := c.swap(ctx, next)
	return err
}
