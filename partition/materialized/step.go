package materialized

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/txn"
)

// stepEntries limits the number of touched entries in a step. A step whose end is not announced
// yet ends at the commit after W that raises the number above stepEntries, or a little before
// that commit.
const stepEntries = 4096

// A step takes one lane of one view from the boundary W to the boundary Next.
type step struct {
	k    *catalog.Partition
	lane lane
	d    *Definition
	cur  cursor
	from *state.Snapshot // the state at W; nil for a first step
	to   *state.Snapshot // the state at cur.Next
	t    touched

	pause  func(line string) error // lets tests end a step at some point; nil: no test
	others func()                  // calls Manager.keepOthers
}

// The method "at" calls s.pause with the name of a point of the step. A test can end the step
// there.
func (s *step) at(line string) error {
	if s.pause == nil {
		return nil
	}
	return s.pause(line)
}

// errLate ends a step that another server has made or announced in the meantime.
var errLate = errors.New("another server was quicker")

// run makes the step. On an embedded store, a step that is neither a first step nor very
// large writes one batch. All other steps are announced, so that a server that continues an
// interrupted step writes the same cells.
func (s *step) run(ctx context.Context) error {
	if s.from == nil || s.k.DB.Shared() {
		if err := s.announce(ctx); err != nil {
			return err
		}
	}
	wrote := false
	err := s.differences(ctx, func(ps parts) error {
		ms, err := s.mutations(ctx, ps)
		if err != nil {
			return err
		}
		if err := s.at("computed"); err != nil {
			return err
		}
		if s.cur.announced == 0 && len(ms) <= batchRows {
			wrote = true
			return s.writeAtOnce(ctx, ms)
		}
		return s.writeParts(ctx, ms)
	})
	if err != nil || wrote {
		return err
	}
	if err := s.write(ctx, false, table.Write{Table: s.cur.Table, Mutations: []table.Mutation{s.finish()}}); err != nil {
		return err
	}
	if err := s.at("finished"); err != nil {
		return err
	}
	done := s.cur
	done.W, done.Next = s.cur.Next, 0
	moved, err := s.lane.swapCursor(ctx, s.k, s.d.ID, &done)
	if err == nil && !moved {
		err = errLate
	}
	return err
}

// batchRows is the largest number of rows that a step writes in one batch together with
// its new cursor.
const batchRows = 16 << 10

// A step that does not write one batch writes at most writeRows rows at once.
const writeRows = 4096

// writeParts announces the step if it is not announced yet, and then writes some of the
// step's rows.
func (s *step) writeParts(ctx context.Context, ms []table.Mutation) error {
	if err := s.announce(ctx); err != nil {
		return err
	}
	for len(ms) > 0 {
		n := min(len(ms), writeRows)
		if err := s.write(ctx, false, table.Write{Table: s.cur.Table, Mutations: ms[:n]}); err != nil {
			return err
		}
		ms = ms[n:]
		if err := s.at("wrote"); err != nil {
			return err
		}
	}
	return nil
}

// writeAtOnce writes the whole step in one batch. After a crash, all of the batch exists
// or nothing of it, so the step needs no announcement.
func (s *step) writeAtOnce(ctx context.Context, ms []table.Mutation) error {
	done := s.cur
	done.W, done.Next, done.Sequence = s.cur.Next, 0, s.cur.Sequence+1
	cell := table.Cell{Family: family, Qualifier: s.lane.cursorColumn(), Value: marshal(&done)}
	return s.write(ctx, true,
		table.Write{Table: s.cur.Table, Mutations: append(ms, s.finish())},
		table.Write{Table: tableName, Mutations: []table.Mutation{{Row: s.d.ID[:], Cells: []table.Cell{cell}}}})
}

func (s *step) write(ctx context.Context, lazy bool, ws ...table.Write) error {
	return s.k.DB.WriteDerived(ctx, s.cur.Next, ws, lazy)
}

// announce writes the end of the step into the lane's cursor, unless it is already
// announced.
func (s *step) announce(ctx context.Context) error {
	if s.cur.announced != 0 {
		return nil
	}
	done, err := s.lane.swapCursor(ctx, s.k, s.d.ID, &s.cur)
	if err == nil && !done {
		err = errLate
	}
	if err != nil {
		return err
	}
	s.cur.announced = s.cur.Next
	return s.at("announced")
}

// finish returns the mutation that records that the step is finished.
func (s *step) finish() table.Mutation {
	c := table.Cell{Family: family, Qualifier: s.lane.column(), Value: []byte{1}}
	return table.Mutation{Row: []byte{stepsRow}, Cells: []table.Cell{c}}
}

// mutations returns the mutations that write the new parts of the rows in ps: the parts as
// of W plus the differences ps.
func (s *step) mutations(ctx context.Context, ps parts) ([]table.Mutation, error) {
	keys := sortedKeys(ps)
	if s.cur.W != 0 {
		if err := s.addOld(ctx, keys, ps); err != nil {
			return nil, err
		}
	}
	ms := make([]table.Mutation, len(keys))
	for i, key := range keys {
		c := table.Cell{Family: family, Qualifier: s.lane.column()}
		if p := ps[key]; p.isZero() {
			c.Tombstone = true
		} else if p.n < 0 {
			return nil, fmt.Errorf("view %s: %w: a record would count %d entries: rebuild the view", s.d.Name, table.ErrCorrupt, p.n)
		} else {
			c.Value = p.encode()
		}
		ms[i] = table.Mutation{Row: []byte(key), Cells: []table.Cell{c}}
	}
	return ms, nil
}

// addOld adds the parts as of the boundary s.cur.W to the differences ps.
func (s *step) addOld(ctx context.Context, keys []string, ps parts) error {
	rows := make([][]byte, len(keys))
	for i, key := range keys {
		rows[i] = []byte(key)
	}
	sel := table.Select{View: upTo(s.cur.W), Families: []table.Family{family}, Columns: []table.ColumnRange{table.Column(family, s.lane.column())}}
	for len(rows) > 0 {
		n := min(len(rows), writeRows)
		got, err := s.k.DB.Table(s.cur.Table).GetMany(ctx, rows[:n], sel)
		if err != nil {
			return err
		}
		for i := range got {
			if c := got[i].Find(family, s.lane.column()); c != nil {
				old, err := decodePart(c.Value)
				if err != nil {
					return err
				}
				ps[string(rows[i])].add(old, 1)
			}
		}
		rows = rows[n:]
	}
	return nil
}

// differences passes the differences between the two states to the function take. In a first
// step it may call the function several times, each time with other rows.
func (s *step) differences(ctx context.Context, take func(parts) error) error {
	if s.from == nil {
		return s.lane.whole(ctx, s.d, s.to, 0, s.others, take)
	}
	kept := &reading{ctx: ctx, d: s.d, t: s.k.DB.Table(s.cur.Table), f: finished{s.cur.W}}
	ps, err := s.lane.difference(ctx, s.d, s.from, s.to, &s.t, kept)
	if err != nil {
		return err
	}
	return take(ps)
}

// belowHorizon reports whether an error means that the state to be read is below the horizon.
func belowHorizon(err error) bool {
	var h *txn.HorizonError
	return errors.As(err, &h)
}
