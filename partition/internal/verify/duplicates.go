package verify

import (
	"bytes"
	"context"

	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/partition/internal/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/internal/state"
)

// Duplicates scans an index in the order of the values. If several entries in a scope have the
// same value, it calls found(a, b) once for each of these entries except the first: a is the
// first entry, and b is the other entry. It returns the number of values that several entries
// have.
func Duplicates(ctx context.Context, s *state.Snapshot, x *catalog.Indexed, base entry.ID, found func(a, b entry.ID) error) (n int, err error) {
	var row []byte // row of the current value
	var first entry.ID
	again := false
	for c, err := range x.InOrder(ctx, s.Reader, false, nil) {
		if err != nil {
			return n, err
		}
		if in, err := s.Within(ctx, c.ID, c.Parent, base); err != nil {
			return n, err
		} else if !in {
			continue
		}
		if r := c.Position[:len(c.Position)-len(c.ID)]; row == nil || !bytes.Equal(r, row) {
			row, first, again = append(row[:0], r...), c.ID, false
			continue
		}
		if !again {
			again = true
			n++
		}
		if err := found(first, c.ID); err != nil {
			return n, err
		}
	}
	return n, nil
}

// MaxNamed is the largest number of entries or values that an error names.
const MaxNamed = 10
