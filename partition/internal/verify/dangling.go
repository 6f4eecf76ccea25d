package verify

import (
	"bytes"
	"context"
	"iter"
	"slices"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/index"
	"github.com/seed-4dac0d86/ldapd/partition/internal/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/internal/state"
	"github.com/seed-4dac0d86/ldapd/table"
	"github.com/seed-4dac0d86/ldapd/tree"
)

// A DanglingValue is a value that names no entry.
type DanglingValue struct {
	ID      entry.ID // the entry that has the value
	Options string
	Value   []byte
	// Position is a position in the index. Equal values of one entry have the same
	// position.
	Position []byte
}

// Dangling returns the values of an indexed attribute that name no entry. It begins behind a
// position of the index, the argument after. It omits the empty name and names with a unique
// identifier.
func Dangling(ctx context.Context, s *state.Snapshot, x *catalog.Indexed, after []byte) iter.Seq2[*DanglingValue, error] {
	return func(yield func(*DanglingValue, error) bool) {
		f := danglingFinder{s: s, x: x, known: map[string]bool{}}
		for c, err := range x.InOrder(ctx, s.Reader, false, after) {
			if err == nil {
				err = f.test(ctx, &c)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			for i := range f.found {
				if !yield(&f.found[i], nil) {
					return
				}
			}
		}
	}
}

type danglingFinder struct {
	s     *state.Snapshot
	x     *catalog.Indexed
	row   []byte // the last index row with a whole key
	names bool   // the value of row names an entry
	found []DanglingValue
	known map[string]bool // keys of the names of existing entries
}

// maxKnown is the largest number of names in known.
const maxKnown = 100_000

// test sets f.found to the dangling values of a candidate.
func (f *danglingFinder) test(ctx context.Context, c *index.Candidate) error {
	f.found = f.found[:0]
	key, cut, _, err := index.CutKey(c.Position)
	if err != nil {
		return err
	}
	row := c.Position[:len(c.Position)-len(c.ID)]
	if !cut && !bytes.Equal(row, f.row) {
		f.row = append(f.row[:0], row...)
		if f.names, err = f.exists(ctx, f.x.Typ.KeyOfName(key)); err != nil {
			return err
		}
	}
	if !cut && f.names {
		return nil
	}
	return f.read(ctx, c, key, row, cut)
}

// exists reports whether an entry has the name with this key.
func (f *danglingFinder) exists(ctx context.Context, key []byte) (bool, error) {
	if len(key) == 0 || f.known[string(key)] {
		return true, nil
	}
	norms, err := dn.SplitKey(key)
	if err != nil {
		return false, err
	}
	_, found, err := f.s.Path(ctx, norms)
	if found && len(f.known) < maxKnown {
		f.known[string(key)] = true
	}
	return found, err
}

// read reads the values of a candidate's entry that are in an index row, and adds to f.found
// those that name no entry. Several descriptions of the entry may have a value in the row. If
// the row has a whole key, read looks up only this key, because the entry may have very many
// other values.
func (f *danglingFinder) read(ctx context.Context, c *index.Candidate, key, row []byte, cut bool) error {
	all, err := f.descriptions(ctx, c.ID)
	if err != nil {
		return err
	}
	for _, d := range all {
		list, err := d.FindAll(ctx, f.s, [][]byte{key})
		if cut {
			list, err = f.cutIn(ctx, d, row)
		}
		if err != nil {
			return err
		}
		list = slices.DeleteFunc(list, func(k *state.Keyed) bool { return k == nil })
		values, err := d.Spelled(ctx, f.s, list)
		if err != nil {
			return err
		}
		for _, v := range values {
			f.found = append(f.found, DanglingValue{c.ID, d.Options, v, bytes.Clone(c.Position)})
		}
	}
	return nil
}

// descriptions returns the descriptions under which an entry has values.
func (f *danglingFinder) descriptions(ctx context.Context, id entry.ID) ([]*state.DescribedValues, error) {
	node, err := f.s.Node(ctx, id)
	if err != nil || node == nil {
		return nil, err
	}
	row, err := f.s.Reader.Get(ctx, f.s.Keeper.Tree, tree.Key(node.Parent, node.NormRDN), table.Select{
		Families: []table.Family{tree.NormAttributes}, Columns: []table.ColumnRange{tree.Columns(f.x.Typ)}})
	return state.ValuesOf(id, f.x.Typ, row.Clone()).Described, err
}

// cutIn reads the values under a description that are in an index row with a cut key. It
// returns those that name no entry.
func (f *danglingFinder) cutIn(ctx context.Context, d *state.DescribedValues, row []byte) (in []*state.Keyed, err error) {
	all, err := d.All(ctx, f.s)
	if err != nil {
		return nil, err
	}
	list := make([]*state.Keyed, len(all))
	for i := range all {
		list[i] = &all[i]
	}
	values, err := d.Spelled(ctx, f.s, list)
	for i, v := range values {
		k, err := catalog.KeyOf(f.x.Typ, v)
		if err != nil || !bytes.Equal(index.AppendKey(nil, k), row) {
			continue
		}
		names, err := f.exists(ctx, f.x.Typ.KeyOfName(k))
		if err != nil {
			return nil, err
		}
		if !names {
			in = append(in, list[i])
		}
	}
	return in, err
}
