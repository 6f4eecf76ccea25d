// Package history shows what changed between states of a directory, and restores
// earlier states.
//
// A [Difference] is the sequence of changes between two states, in an order in which a
// client could make them. The command diff prints it. [Changes] streams the changes
// that single commits made, with their authors, for the command log and for the
// changelog. [Restore] returns an entry or a tree to an earlier state, in one commit.
//
// A change does not include secret attributes, or attributes that only the server
// writes (NO-USER-MODIFICATION).
package history

import (
	"context"
	"fmt"
	"io"

	"github.com/seed-4dac0d86/ldapd/ldap/ldif"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// A Record is one change of one entry.
type Record struct {
	ID entry.ID
	// Name is the entry's name before the change. For a new entry, Name is the new name.
	Name    string
	Request op.Request // *op.Add, *op.Delete, *op.Modify or *op.ModifyDN
	// Parent is the parent of a new or renamed entry after the change. Parent is set only in
	// the records of a Difference.
	Parent entry.ID
}

// String describes the change in one line.
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

// LDIF returns the change as a change record of RFC 2849.
func (r *Record) LDIF() *ldif.Record { return &ldif.Record{DN: r.Name, Change: r.Request} }

// WriteLDIF writes changes as change records of RFC 2849.
func WriteLDIF(w io.Writer, records []*Record) error {
	_, err := writeRecords(w, func(yield func(*Record, error) bool) {
		for _, r := range records {
			if !yield(r, nil) {
				return
			}
		}
	})
	return err
}

// State returns the state at a point in time. The returned snapshot shows the state at
// one revision, even if m is now. The caller must close it.
func State(ctx context.Context, p *partition.Partition, m state.PointInTime) (*partition.Snapshot, error) {
	s, err := state.AtPoint(ctx, p, m)
	if err != nil || !m.IsNow() {
		return s, err
	}
	defer s.Close()
	return state.At(ctx, p, s.Revision())
}
