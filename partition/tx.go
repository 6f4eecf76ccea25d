package partition

import (
	"context"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition/internal/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/internal/onlineschema"
	"github.com/seed-4dac0d86/ldapd/partition/internal/write"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// A Tx changes the directory. It has all methods of Snapshot, which also show the changes of
// the Tx.
type Tx struct {
	Snapshot
	// Rules apply to the changes that follow. A caller sets Rules before it makes a change.
	Rules Rules
	tx    *write.Tx
}

// Update runs fn in a transaction, perhaps more than once. It returns when the changes of
// fn are durable and visible.
func (p *Partition) Update(ctx context.Context, by By, fn func(*Tx) error) (table.Revision, error) {
	return write.Update(ctx, p.k, by, run(fn))
}

// UpdateSchema is Update for a transaction that changes the schema, and perhaps entries.
// On a store that several servers write, a change of the schema that existing entries
// could violate takes two commits.
func (p *Partition) UpdateSchema(ctx context.Context, by By, fn func(*Tx) error) (table.Revision, error) {
	return onlineschema.UpdateSchema(ctx, p.k, by, run(fn))
}

// UpdateSettings is Update for a transaction that changes access rules or the default
// password policy, and perhaps entries. It returns when every server applies the new
// settings.
func (p *Partition) UpdateSettings(ctx context.Context, by By, fn func(*Tx) error) (table.Revision, error) {
	return onlineschema.UpdateSettings(ctx, p.k, by, run(fn))
}

func run(fn func(*Tx) error) func(*write.Tx) error {
	return func(tx *write.Tx) error {
		return fn(NewTx(tx))
	}
}

// NewTx returns the Tx of a write transaction. Only the packages beside this one call it.
func NewTx(tx *write.Tx) *Tx { return &Tx{Snapshot: Snapshot{&tx.Snapshot}, tx: tx} }

// ruled returns the write transaction after setting its rules for the next change.
func (tx *Tx) ruled() *write.Tx {
	tx.tx.Rules = tx.Rules
	return tx.tx
}

// Close does nothing: a transaction ends when its function returns.
func (tx *Tx) Close() {}

// Add adds an entry (RFC 4511, section 4.7) and returns its id. If keep is set, the entry
// keeps the given entryUUID and operational attributes. An import sets keep.
func (tx *Tx) Add(ctx context.Context, name dn.DN, attributes []op.PartialAttribute, keep bool) (entry.ID, error) {
	return tx.ruled().Add(ctx, name, attributes, keep)
}

// Import adds an entry and keeps the given entryUUID and operational attributes. If an equal
// entry exists, Import returns true and changes nothing. If the entry of this name is one that a
// new directory began with, and neither it nor an entry below it was changed, Import replaces it.
func (tx *Tx) Import(ctx context.Context, name dn.DN, attributes []op.PartialAttribute) (there bool, err error) {
	return tx.ruled().Import(ctx, name, attributes)
}

// Modify changes an entry (RFC 4511, section 4.6). It applies all changes in order, or none,
// and checks the schema after the last change. If name is the name of the subschema, Modify
// changes the schema. Only a function that runs in UpdateSchema may make such a change.
func (tx *Tx) Modify(ctx context.Context, name dn.DN, changes []op.Modification) error {
	if catalog.IsSubschema(name) {
		return onlineschema.ModifySubschema(ctx, tx.ruled(), changes)
	}
	return tx.ruled().Modify(ctx, name, changes)
}

// Delete deletes an entry that has no entries below it (RFC 4511, section 4.8).
func (tx *Tx) Delete(ctx context.Context, name dn.DN) error { return tx.ruled().Delete(ctx, name) }

// DeleteTree deletes an entry and the entries below it, but at most limit entries in all.
// It returns the number of deleted entries, and whether the whole tree was deleted.
func (tx *Tx) DeleteTree(ctx context.Context, name dn.DN, limit int) (n int, whole bool, err error) {
	return tx.ruled().DeleteTree(ctx, name, limit)
}

// Rename changes an entry's name (RFC 4511, section 4.9). If newParent is not nil, Rename
// moves the entry and all entries below it to the new parent.
func (tx *Tx) Rename(ctx context.Context, name dn.DN, newRDN dn.RDN, deleteOld bool, newParent *dn.DN) error {
	return tx.ruled().Rename(ctx, name, newRDN, deleteOld, newParent)
}

// ChangeSchema adds definitions to the schema and removes definitions from it. Only a function
// that runs in UpdateSchema may call it.
func (tx *Tx) ChangeSchema(ctx context.Context, add, remove []schema.Definition) error {
	return onlineschema.ChangeSchema(ctx, tx.ruled(), add, remove)
}

// Writer returns the write transaction. Only the packages beside this one call it.
func (tx *Tx) Writer() *write.Tx { return tx.tx }

// Isolate keeps concurrent transactions from changing an entry. Without Isolate, a value
// that a concurrent transaction adds to the entry causes no conflict, although this
// transaction did not see the value.
func (tx *Tx) Isolate(id entry.ID) { tx.tx.Isolate(id) }

// ReplaceCSN corrects the entryCSNs in b when the transaction commits. b may contain entries
// that this transaction changed and read again. These entries have a preliminary entryCSN in
// b. The commit overwrites each of these with the final entryCSN.
func (tx *Tx) ReplaceCSN(b []byte) { tx.tx.ReplaceCSN(b) }
