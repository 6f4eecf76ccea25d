// Package history says what changed between states of a directory, and brings
// the past back.
//
// A [Difference] of two states is the changes that lead from one to the other, in
// an order in which a client could make them: that is diff. [Changes] are the
// differences that single commits made, with who made them: log and changelog.
// [Restore] makes, in one commit, the changes that lead from now to then.
//
// What the server itself keeps of entries (NO-USER-MODIFICATION) is no part of a
// change, and neither are secret attributes.
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
	// Name is what the entry is called when its turn comes; what a new one will
	// be called.
	Name    string
	Request op.Request // *op.Add, *op.Delete, *op.Modify or *op.ModifyDN
}

// String is the change in a line.
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

// State returns the state of a moment as one of one revision, of which the journal
// tells; Close it.
func State(ctx context.Context, p *partition.Partition, m past.PointInTime) (*partition.Snapshot, error) {
	s, err := past.At(ctx, p, m)
	if err != nil || !m.IsNow() {
		return s, err
	}
	defer s.Close()
	return p.At(ctx, s.Revision())
}
