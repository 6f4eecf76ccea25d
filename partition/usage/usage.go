// Package usage changes hot attributes. A hot attribute is a secret attribute that records how
// an entry is used, such as the times of failed binds. A commit that changes only hot
// attributes changes no timestamp of the entry and is not reported to consumers of changes. It
// conflicts with a deletion of the entry and, if the directory has reference attributes, with a
// rename of the entry. A commit that makes a claim conflicts with more commits: see [Tx.Claim].
package usage

import (
	"context"

	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/internal/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/internal/write"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// A Tx changes hot attributes.
type Tx struct {
	partition.Snapshot
	tx *write.Tx
}

// Update runs fn in a transaction that changes only hot attributes. It may run fn more
// than once. The changes are durable and visible when Update returns.
func Update(ctx context.Context, p *partition.Partition, fn func(*Tx) error) (table.Revision, error) {
	return write.UpdateHot(ctx, p.Keeper(), func(tx *write.Tx) error {
		return fn(&Tx{Snapshot: *partition.Show(&tx.Snapshot), tx: tx})
	})
}

// Close does nothing: a transaction ends when its function returns.
func (tx *Tx) Close() {}

// Begin declares that the transaction will change hot attributes of an entry. It returns
// an error with the problem NoSuchEntry if the entry does not exist.
func (tx *Tx) Begin(ctx context.Context, id entry.ID) error { return tx.tx.BeginHot(ctx, id) }

// Put writes a value of a hot attribute. If the type is single-valued, the new value
// replaces the old value.
func (tx *Tx) Put(id entry.ID, t *schema.AttributeType, value []byte) { tx.tx.PutHot(id, t, value) }

// Stamp writes the time of the commit as a value of a hot attribute. The values that two
// commits write differ (see AppendTime in package revision). The commit overwrites the
// returned value, so the caller must not use it before Update has returned.
func (tx *Tx) Stamp(id entry.ID, t *schema.AttributeType) []byte { return tx.tx.StampHot(id, t) }

// Drop calls the function drop with every value of the hot attributes in types, and deletes the
// values for which it returns true.
func (tx *Tx) Drop(ctx context.Context, id entry.ID, types []*schema.AttributeType, drop func(t *schema.AttributeType, value []byte) bool) error {
	return tx.tx.DropHot(ctx, id, types, drop)
}

// Claim makes a claim on an entry. If concurrent transactions make the same claim, only one of
// them can commit. A claim also conflicts with a rename of the entry, and with a modification
// that conflicts with all other modifications of the entry. The caller chooses the number that
// identifies the claim.
func (tx *Tx) Claim(id entry.ID, claim uint64) { tx.tx.ClaimHot(id, claim) }

// SameClass reports whether the set of entries with a watched class is the same as in the
// state whose ordinal is since.
func SameClass(s *partition.Snapshot, c *schema.ObjectClass, since uint64) bool {
	return s.Unchanged(catalog.ClassID(c), since)
}
