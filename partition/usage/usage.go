// Package usage changes hot attributes. A hot attribute is a secret attribute that records how
// an entry is used, such as the times of failed binds. A commit that changes only hot
// attributes changes no timestamp of the entry and is not reported to consumers of changes. It
// conflicts with a deletion of the entry and, if the directory has reference attributes, with a
// rename of the entry. A commit that makes a claim conflicts with more commits: see Claim in package write.
package usage

import (
	"context"

	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/internal/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/internal/state"
	"github.com/seed-4dac0d86/ldapd/partition/internal/write"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// A Tx changes hot attributes.
type Tx struct {
	partition.Snapshot
	write.Hot
}

// Update runs fn in a transaction that changes only hot attributes. It may run fn more
// than once. The changes are durable and visible when Update returns.
func Update(ctx context.Context, p *partition.Partition, fn func(*Tx) error) (table.Revision, error) {
	return write.UpdateHot(ctx, p.Keeper(), func(s *state.Snapshot, h write.Hot) error {
		return fn(&Tx{Snapshot: *partition.Show(s), Hot: h})
	})
}

// Close does nothing: a transaction ends when its function returns.
func (tx *Tx) Close() {}

// SameClass reports whether the set of entries with a watched class is the same as in the
// state whose ordinal is since.
func SameClass(s *partition.Snapshot, c *schema.ObjectClass, since uint64) bool {
	return s.Unchanged(catalog.ClassID(c), since)
}
