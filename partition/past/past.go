// Package past opens states of the past and reads other parts of the history: entries
// whose names are not known, and the messages of commits.
package past

import (
	"context"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/master"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/internal/changestream"
	"github.com/seed-4dac0d86/ldapd/partition/internal/erase"
	"github.com/seed-4dac0d86/ldapd/partition/internal/state"
	"github.com/seed-4dac0d86/ldapd/partition/internal/write"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

type (
	// A PointInTime specifies a state of the past or the present state, as a user enters it.
	PointInTime = state.PointInTime
	// A Message is a commit's message in the journal.
	Message = write.Message
	// An Operation is one operation of a commit.
	Operation = write.Operation
	// A Deletion is what the journal knows of the deletion of an entry.
	Deletion = write.Deletion
	// A Reference is a value that names an entry.
	Reference = write.Reference
)

// ParsePointInTime parses a point in time: a time of RFC 3339, a generalized time, a revision,
// the name of a checkpoint, or "now".
func ParsePointInTime(s string) (PointInTime, error) { return state.ParsePointInTime(s) }

// At returns the state at a point in time. The caller must close it.
func At(ctx context.Context, p *partition.Partition, m PointInTime) (*partition.Snapshot, error) {
	return partition.NewSnapshot(state.AtPoint(ctx, p.Keeper(), m))
}

// Horizon returns the newest revision whose predecessors may have been collected. A state
// before the horizon can be read only if a checkpoint or a parked branch keeps it.
func Horizon(p *partition.Partition) table.Revision { return p.Keeper().DB.Horizon() }

// ParseMessage parses the message of a commit.
func ParseMessage(message []byte) Message { return write.ParseMessage(message) }

// DeletionOf returns the last deletion of an entry, or nil if nothing is known of one.
func DeletionOf(ctx context.Context, tx *partition.Tx, id entry.ID) (*Deletion, error) {
	return tx.Writer().DeletionOf(ctx, id)
}

// ReferencesTo returns the values that name the given entries, of the attributes whose values follow
// the entries that they name. The keys of names are keys of normalised names.
func ReferencesTo(ctx context.Context, s *partition.Snapshot, names map[string]bool) ([]Reference, error) {
	return write.ReferencesTo(ctx, s.State(), names)
}

// Holds reports for each value whether an entry has it.
func Holds(ctx context.Context, s *partition.Snapshot, id entry.ID, t *schema.AttributeType, options string, values ...[]byte) ([]bool, error) {
	return write.Holds(ctx, s.State(), id, t, options, values...)
}

// Present reports whether an entry has a value of a type.
func Present(ctx context.Context, s *partition.Snapshot, id entry.ID, t *schema.AttributeType) (bool, error) {
	tv, err := s.State().ValuesOf(ctx, id, t)
	return err == nil && tv.Present(), err
}

// OfAccounts reports whether a type is an account attribute, which describes the state of an account.
func OfAccounts(t *schema.AttributeType) bool { return write.OfAccounts(t) }

// Erasure is the kind of an operation that erased values.
const Erasure = erase.Erasure

// Node returns an entry's node in the tree, or nil if there is no such entry.
func Node(ctx context.Context, s *partition.Snapshot, id entry.ID) (*master.Node, error) {
	return changestream.Node(ctx, s.State(), id)
}

// Nameless reports whether the name of an entry was erased. The node of such an entry has the
// entry's entryUUID in place of the name.
func Nameless(s *partition.Snapshot, id entry.ID, node *master.Node) bool {
	return changestream.Nameless(s.State(), id, node)
}

// Child finds an entry by its parent and its normalised RDN.
func Child(ctx context.Context, s *partition.Snapshot, parent entry.ID, rdn dn.Norm) (id entry.ID, ok bool, err error) {
	return changestream.Child(ctx, s.State(), parent, rdn)
}

// Within reports whether an entry is in the subtree of the entry base.
func Within(ctx context.Context, s *partition.Snapshot, id, base entry.ID) (bool, error) {
	return changestream.Within(ctx, s.State(), id, base)
}
