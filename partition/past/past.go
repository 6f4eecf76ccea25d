// Package past is what histories need of a partition besides its states: entries without
// their names, and what commits say of themselves.
package past

import (
	"context"
	"iter"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/master"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/internal/erase"
	"github.com/seed-4dac0d86/ldapd/partition/internal/feed"
	"github.com/seed-4dac0d86/ldapd/partition/internal/write"
	"github.com/seed-4dac0d86/ldapd/table"
)

type (
	// Note is what a commit says of itself in the journal.
	Note = write.Note
	// Operation is one operation of a commit.
	Operation = write.Operation
)

// ParseNote reads the message of a commit.
func ParseNote(message []byte) Note { return write.ParseNote(message) }

// Erasure is the kind of the operation that erases.
const Erasure = erase.Erasure

// SubschemaID is the id of the subschema's entry.
var SubschemaID = feed.SubschemaID

// ChangesAfter streams the commits that a state shows beyond a revision, in the order of
// their revisions.
func ChangesAfter(ctx context.Context, s *partition.Snapshot, r table.Revision) iter.Seq2[*partition.Change, error] {
	return feed.ChangesAfter(ctx, s.State(), r)
}

// Known reports whether the journal names all commits beyond a revision that a state
// shows.
func Known(s *partition.Snapshot, r table.Revision) bool { return feed.Tells(s.State(), r) }

// Node returns where an entry is in the tree, nil if there is no such entry.
func Node(ctx context.Context, s *partition.Snapshot, id entry.ID) (*master.Node, error) {
	return feed.Node(ctx, s.State(), id)
}

// Nameless reports whether the name of an entry was erased, and its node has its
// entryUUID instead.
func Nameless(s *partition.Snapshot, id entry.ID, node *master.Node) bool {
	return feed.Nameless(s.State(), id, node)
}

// Child finds an entry by its parent and its normalised RDN.
func Child(ctx context.Context, s *partition.Snapshot, parent entry.ID, rdn dn.Norm) (id entry.ID, ok bool, err error) {
	return feed.Child(ctx, s.State(), parent, rdn)
}

// Within reports whether an entry is another one, or below it.
func Within(ctx context.Context, s *partition.Snapshot, id, above entry.ID) (bool, error) {
	return feed.Within(ctx, s.State(), id, above)
}
