package partition

import (
	"context"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/partition/internal/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/internal/evolve"
	"github.com/seed-4dac0d86/ldapd/partition/internal/write"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/table"
)

// A Tx changes the directory. Its reads, by all methods of Snapshot, include its own
// changes.
type Tx struct {
	Snapshot
	// Rules apply to the next change. Set them before making it.
	Rules Rules
	tx    *write.Tx
}

// Update runs fn in a transaction, perhaps more than once, and returns when its changes
// are durable and visible.
func (p *Partition) Update(ctx context.Context, by By, fn func(*Tx) error) (table.Revision, error) {
	return write.Update(ctx, p.k, by, run(fn))
}

// UpdateSchema is Update for changes of the schema, alone or with others. On a store
// that several servers write, a change that entries could violate takes two commits.
func (p *Partition) UpdateSchema(ctx context.Context, by By, fn func(*Tx) error) (table.Revision, error) {
	return evolve.UpdateSchema(ctx, p.k, by, run(fn))
}

// UpdateAccess is Update for changes of access rules, alone or with others. It returns
// when every server works by them.
func (p *Partition) UpdateAccess(ctx context.Context, by By, fn func(*Tx) error) (table.Revision, error) {
	return evolve.UpdateAccess(ctx, p.k, by, run(fn))
}

func run(fn func(*Tx) error) func(*write.Tx) error {
	return func(tx *write.Tx) error {
		return fn(&Tx{Snapshot: Snapshot{&tx.Snapshot}, tx: tx})
	}
}

// ruled returns the transaction with the rules of the next change.
func (tx *Tx) ruled() *write.Tx {
	tx.tx.Rules = tx.Rules
	return tx.tx
}

// Close does nothing: a transaction ends when its function returns.
func (tx *Tx) Close() {}

// Add adds an entry (RFC 4511, section 4.7) and returns its id. If keep is set,
// entryUUID and the given operational attributes are kept, as an import needs it.
func (tx *Tx) Add(ctx context.Context, name dn.DN, attributes []op.PartialAttribute, keep bool) (entry.ID, error) {
	return tx.ruled().Add(ctx, name, attributes, keep)
}

// Modify changes an entry (RFC 4511, section 4.6): in order, all or nothing, with the
// schema checked at the end. It reads only the parts of the entry that it changes. On
// the subschema it changes the schema, within an UpdateSchema.
func (tx *Tx) Modify(ctx context.Context, name dn.DN, changes []op.Modification) error {
	if catalog.IsSubschema(name) {
		return evolve.ModifySubschema(ctx, tx.ruled(), changes)
	}
	return tx.ruled().Modify(ctx, name, changes)
}

// Delete deletes an entry that has no entries below it (RFC 4511, section 4.8).
func (tx *Tx) Delete(ctx context.Context, name dn.DN) error { return tx.ruled().Delete(ctx, name) }

// DeleteTree deletes an entry and those below it, limited to a number of entries
// (most). It returns how many it deleted, and whether these were all.
func (tx *Tx) DeleteTree(ctx context.Context, name dn.DN, most int) (n int, whole bool, err error) {
	return tx.ruled().DeleteTree(ctx, name, most)
}

// Rename changes an entry's name (RFC 4511, section 4.9). If newParent is not nil, it
// moves the entry with all entries below it.
func (tx *Tx) Rename(ctx context.Context, name dn.DN, newRDN dn.RDN, deleteOld bool, newParent *dn.DN) error {
	return tx.ruled().Rename(ctx, name, newRDN, deleteOld, newParent)
}

// ChangeSchema adds definitions to the schema and removes some, within an UpdateSchema.
func (tx *Tx) ChangeSchema(ctx context.Context, add, remove []schema.Definition) error {
	return evolve.ChangeSchema(ctx, tx.ruled(), add, remove)
}

// SetAccess replaces the access rules, within an UpdateAccess.
func (tx *Tx) SetAccess(rules []AccessRule) error { return tx.tx.SetAccess(rules) }

// Isolate keeps transactions that run at the same time from changing an entry. Without
// it, values that others add meanwhile do not conflict, although this transaction did
// not see them.
func (tx *Tx) Isolate(id entry.ID) { tx.tx.Isolate(id) }

// ReplaceCSN updates b when the transaction commits. It replaces each entryCSN of the
// transaction that b contains, as read before the commit, with the final one.
func (tx *Tx) ReplaceCSN(b []byte) { tx.tx.ReplaceCSN(b) }
