package journal

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/seed-4dac0d86/ldapd/store/pause"
	"github.com/seed-4dac0d86/ldapd/store/revision"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// settling bounds the wait for aborted commits. After a server has died, the wait takes a
// lease and the time in which its writes may still arrive: 40 s with the defaults.
const settling = 2 * time.Minute

// Settle waits until the cells of all aborted commits at or before r are removed from the
// store and no such cell can still arrive. In a copy of the store, such a cell could be
// visible, because the heads forget aborted commits that have been cleaned up. When Settle
// returns, commits in branches up to r are complete too.
func Settle(ctx context.Context, l *Log, r table.Revision) error {
	ctx, cancel := context.WithTimeoutCause(ctx, settling, fmt.Errorf("aborted commits before %s are not cleaned up after %v: is a server stuck?", r, settling))
	defer cancel()
	for {
		h, err := l.Heads(ctx)
		if err != nil {
			return err
		}
		if h.Low() >= r {
			if done, err := l.SettleBranches(ctx, r); done || err != nil {
				return err
			}
		}
		if err := pause.For(ctx, 50*time.Millisecond); err != nil {
			return context.Cause(ctx)
		}
	}
}

// SettleBranches makes the commits of branches up to r final: all of them are decided, and no
// more can be added. r is the revision of a checkpoint. SettleBranches returns false if a
// commit is under way, or if somebody else has changed a branch. The caller must then call it
// again.
func (l *Log) SettleBranches(ctx context.Context, r table.Revision) (bool, error) {
	h, err := l.Heads(ctx)
	if err != nil {
		return false, err
	}
	for _, s := range h.Slots() {
		c := h.Cell(s)
		if c.Kind != revision.Branch || c.State != revision.Open {
			continue // if a server later finds the cell open, it also sees that the heads have passed r
		}
		if len(c.Undecided) > 0 && c.Undecided[0] <= r {
			return false, nil
		}
		// After this swap, a server that read the old cell cannot reserve a revision any
		// more. A server that reads the new cell sees that the heads have passed r.
		c.Sequence++
		if done, _, err := l.SwapHead(ctx, s, h.Raw(s), c.Append(nil)); err != nil || !done {
			return false, err
		}
	}
	return true, nil
}

// A branchCut makes the branches of a copied store end at a revision.
type branchCut struct {
	l     *Log
	at    table.Revision
	heads *revision.Vector // before the cut
	keep  bool             // open branches stay open
}

// cell returns the cell that a branch gets at the cut. A branch that was merged at or before
// the cut stays merged. A discarded branch stays discarded, because its cells may be gone. Any
// other branch is closed if x.keep is not set, if it began after the cut, or if it was still
// being made. Otherwise it gets its commits up to the cut, and is open, or parked if it was
// parked.
func (x *branchCut) cell(c revision.Cell) revision.Cell {
	was, limit := c, max(c.Limit, c.Head, c.LastUndecided())
	ended := c.State == revision.Merged || c.State == revision.Merging
	switch {
	case c.State == revision.Free || c.State == revision.Closed:
		return c
	case ended && c.Merge <= x.at && x.heads.Visible(c.Merge):
		c.State = revision.Merged
	case !x.keep || c.State == revision.Recovering || c.First > x.at:
		c.State, c.Merge, c.Limit = revision.Closed, 0, limit
		c.Head, c.Undecided = 0, nil
	default:
		if c.State != revision.Parked {
			c.State = revision.Open
		}
		c.Merge, c.Limit = 0, limit
		c.Void = until(sortedUnion(c.Void, c.Undecided), x.at)
		c.Head, c.Undecided = min(c.Head, x.at), nil
	}
	if string(c.Append(nil)) != string(was.Append(nil)) {
		c.Sequence++
	}
	return c
}

func sortedUnion(a, b []table.Revision) []table.Revision {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

// archive cuts an archive of a branch. If the branch was merged after the cut, archive
// removes the branch's cells: an archive has no name, so the branch cannot be opened
// again.
func (x *branchCut) archive(ctx context.Context, s revision.Slot, a revision.Archive) (revision.Archive, error) {
	if a.Merge <= x.at {
		return a, nil
	}
	for rec, err := range x.l.Lists(ctx, s, a.First-1, min(a.Head, x.at)) {
		if err == nil {
			err = x.l.Erase(ctx, &rec)
		}
		if err != nil {
			return a, fmt.Errorf("removing a branch that was merged later: %w", err)
		}
	}
	return revision.Archive{First: a.First}, nil
}

// slotOfArchive returns the slot that an archive's row belongs to.
func slotOfArchive(row []byte) revision.Slot {
	return revision.Slot(binary.BigEndian.Uint16(bytes.TrimPrefix(row, archivePrefix)))
}
