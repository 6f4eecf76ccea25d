package view

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/partition/internal/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/internal/search"
	"github.com/seed-4dac0d86/ldapd/partition/internal/state"
	"github.com/seed-4dac0d86/ldapd/table"
	"github.com/seed-4dac0d86/ldapd/txn"
)

// stepEntries is the number of touched entries with which a step ends, if its boundary
// can be chosen.
const stepEntries = 4096

// A step takes one lane of one view from the boundary W to the boundary next.
type step struct {
	k    *catalog.Keeper
	lane lane
	d    *Definition
	cur  cursor
	from *state.Snapshot // the state at W; nil for a first step
	to   *state.Snapshot // the state at cur.Next
	t    touched

	pause  func(line string) error // tests end a step between its lines; nil: nothing
	others func()                  // keeps other views, if they are due
}

// at is called between the lines of a step.
func (s *step) at(line string) error {
	if s.pause == nil {
		return nil
	}
	return s.pause(line)
}

// errLate ends a step that another server has made or announced in the meantime.
var errLate = errors.New("another server was quicker")

// run makes the step. On an embedded store a step after the first is one batch, unless it
// is very large. Other steps are announced, so that whoever continues them writes the same.
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

// batchRows is the largest number of rows that a step writes in one batch with its end.
const batchRows = 16 << 10

// writeRows is the number of rows that a step writes at once.
const writeRows = 4096

// writeParts writes parts of the step, which must be announced by then.
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

// writeAtOnce writes the step in one batch, which exists as a whole or not at all after a
// crash. So nothing needs to be announced.
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

// announce swaps the boundary in, unless it is announced already.
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

// finish returns the mutation that says that the step is finished.
func (s *step) finish() table.Mutation {
	c := table.Cell{Family: family, Qualifier: s.lane.column(), Value: []byte{1}}
	return table.Mutation{Row: []byte{stepsRow}, Cells: []table.Cell{c}}
}

// mutations returns the new parts of the records that change: the parts as of W and the
// differences ps.
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

// addOld adds the parts as of W.
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

// differences passes the differences between the two states to take. Those of a first step
// may come in several calls, each for other rows.
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

// whole passes what the entries of a lane come to in a state to take, which must not keep
// it. A list comes in several calls, each for other rows: it may have millions. If most is
// not zero, at most this many entries are examined. whole calls meanwhile now and then.
func (l lane) whole(ctx context.Context, d *Definition, s *state.Snapshot, most int, meanwhile func(), take func(parts) error) error {
	if d.Kind == Subordinates {
		ps, err := wholeTree(ctx, s, meanwhile)
		if err != nil {
			return err
		}
		return take(ps)
	}
	ps := parts{}
	base, err := d.baseIn(ctx, s)
	if err != nil {
		return err
	}
	if base == noID {
		return take(ps)
	}
	q := search.Query{Base: base, Scope: op.WholeSubtree, Filter: d.filter, Only: d.needs, Most: most}
	n := 0
	for r, err := range search.Search(ctx, s, q) {
		if err != nil {
			return err
		}
		if n++; n%lookEvery == 0 {
			meanwhile()
		}
		if !l.has(r.ID) || d.filter.Match(&filter.EntrySource{Schema: s.Catalog.Schema, Entry: r.Entry}) != filter.True {
			continue
		}
		d.giveEntry(r.Entry, 1, ps)
		if d.Kind == List && len(ps) > writeRows {
			// The row that counts goes on, so that it is written once.
			several := ps[string(severalRow)]
			delete(ps, string(severalRow))
			if err := take(ps); err != nil {
				return err
			}
			clear(ps)
			if several != nil {
				ps[string(severalRow)] = several
			}
		}
	}
	return take(ps)
}

// belowHorizon reports whether an error means that a state is not kept any more.
func belowHorizon(err error) bool {
	var h *txn.HorizonError
	return errors.As(err, &h)
}
