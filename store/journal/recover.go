package journal

import (
	"context"
	"fmt"

	"github.com/seed-4dac0d86/ldapd/store/revision"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// Recover makes the final decision about each commit that a silent holder of a slot left
// undecided, and closes the slot (steps R0 to R3 of transactions.md, "Crash recovery"). The
// caller must have seen that the cell did not change for a whole lease, measured by the
// caller's clock. Every step can be repeated, and several servers may recover the same slot at
// once. In that case the first server to close the slot wins, and the results of the other
// servers are dropped. Recover reports whether the slot is closed. If the slot was open or
// recovering, and Recover returns false without an error, another server has changed the cell
// in the meantime.
func (l *Log) Recover(ctx context.Context, s revision.Slot, raw []byte) (bool, error) {
	c, err := revision.DecodeCell(raw)
	if err != nil {
		return false, err
	}
	if c.State == revision.Open { //rule:R0
		// R0: from here on, swaps of the cell by its holder fail.
		c.State = revision.Recovering
		c.Sequence++
		next := c.Append(nil)
		done, now, err := l.SwapHead(ctx, s, raw, next)
		if err != nil || !done {
			return isClosed(now), err
		}
		raw = next
	}
	if c.State != revision.Recovering {
		return c.State == revision.Closed, nil
	}
	late, err := l.resolve(ctx, s, &c)
	if err != nil {
		return false, err
	}
	// R3: A revision that is above the head and not in Late is void, even if the journal
	// says otherwise later. Raising the head instead would show commits that a slow but
	// living holder writes after this.
	c.State, c.Late = revision.Closed, late //rule:R3-head
	c.Sequence++
	done, now, err := l.SwapHead(ctx, s, raw, c.Append(nil))
	return done || isClosed(now), err //rule:R3-compares
}

func isClosed(raw []byte) bool {
	c, err := revision.DecodeCell(raw)
	return err == nil && (c.State == revision.Closed || c.State == revision.Free)
}

// resolve aborts the commits above the head and in Undecided that are pending, or that the cell
// decides (R1). It removes the cells of these commits, and of those that were aborted before (R2).
// Commits that the journal says are committed stay committed, and resolve returns their revisions.
func (l *Log) resolve(ctx context.Context, s revision.Slot, c *revision.Cell) (late []table.Revision, err error) {
	after := c.Head
	if len(c.Undecided) > 0 {
		after = min(after, c.Undecided[0]-1)
	}
	open := map[table.Revision]bool{}
	for _, r := range c.Undecided {
		open[r] = true
	}
	for rec, err := range l.Lists(ctx, s, after, upTo(c)) {
		if err != nil {
			return nil, err
		}
		if rec.Revision <= c.Head && !open[rec.Revision] {
			continue
		}
		state := rec.State
		if rec.mayAbort() {
			if state, err = l.Decide(ctx, &rec, Aborted); err != nil {
				return nil, err
			}
		}
		if state == Committed {
			late = append(late, rec.Revision)
			continue
		}
		if err := l.Erase(ctx, &rec); err != nil {
			return nil, err
		}
	}
	return late, nil
}

// mayAbort reports whether the commit can be aborted, if its cell does not show it and will never show it.
func (rec *Record) mayAbort() bool {
	return rec.State == Pending || rec.State == Committed && rec.ByCell //rule:by-cell
}

// upTo returns the last revision that an incarnation may have issued. Later revisions
// belong to later incarnations. A later incarnation may already exist if another server
// has recovered, cleaned up and freed the slot first.
func upTo(c *revision.Cell) table.Revision { return max(c.Head, c.Limit) } //rule:R4-limit

// CleanUp removes the cells of commits that a closed slot does not show, then archives
// and frees the slot (R4). The caller must have waited until no write of the former
// holder can reach the store any more.
func (l *Log) CleanUp(ctx context.Context, s revision.Slot, raw []byte) error {
	c, err := revision.DecodeCell(raw)
	if err != nil {
		return err
	}
	if c.State != revision.Closed {
		return fmt.Errorf("cleaning up slot %d: it is %s", s, c.State)
	}
	view := revision.NewVector(map[revision.Slot]revision.Cell{s: c}, nil)
	for rec, err := range l.Lists(ctx, s, c.First-1, upTo(&c)) { //rule:R4-scan
		if err != nil {
			return err
		}
		if view.Visible(rec.Revision) && rec.State == Committed {
			continue
		}
		if rec.mayAbort() {
			if _, err := l.Decide(ctx, &rec, Aborted); err != nil {
				return err
			}
		}
		if err := l.Erase(ctx, &rec); err != nil {
			return err
		}
	}
	return l.Free(ctx, s, raw)
}

// Free archives and frees a slot that has been cleaned up. It writes the archive first, because
// a reader of the next holder's cell must find the archive.
func (l *Log) Free(ctx context.Context, s revision.Slot, raw []byte) error {
	c, err := revision.DecodeCell(raw)
	if err != nil {
		return err
	}
	a := c.Archive() //rule:R4-archive
	cell := table.Cell{Family: clusterFamily, Qualifier: archiveColumn, Value: a.Append(nil)}
	done, _, err := swap(ctx, l.cluster, archiveKey(s, c.Incarnation), clusterFamily, archiveColumn, nil, []table.Cell{cell})
	if err == nil && !done {
		err = fmt.Errorf("slot %d has another archive of incarnation %d: %w", s, c.Incarnation, table.ErrCorrupt)
	}
	if err != nil {
		return err
	}
	free := c.Freed()
	_, _, err = l.SwapHead(ctx, s, raw, free.Append(nil))
	return err
}
