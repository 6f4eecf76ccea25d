package verify

import (
	"bytes"
	"context"
	"iter"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/index"
	"github.com/seed-4dac0d86/ldapd/partition/internal/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/internal/state"
	"github.com/seed-4dac0d86/ldapd/schema"
)

// A DanglingValue is a value that names no entry.
type DanglingValue struct {
	ID      entry.ID // the entry that has the value
	Options string
	Value   []byte
}

// Dangling returns the values of an indexed attribute that name no entry. It omits the
// empty name and names with a unique identifier.
func Dangling(ctx context.Context, s *state.Snapshot, x *catalog.Indexed) iter.Seq2[*DanglingValue, error] {
	return func(yield func(*DanglingValue, error) bool) {
		f := danglingFinder{s: s, x: x, known: map[string]bool{}}
		for c, err := range x.InOrder(ctx, s.Reader, false, nil) {
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
	row   []byte // the last index row that test examined
	names bool   // the value of row names an entry
	found []DanglingValue
	known map[string]bool // keys of the names of existing entries
}

// maxKnown is the largest number of names in known.
const maxKnown = 100_000

// test sets found to the dangling values of a candidate.
func (f *danglingFinder) test(ctx context.Context, c *index.Candidate) error {
	f.found = f.found[:0]
	key, cut, _, err := index.CutKey(c.Position)
	if err != nil {
		return err
	}
	row := c.Position[:len(c.Position)-len(c.ID)]
	if !cut {
		if f.row == nil || !bytes.Equal(row, f.row) {
			f.row = append(f.row[:0], row...)
			if f.names, err = f.there(ctx, f.x.Typ.KeyOfName(key)); err != nil {
				return err
			}
		}
		if f.names {
			return nil
		}
	}
	return f.read(ctx, c.ID, key, cut)
}

// there reports whether an entry has the name with this key.
func (f *danglingFinder) there(ctx context.Context, key []byte) (bool, error) {
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

// read adds to found those values of an entry that have the key and name no entry. If the
// key is cut, read considers all values whose key begins with it.
func (f *danglingFinder) read(ctx context.Context, id entry.ID, key []byte, cut bool) error {
	e, err := f.s.Some(ctx, id, []*schema.AttributeType{f.x.Typ})
	if err != nil || e == nil {
		return err
	}
	for _, a := range e.Attributes {
		if a.Type != f.x.Typ {
			continue
		}
		for _, v := range a.Values {
			k, err := catalog.KeyOf(f.x.Typ, v)
			if err != nil || !cut && !bytes.Equal(k, key) || cut && !bytes.HasPrefix(k, key) {
				continue
			}
			names, err := f.there(ctx, f.x.Typ.KeyOfName(k))
			if err != nil {
				return err
			}
			if !names {
				f.found = append(f.found, DanglingValue{id, a.Options, bytes.Clone(v)})
			}
		}
	}
	return nil
}
