package verify

import (
	"bytes"
	"context"

	"github.com/seed-4dac0d86/ldapd/index"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// Duplicates scans an index in the order of the values. If several entries in a scope have the
// same value, it calls found(a, b) once for each of these entries except the first: a is the
// first entry, and b is the other entry. It returns the number of values that several entries
// have. It looks for the place only of entries that share a value with another one.
func Duplicates(ctx context.Context, s *state.Snapshot, x *catalog.Indexed, base entry.ID, found func(a, b entry.ID) error) (n int, err error) {
	d := duplicates{found: found, within: func(c *index.Candidate) (bool, error) { return s.Within(ctx, c.ID, c.Parent, base) }}
	for c, err := range x.InOrder(ctx, s.Reader, false, nil, 0) {
		if err == nil {
			err = d.test(&c)
		}
		if err != nil {
			return d.n, err
		}
	}
	return d.n, nil
}

// duplicates is what Duplicates knows of the value that it has read last.
type duplicates struct {
	found  func(a, b entry.ID) error
	within func(*index.Candidate) (bool, error)
	row    []byte          // row of the value
	first  index.Candidate // the first entry with the value, or the first one in the scope
	in     bool            // it is known that first is in the scope
	again  bool            // another entry in the scope has the value
	n      int
}

func (d *duplicates) test(c *index.Candidate) (err error) {
	if r := c.Position[:len(c.Position)-len(c.ID)]; d.row == nil || !bytes.Equal(r, d.row) {
		d.row, d.first, d.in, d.again = append(d.row[:0], r...), *c, false, false
		return nil
	}
	if !d.in {
		if d.in, err = d.within(&d.first); err != nil {
			return err
		}
	}
	if !d.in {
		d.first = *c
		return nil
	}
	in, err := d.within(c)
	if err != nil || !in {
		return err
	}
	if !d.again {
		d.again = true
		d.n++
	}
	return d.found(d.first.ID, c.ID)
}

// MaxNamed is the largest number of entries or values that an error names.
const MaxNamed = 10
