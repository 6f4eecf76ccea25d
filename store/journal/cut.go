package journal

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/seed-4dac0d86/ldapd/store/revision"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// Cut makes the journal and the heads of a copied store end at the revision r: no commit
// after r remains, and no slot has a holder. The commits up to r must all be decided, as
// they are at a checkpoint. The cells of later commits must be gone from all other
// tables, and nobody may have the store open. Cut can be repeated.
//
// If branches is set, each branch that has a cell in the heads row, and was not discarded after r, shows
// what it showed at r. In that case the caller must have called SettleBranches before the store
// was copied. If branches is not set, Cut discards the branches that were not merged up to r.
func (l *Log) Cut(ctx context.Context, r table.Revision, branches bool) error {
	heads, err := l.Heads(ctx)
	if err != nil {
		return err
	}
	x := &branchCut{l, r, heads.Vector, branches}
	c := cutter{l}
	// The archives are cut first, because cutting the journal removes the records of the
	// merges of archived branches.
	if err := c.cutArchives(ctx, x); err != nil {
		return err
	}
	row, err := l.cluster.Get(ctx, headsRow, table.Select{})
	if err != nil {
		return fmt.Errorf("reading the heads: %w", err)
	}
	for _, q := range row.Cells {
		if len(q.Qualifier) != 2 {
			return fmt.Errorf("heads row, column %x: %w", q.Qualifier, table.ErrCorrupt)
		}
		s := revision.Slot(binary.BigEndian.Uint16(q.Qualifier))
		cell, err := revision.DecodeCell(q.Value)
		if err == nil {
			err = c.cutSlot(ctx, s, cell, bytes.Clone(q.Value), x)
		}
		if err != nil {
			return fmt.Errorf("slot %d: %w", s, err)
		}
	}
	if err := c.cutCheckpoints(ctx, r); err != nil {
		return err
	}
	if err := c.cutMarks(ctx, r); err != nil {
		return err
	}
	servers, err := l.Servers(ctx)
	for owner := range servers {
		if err == nil {
			err = l.SetServer(ctx, owner, nil)
		}
	}
	return err
}

// A cutter removes what came after a revision: see [Log.Cut].
type cutter struct{ *Log }

func (l cutter) cutSlot(ctx context.Context, s revision.Slot, c revision.Cell, raw []byte, x *branchCut) error {
	r := x.at
	if s == horizonSlot {
		if c.Horizon <= r {
			return nil
		}
		c.Horizon = r
		c.Sequence++
		return l.replaceHead(ctx, s, raw, c.Append(nil))
	}
	if err := l.forgetAfter(ctx, s, r); err != nil {
		return err
	}
	if c.State == revision.Free {
		return nil
	}
	if c.Kind == revision.Branch {
		// The void commits of branches, and closed branches, stay in the copy. Servers
		// remove them later.
		cut := x.cell(c)
		if cut.Sequence == c.Sequence {
			return nil
		}
		return l.replaceHead(ctx, s, raw, cut.Append(nil))
	}
	c = cutCell(c, r)
	next := c.Append(nil)
	if err := l.replaceHead(ctx, s, raw, next); err != nil {
		return err
	}
	return l.CleanUp(ctx, s, next)
}

var errOthersWrite = errors.New("somebody else writes to the store")

func (l cutter) replaceHead(ctx context.Context, s revision.Slot, old, new []byte) error {
	done, _, err := l.SwapHead(ctx, s, old, new)
	if err == nil && !done {
		err = errOthersWrite
	}
	return err
}

// cutCell closes a cell at r. It does not lower Limit, so that no later holder of the
// slot issues an id that was used before.
func cutCell(c revision.Cell, r table.Revision) revision.Cell {
	a := cutArchive(c.Archive(), r)
	c.Limit = max(c.Limit, c.Head)
	c.State, c.Head, c.Void, c.Undecided, c.Late = revision.Closed, a.Head, a.Void, a.Undecided, a.Late
	c.Sequence++
	return c
}

func cutArchive(a revision.Archive, r table.Revision) revision.Archive {
	a.Head = min(a.Head, r)
	a.Void, a.Undecided, a.Late = until(a.Void, r), until(a.Undecided, r), until(a.Late, r)
	return a
}

// The function "until" returns those revisions of a sorted list that are not after r.
func until(rs []table.Revision, r table.Revision) []table.Revision {
	for i, x := range rs {
		if x > r {
			return rs[:i:i]
		}
	}
	return rs
}

// forgetAfter removes the rows of a slot's commits after r.
func (l cutter) forgetAfter(ctx context.Context, s revision.Slot, r table.Revision) error {
	t, err := Collector(l.journal, Table)
	if err != nil {
		return err
	}
	var keys [][]byte
	for key, err := range t.Keys(ctx, between(s, r, revision.Last-1)) {
		if err != nil {
			return fmt.Errorf("reading the journal: %w", err)
		}
		keys = append(keys, bytes.Clone(key))
	}
	if len(keys) > 0 {
		_, err = t.Forget(ctx, keys)
	}
	return err
}

// cutArchives makes the archives end at the cut.
func (l cutter) cutArchives(ctx context.Context, cut *branchCut) error {
	for row, err := range l.cluster.Scan(ctx, table.Prefix(archivePrefix), table.Select{}) {
		if err != nil {
			return fmt.Errorf("reading the archives: %w", err)
		}
		for _, x := range row.Cells {
			a, err := revision.DecodeArchive(x.Value)
			if err != nil {
				return err
			}
			if s := slotOfArchive(row.Key); !s.IsBranch() {
				a = cutArchive(a, cut.at)
			} else if a, err = cut.archive(ctx, s, a); err != nil {
				return err
			}
			next := a.Append(nil)
			if bytes.Equal(next, x.Value) {
				continue
			}
			cell := table.Cell{Family: clusterFamily, Qualifier: archiveColumn, Value: next}
			done, _, err := swap(ctx, l.cluster, bytes.Clone(row.Key), clusterFamily, archiveColumn, bytes.Clone(x.Value), []table.Cell{cell})
			if err == nil && !done {
				err = errOthersWrite
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// cutCheckpoints deletes the checkpoints after r, whose states no longer exist.
func (l cutter) cutCheckpoints(ctx context.Context, r table.Revision) error {
	all, err := l.AllCheckpoints(ctx)
	if err != nil {
		return err
	}
	for _, c := range all {
		if c.Revision <= r {
			continue
		}
		if _, err := l.DropCheckpoint(ctx, c, time.Now()); err != nil {
			return err
		}
	}
	return nil
}
