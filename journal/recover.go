package journal

import (
	"context"
	"fmt"

	"github.com/seed-4dac0d86/ldapd/revision"
	"github.com/seed-4dac0d86/ldapd/table"
)

// Recover decides for ever what a silent holder of a slot left undecided, and closes
// the slot (steps R0 to R3 of transactions.md, "Crash recovery"). The caller must have
// seen the cell unchanged for the lease on its own clock. Every step can be repeated,
// and several servers may do it at once. Then the first to close the slot wins and the
// others' findings are dropped. Recover reports whether the slot is closed; if not, its
// cell has changed meanwhile.
func (l *Log) Recover(ctx context.Context, s revision.Slot, raw []byte) (bool, error) {
	c, err := revision.DecodeCell(raw)
	if err != nil {
		return false, err
	}
	if c.State == revision.Open {
		// R0: from here the holder's own changes of the cell fail.
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
	// R3. What is above the head and not in Late is void, whatever the journal says
	// later. Raising the head instead would show what a slow but living holder writes
	// after this.
	c.State, c.Late = revision.Closed, late
	c.Sequence++
	done, now, err := l.SwapHead(ctx, s, raw, c.Append(nil))
	return done || isClosed(now), err
}

func isClosed(raw []byte) bool {
	c, err := revision.DecodeCell(raw)
	return err == nil && (c.State == revision.Closed || c.State == revision.Free)
}

// resolve aborts the pending commits above the head and those in Undecided (R1),
// removes their cells (R2) and returns the revisions that are committed.
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
		if state == Pending {
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

// upTo returns the last revision that an incarnation may have issued. Later revisions
// belong to its successors. A successor may be at work already if another server was
// quicker to recover, clean up and free the slot.
func upTo(c *revision.Cell) table.Revision { return max(c.Head, c.Limit) }

// CleanUp removes what a closed slot does not show, archives it and frees it (R4). The
// caller must have waited until no write of the former holder can land any more.
func (l *Log) CleanUp(ctx context.Context, s revision.Slot, raw []byte) error {
	c, err := revision.DecodeCell(raw)
	if err != nil {
		return err
	}
	if c.State != revision.Closed {
		return fmt.Errorf("cleaning up slot %d: it is %s", s, c.State)
	}
	view := revision.NewVector(map[revision.Slot]revision.Cell{s: c}, nil)
	for rec, err := range l.Lists(ctx, s, c.First-1, upTo(&c)) {
		if err != nil {
			return err
		}
		if view.Visible(rec.Revision) && rec.State == Committed {
			continue
		}
		if rec.State == Pending {
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

// Free archives and frees a closed slot that has been cleaned up. It writes the archive
// first: a reader of the next holder's cell must find it.
func (l *Log) Free(ctx context.Context, s revision.Slot, raw []byte) error {
	c, err := revision.DecodeCell(raw)
	if err != nil {
		return err
	}
	a := c.Archive()
	cell := table.Cell{Family: clusterFamily, Qualifier: archiveColumn, Value: a.Append(nil)}
	done, _, err := swap(ctx, l.cluster, archiveKey(s, c.Incarnation), clusterFamily, archiveColumn, nil, []table.Cell{cell})
	if err == nil && !done {
		err = fmt.Errorf("slot %d has another archive of incarnation %d: %w", s, c.Incarnation, table.ErrCorrupt)
	}
	if err != nil {
		return err
	}
	free := revision.Cell{
		Kind: c.Kind, State: revision.Free, Incarnation: c.Incarnation, Token: c.Token,
		Sequence: c.Sequence + 1, Head: max(c.Head, c.Limit), Limit: max(c.Head, c.Limit),
	}
	_, _, err = l.SwapHead(ctx, s, raw, free.Append(nil))
	return err
}
