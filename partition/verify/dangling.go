package verify

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/index"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
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
		f := danglingFinder{s: s, x: x, known: map[string]entry.ID{}}
		err := inBatches(x.InOrder(ctx, s.Reader, false, after, 0), cloneCandidate, func(batch []index.Candidate) error {
			keys, err := f.keys(ctx, batch)
			if err != nil {
				return err
			}
			for i := range batch {
				if err := f.test(ctx, &batch[i], &keys[i]); err != nil {
					return err
				}
				for i := range f.found {
					if !yield(&f.found[i], nil) {
						return errStop
					}
				}
			}
			return nil
		})
		if err != nil && !errors.Is(err, errStop) {
			yield(nil, err)
		}
	}
}

func cloneCandidate(c index.Candidate) index.Candidate {
	c.Position = bytes.Clone(c.Position)
	return c
}

type danglingFinder struct {
	s     *state.Snapshot
	x     *catalog.Indexed
	found []DanglingValue
	known map[string]entry.ID // ids of entries, by row keys of the tree
}

// maxKnown is the largest number of rows in known.
const maxKnown = 100_000

// A namingKey is the key in an index row of a candidate.
type namingKey struct {
	key   []byte
	cut   bool
	names bool // the key is whole, and an entry has the name
}

// keys returns the keys of candidates. It looks up the names of all of them together.
func (f *danglingFinder) keys(ctx context.Context, batch []index.Candidate) ([]namingKey, error) {
	if len(f.known) > maxKnown {
		clear(f.known)
	}
	keys := make([]namingKey, len(batch))
	names := make([][]byte, len(batch))
	var err error
	for i := range batch {
		k := &keys[i]
		if k.key, k.cut, _, err = index.CutKey(batch[i].Position); err != nil {
			return nil, err
		}
		if !k.cut {
			names[i] = f.x.Typ.KeyOfName(k.key)
		}
	}
	exist, err := f.exist(ctx, names)
	for i := range exist {
		keys[i].names = exist[i] && !keys[i].cut
	}
	return keys, err
}

// exist reports for each key of a name whether an entry has the name. The empty name is a name.
func (f *danglingFinder) exist(ctx context.Context, keys [][]byte) ([]bool, error) {
	names := make([][]dn.Norm, len(keys))
	for i, key := range keys {
		if len(key) == 0 {
			continue
		}
		var err error
		if names[i], err = dn.SplitKey(key); err != nil {
			return nil, err
		}
	}
	return f.namesExist(ctx, names)
}

// test sets f.found to the dangling values of a candidate.
func (f *danglingFinder) test(ctx context.Context, c *index.Candidate, k *namingKey) error {
	f.found = f.found[:0]
	if k.names {
		return nil
	}
	return f.read(ctx, c, k.key, c.Position[:len(c.Position)-len(c.ID)], k.cut)
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
	tv, err := f.s.ValuesOf(ctx, id, f.x.Typ)
	if err != nil {
		return nil, err
	}
	return tv.Described, nil
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
	if err != nil {
		return nil, err
	}
	var keys [][]byte
	for i, v := range values {
		if k, err := catalog.KeyOf(f.x.Typ, v); err == nil && bytes.Equal(index.AppendKey(nil, k), row) {
			in, keys = append(in, list[i]), append(keys, f.x.Typ.KeyOfName(k))
		}
	}
	exist, err := f.exist(ctx, keys)
	if err != nil {
		return nil, err
	}
	n := 0
	for i, k := range in {
		if !exist[i] {
			in[n], n = k, n+1
		}
	}
	return in[:n], nil
}
