// Package history shows what changed between states of a directory, and restores past
// states.
//
// A [Difference] is the sequence of changes between two states, in an order in which a
// client could make them; diff prints it. [Changes] are the differences made by single
// commits, with their authors, for log and changelog. [Restore] makes, in one commit, the
// changes from now to a past state.
//
// Attributes that only the server writes (NO-USER-MODIFICATION) and secret attributes are
// not part of a change.
package history

import (
	"context"
	"fmt"
	"io"

	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/ldif"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/past"
)

// A Record is one change of one entry.
type Record struct {
	ID entry.ID
	// Name is the entry's name just before the change, or the name of a new entry.
	Name    string
	Request op.Request // *op.Add, *op.Delete, *op.Modify or *op.ModifyDN
}

// String describes the change in a line.
func (r *Record) String() string {
	switch c := r.Request.(type) {
	case *op.Add:
		return fmt.Sprintf("came back: %q", r.Name)
	case *op.Delete:
		return fmt.Sprintf("removed: %q", r.Name)
	case *op.ModifyDN:
		return fmt.Sprintf("renamed: %q to %q", r.Name, r.newName(c))
	}
	return fmt.Sprintf("changed: %q", r.Name)
}

// LDIF returns the change as a record of RFC 2849.
func (r *Record) LDIF() *ldif.Record { return &ldif.Record{DN: r.Name, Change: r.Request} }

// WriteLDIF writes changes as records of RFC 2849.
func WriteLDIF(w io.Writer, records []*Record) error {
	_, err := write(w, func(yield func(*Record, error) bool) {
		for _, r := range records {
			if !yield(r, nil) {
				return
			}
		}
	})
	return err
}

// State returns the state at a point in time, as a state of one revision that the journal
// knows. Close it after use.
func State(ctx context.Context, p *partition.Partition, m past.PointInTime) (*partition.Snapshot, error) {
	s, err := past.At(ctx, p, m)
	if err != nil || !m.IsNow() {
		return s, err
	}
	defer s.Close()
	return p.At(ctx, s.Revision())
}
