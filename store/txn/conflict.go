package txn

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/seed-4dac0d86/ldapd/store/journal"
	"github.com/seed-4dac0d86/ldapd/store/revision"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// withMarks adds the mark cells by which other servers see what the transaction does to
// its rows. The qualifier of a mark cell is the kind, the slot and, for MarkValue, the
// hash. Its value says whether the mark deletes. For a mark of a reservation, it also has the
// parameter reserved, the priority. Otherwise reserved is zero.
func withMarks(writes []table.Write, marks []markRow, slot revision.Slot, reserved table.Revision) []table.Write {
	at := map[string]int{}
	for i := range writes {
		at[writes[i].Table] = i
	}
	for _, m := range marks {
		i, ok := at[m.table]
		if !ok {
			i = len(writes)
			at[m.table] = i
			writes = append(writes, table.Write{Table: m.table})
		}
		writes[i].Mutations = addCell(writes[i].Mutations, m.row, markCell(m.mark, slot, reserved))
	}
	return writes
}

func markCell(m Mark, slot revision.Slot, reserved table.Revision) table.Cell {
	q := binary.BigEndian.AppendUint16([]byte{byte(m.Kind)}, uint16(slot))
	if m.Kind == MarkValue {
		q = binary.BigEndian.AppendUint64(q, m.Hash)
	}
	v := []byte{0}
	if m.Deletes {
		v[0] = deleting
	}
	if reserved != 0 {
		v = binary.BigEndian.AppendUint64(v, uint64(reserved))
	}
	return table.Cell{Family: table.MarkFamily, Qualifier: q, Value: v}
}

// reservedPrio returns the priority of the reservation that placed a mark, or zero if a commit placed it.
func reservedPrio(c *table.Cell) table.Revision {
	if len(c.Value) != 9 {
		return 0
	}
	return table.Revision(binary.BigEndian.Uint64(c.Value[1:]))
}

// parseMark decodes a mark's cell.
func parseMark(c *table.Cell) (Mark, error) {
	q := c.Qualifier
	m := Mark{Deletes: len(c.Value) > 0 && c.Value[0] == deleting}
	switch {
	case len(q) == 3:
		m.Kind = MarkKind(q[0])
	case len(q) == 11 && MarkKind(q[0]) == MarkValue:
		m.Kind, m.Hash = MarkValue, binary.BigEndian.Uint64(q[3:])
	default:
		return m, fmt.Errorf("mark %x of %s: %w", q, c.Revision, table.ErrCorrupt)
	}
	return m, nil
}

// A meeting is an incompatible mark of another commit, which the transaction's snapshot does not show.
type meeting struct {
	revision table.Revision
	mark     placed         // the transaction's own mark
	later    table.Revision // the priority of a later reservation, which is no conflict: it waits; or zero
}

// meetOthers is called after a commit has written its marks and then read the marks of other commits on the
// same rows. It resolves the conflicts that were found (steps 4 and 5 in transactions.md, "Commit"). Of two
// commits that do not see each other, the commit that reads the marks in a row later finds the marks of the
// other commit.
func (w *writer) meetOthers(ctx context.Context, p *pendingCommit, met []meeting) (*conflict, error) {
	if len(met) == 0 {
		return nil, nil
	}
	heads, err := w.readHeads(ctx)
	if err != nil {
		return nil, err
	}
	for _, m := range met {
		if met, err := w.resolveConflict(ctx, heads, p.rec, m.revision); met != nil || err != nil {
			if met != nil {
				met.mark = m.mark
			}
			return met, err
		}
	}
	return nil, nil
}

// marksByRow returns the transaction's marks by table and row.
func (tx *Tx) marksByRow() map[string]map[string][]Mark {
	tables := map[string]map[string][]Mark{}
	for _, m := range tx.markRows {
		rows := tables[m.table]
		if rows == nil {
			rows = map[string][]Mark{}
			tables[m.table] = rows
		}
		rows[string(m.row)] = append(rows[string(m.row)], m.mark)
	}
	return tables
}

// conflicting returns the marks of other commits that conflict with the transaction's marks in some rows of a
// table. The record own is of the transaction's commit.
func (tx *Tx) conflicting(name string, rows []table.Row, marks map[string][]Mark, own *journal.Record) (met []meeting, err error) {
	for _, row := range rows {
		for i := range row.Cells { //rule:all-versions
			c := &row.Cells[i]
			if tx.isMine(c.Revision, own.Revision) || tx.snapshot.Visible(c.Revision) { //rule:unseen
				continue
			}
			theirs, err := parseMark(c)
			if err != nil {
				return nil, err
			}
			at := slices.IndexFunc(marks[string(row.Key)], theirs.conflicts)
			if at < 0 {
				continue
			}
			m := meeting{revision: c.Revision, mark: place(name, row.Key, marks[string(row.Key)][at])}
			if prio := reservedPrio(c); prio > own.Prio {
				m.later = prio
			}
			met = append(met, m)
		}
	}
	return met, nil
}

