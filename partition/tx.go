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

// Tx changes the directory. What it reads, by all methods of Snapshot, includes its own
// changes.
type Tx struct {
	Snapshot
	// Rules are set before a change that they are for.
	Rules Rules
	tx    *write.Tx
}

// Update runs fn in a transaction, perhaps more than once, and returns when what it
// changed is durable and visible.
func (p *Partition) Update(ctx context.Context, by By, fn func(*Tx) error) (table.Revision, error) {
	return write.Update(ctx, p.k, by, run(fn))
}

// UpdateSchema is Update for changes of the schema, alone or with others. On a store
// that several servers write, one that entries could violate goes in two commits.
func (p *Partition) UpdateSchema(ctx context.Context, by By, fn func(*Tx) error) (table.Revision, error) {
	return evolve.UpdateSchema(ctx, p.k, by, run(fn))
}

// UpdateAccess is Update for changes of access rules, alone or with others. It returns
// when every server goes by them.
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

// Add adds an entry (RFC 4511, section 4.7) and returns its id. With keep, entryUUID
// and the operational attributes that are given are kept, as an import needs it.
func (tx *Tx) Add(ctx context.Context, name dn.DN, attributes []op.PartialAttribute, keep bool) (entry.ID, error) {
	return tx.ruled().Add(ctx, name, attributes, keep)
}

// Modify changes an entry (RFC 4511, section 4.6): in order, all or nothing, the schema
// checked at the end. It reads of the entry only what it changes. Of the subschema it
// changes the schema, in an UpdateSchema.
func (tx *Tx) Modify(ctx context.Context, name dn.DN, changes []op.Modification) error {
	if catalog.IsSubschema(name) {
		return evolve.ModifySubschema(ctx, tx.ruled(), changes)
	}
	return tx.ruled().Modify(ctx, name, changes)
}

// Delete deletes an entry that has none below it (RFC 4511, section 4.8).
func (tx *Tx) Delete(ctx context.Context, name dn.DN) error { return tx.ruled().Delete(ctx, name) }

// DeleteTree deletes an entry and those below it, at most so many. It returns how many
// it deleted, and whether those were all.
func (tx *Tx) DeleteTree(ctx context.Context, name dn.DN, most int) (n int, whole bool, err error) {
	return tx.ruled().DeleteTree(ctx, name, most)
}

// Rename changes an entry's name (RFC 4511, section 4.9), and moves it with all below it
// if newParent is not nil.
func (tx *Tx) Rename(ctx context.Context, name dn.DN, newRDN dn.RDN, deleteOld bool, newParent *dn.DN) error {
	return tx.ruled().Rename(ctx, name, newRDN, deleteOld, newParent)
}

// ChangeSchema adds definitions to the schema and removes some, in an UpdateSchema.
func (tx *Tx) ChangeSchema(ctx context.Context, add, remove []schema.Definition) error {
	return evolve.ChangeSchema(ctx, tx.ruled(), add, remove)
}

// SetAccess puts other access rules into force, in an UpdateAccess.
func (tx *Tx) SetAccess(rules []AccessRule) error { return tx.tx.SetAccess(rules) }

// Isolate keeps all others from changing an entry beside this transaction. Without it,
// values that others add at the same time do not conflict, although what was read of
// the entry lacks them.
func (tx *Tx) Isolate(id entry.ID) { tx.tx.Isolate(id) }

// ReplaceCSN replaces in b, at the commit, each entryCSN that the transaction has made by
// what it finally is: b shows it as it is before the commit.
func (tx *Tx) ReplaceCSN(b []byte) { tx.tx.ReplaceCSN(b) }
