// Package usage changes hot attributes: secret ones that record how an entry is used,
// such as the time of a failed bind. Such a commit changes no timestamp of the entry
// and is not reported to followers. It commutes with all changes except the entry's
// deletion.
package usage

import (
	"context"

	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/internal/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/internal/write"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/table"
)

// A Tx changes hot attributes.
type Tx struct {
	partition.Snapshot
	tx *write.Tx
}

// Update runs fn in a transaction that changes only hot attributes, perhaps more than
// once. Its changes are durable and visible when Update returns.
func Update(ctx context.Context, p *partition.Partition, fn func(*Tx) error) (table.Revision, error) {
	return write.UpdateHot(ctx, p.Keeper(), func(tx *write.Tx) error {
		s, err := partition.NewSnapshot(&tx.Snapshot, nil)
		if err != nil {
			return err
		}
		return fn(&Tx{Snapshot: *s, tx: tx})
	})
}

// Close does nothing: a transaction ends when its function returns.
func (tx *Tx) Close() {}

// Begin declares that hot attributes of an entry will change. The error is NoSuchEntry
// if there is no such entry.
func (tx *Tx) Begin(ctx context.Context, id entry.ID) error { return tx.tx.BeginHot(ctx, id) }

// Put writes a value of a hot attribute. For a single-valued type it replaces the old
// one.
func (tx *Tx) Put(id entry.ID, t *schema.AttributeType, value []byte) { tx.tx.PutHot(id, t, value) }

// Stamp writes the time of the commit as a value of a hot attribute; no other commit
// writes the same value. The returned value is complete when Update returns.
func (tx *Tx) Stamp(id entry.ID, t *schema.AttributeType) []byte { return tx.tx.StampHot(id, t) }

// Drop deletes the values of hot attributes of some types for which drop returns true.
func (tx *Tx) Drop(ctx context.Context, id entry.ID, types []*schema.AttributeType, drop func(t *schema.AttributeType, value []byte) bool) error {
	return tx.tx.DropHot(ctx, id, types, drop)
}

// Claim keeps transactions that run at the same time from committing the same claim on
// an entry.
func (tx *Tx) Claim(id entry.ID, claim uint64) { tx.tx.ClaimHot(id, claim) }

// SameClass reports whether the entries of a watched class are the same as in the state
// with the ordinal since.
func SameClass(s *partition.Snapshot, c *schema.ObjectClass, since uint64) bool {
	return s.Unchanged(catalog.ClassID(c), since)
}