// resolveConflict decides which of two commits wins: this server's commit, whose record is
// own, or the commit of another server at revision r. Neither commit sees the other. The heads
// were read after the mark of r was found. resolveConflict returns a conflict if r is committed
// or has priority. If it returns no conflict and no error, r is aborted or belongs to a branch
// that is not being merged.
func (w *writer) resolveConflict(ctx context.Context, heads *journal.Heads, own *journal.Record, r table.Revision) (*conflict, error) {
	if revision.SlotOf(r).IsBranch() {
		return w.meetBranch(ctx, heads, own, r) //rule:branch-marks
	}
	for {
		switch {
		case heads.Void(r):
			return nil, nil
		case heads.Visible(r):
			return &conflict{others: []table.Revision{r}}, nil //rule:committed-first
		}
		var other journal.Record
		if err := w.step(ctx, func(ctx context.Context) (err error) {
			other, err = w.e.db.log.State(ctx, r)
			return err
		}); err != nil {
			return nil, err
		}
		switch {
		case other.State == journal.Aborted:
			return nil, nil
		case other.ByCell && heads.Cell(revision.SlotOf(r)).State != revision.Open:
			return nil, nil // its server can publish nothing any more
		case other.ByCell && goesFirst(&other, own):
			return &conflict{others: []table.Revision{r}}, nil //rule:one-gives-way
		case other.ByCell:
			done, err := w.takeBack(ctx, heads, r)
			if err != nil || done {
				return nil, err
			}
			if heads, err = w.readHeads(ctx); err != nil {
				return nil, err
			}
			continue
		case other.State == journal.Committed:
			return &conflict{others: []table.Revision{r}}, nil
		case other.State == journal.Pending && goesFirst(&other, own):
			return &conflict{others: []table.Revision{r}}, nil
		}
		// This commit has priority, or the other commit has no journal row: abort the other
		// commit. Without a journal row its cells are leftovers, and Forbid prevents that
		// commit from ever beginning.
		err := w.step(ctx, func(ctx context.Context) (err error) {
			if other.State == journal.None {
				_, err = w.e.db.log.Forbid(ctx, r, w.e.db.o.random())
			} else {
				_, err = w.e.db.log.Decide(ctx, &other, journal.Aborted)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
}

// takeBackTries is the number of swaps in takeBack. A busy server changes its cell once a round trip, so a swap from
// bytes that were read before other calls would hardly ever succeed.
const takeBackTries = 64

// takeBack makes another server's commit void in the open cell of that server. The heads do not show the commit. takeBack
// reports whether the commit is void. If it is not, the heads must be read again: the cell may show the commit now.
func (w *writer) takeBack(ctx context.Context, heads *journal.Heads, r table.Revision) (done bool, err error) {
	slot := revision.SlotOf(r)
	c, raw := heads.Cell(slot), heads.Raw(slot)
	for range takeBackTries {
		next := c
		i, _ := slices.BinarySearch(c.Void, r)
		next.Void = slices.Insert(slices.Clone(c.Void), i, r)
		next.Sequence++
		err = w.step(ctx, func(ctx context.Context) (err error) {
			done, raw, err = w.e.db.log.SwapHead(ctx, slot, raw, next.Append(nil)) //rule:takes-back
			return err
		})
		if err != nil || done {
			return done, err
		}
		now, err := revision.DecodeCell(raw)
		if err != nil {
			return false, err
		}
		seen := now.Archive()
		if _, isVoid := slices.BinarySearch(now.Void, r); isVoid || now.Incarnation != c.Incarnation || now.State != revision.Open || seen.Shows(r) {
			return false, nil
		}
		c = now
	}
	return false, context.Cause(ctx)
}

// meetBranch does what resolveConflict does, for a mark of a commit in a branch. The
// transaction's snapshot does not show that commit. Marks of a branch that is not being
// merged are no conflicts. If the branch is frozen, the server that merges it may have
// checked this row already, so meetBranch thaws the branch. If the merge has begun to
// commit, the conflict is with the merge, as it would be with any other commit.
func (w *writer) meetBranch(ctx context.Context, heads *journal.Heads, own *journal.Record, r table.Revision) (*conflict, error) {
	for {
		c := w.branchCell(heads, revision.SlotOf(r))
		switch {
		case heads.Visible(r):
			return &conflict{others: []table.Revision{heads.ShownBy(r)}}, nil
		case heads.Void(r), r < c.cell.First:
			return nil, nil
		case c.cell.State == revision.Merging:
			return w.resolveConflict(ctx, heads, own, c.cell.Merge) //rule:merge-met
		case c.cell.State != revision.Frozen: //rule:thaw
			return nil, nil
		}
		if done, err := c.reopen(ctx); err != nil || done {
			return nil, err
		}
		var err error
		if heads, err = w.readHeads(ctx); err != nil {
			return nil, err
		}
	}
}

// goesFirst reports whether a has priority over b because a has waited longer.
func goesFirst(a, b *journal.Record) bool {
	if a.Prio != b.Prio {
		return a.Prio < b.Prio
	}
	return a.Revision < b.Revision
}

// await returns when each of other servers' commits is decided, and the state shown includes it or excludes it for good.
// The commits are usually decided soon. If the journal decides one and it is still pending after two leases, await aborts it.
func (w *writer) await(ctx context.Context, others []table.Revision) error {
	for _, r := range others {
		decided, err := w.e.awaitDecided(ctx, r)
		if err == nil && !decided {
			err = w.step(ctx, func(ctx context.Context) error {
				other, err := w.e.db.log.State(ctx, r)
				if err == nil && other.State == journal.Pending {
					_, err = w.e.db.log.Decide(ctx, &other, journal.Aborted)
				}
				return err
			})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readHeads reads the current heads.
func (w *writer) readHeads(ctx context.Context) (heads *journal.Heads, err error) {
	err = w.step(ctx, func(ctx context.Context) error {
		heads, err = w.e.db.log.Heads(ctx)
		return err
	})
	return heads, err
}

// isMine reports whether r is the revision of the transaction's commit or of its reservation.
// The parameter own is the revision of the commit.
func (tx *Tx) isMine(r, own table.Revision) bool { return r == own || r == tx.reserved }
