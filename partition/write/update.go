package write

import (
	"bytes"
	"context"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/master"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/revision"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/txn"
	"github.com/seed-4dac0d86/ldapd/tree"
)

// A Tx changes the directory. It has all methods of Snapshot, which also show the changes of
// the Tx.
type Tx struct {
	state.Snapshot
	claims
	references
	stamper
	// Rules apply to the changes that follow. A caller sets Rules before it makes a change.
	Rules    Rules
	Txn      *txn.Tx
	ordinal  int // number of positions that Position has returned
	Message  []byte
	Alone    bool         // no other transaction can commit
	Steps    *SchemaSteps // not nil if the transaction may change the schema in steps
	Changed  []entry.ID   // changed entries, recorded while a schema is announced
	modified []modified   // entries to be added to Partition.Recent
}

// Update runs fn in a transaction, perhaps more than once. It returns when the changes of
// fn are durable and visible.
func Update(ctx context.Context, p *catalog.Partition, by By, fn func(*Tx) error) (table.Revision, error) {
	if err := p.AwaitViews(ctx); err != nil {
		return 0, err
	}
	p.Changing.RLock()
	defer p.Changing.RUnlock()
	return UpdateLocked(ctx, p, by, fn)
}

func UpdateLocked(ctx context.Context, p *catalog.Partition, by By, fn func(*Tx) error) (table.Revision, error) {
	return update(ctx, p, by, false, fn)
}

// update is UpdateLocked. If moved is set, it also changes a directory that was copied to another store.
func update(ctx context.Context, p *catalog.Partition, by By, moved bool, fn func(*Tx) error) (table.Revision, error) {
	return p.DB.Update(ctx, func(t *txn.Tx) error {
		c, err := p.CatalogOf(t.Snapshot())
		if err != nil {
			return fmt.Errorf("the schema in force: %w", err)
		}
		if err := c.Header.Writable(); err != nil && !moved {
			return err
		}
		tx := Begin(p, t, c, by)
		tx.Cached = true
		return tx.run(ctx, fn)
	})
}

// UpdateBranch is Update for a transaction in a branch.
func UpdateBranch(ctx context.Context, p *catalog.Partition, b *txn.Branch, by By, fn func(*Tx) error) (table.Revision, error) {
	p.Changing.RLock()
	defer p.Changing.RUnlock()
	return b.Update(ctx, func(t *txn.Tx) error {
		c, err := p.Past(ctx, t.Snapshot())
		if err != nil {
			return fmt.Errorf("the schema of the branch: %w", err)
		}
		if err := c.Header.Writable(); err != nil {
			return err
		}
		// With this mark, the branch cannot be merged if the trunk changes settings that
		// entries must obey: see MarkShared.
		t.Mark(p.SettingsTable, catalog.SettingsRow, txn.Mark{Kind: txn.MarkChild})
		return Begin(p, t, c, by).run(ctx, fn)
	})
}

// Begin returns a transaction that uses no caches.
func Begin(p *catalog.Partition, t *txn.Tx, c *catalog.Catalog, by By) *Tx {
	tx := &Tx{
		Snapshot: state.Snapshot{Partition: p, Reader: t, At: t.Snapshot(), Catalog: c},
		Txn:      t, Message: by.Append(nil),
	}
	tx.claims.tx, tx.references.tx, tx.stamper = tx, tx, stamper{tx, by.Name, by.Time}
	return tx
}

func (tx *Tx) run(ctx context.Context, fn func(*Tx) error) error {
	c := tx.Catalog
	err := fn(tx)
	if err == nil && c.ToCome != nil && tx.Steps == nil {
		err = tx.Partition.KeepToBoth(ctx, tx.Txn, tx.At, c, tx.Changed)
	}
	if tx.Rules.Together = false; err == nil {
		err = tx.references.check(ctx)
	}
	tx.Txn.SetMessage(tx.Message)
	if err == nil {
		tx.publish()
	}
	return err
}

// errBranch refuses a change that would have to take effect on all servers.
var errBranch = catalog.Errorf(catalog.Unwilling, "the schema, access rules and other settings of the directory cannot be changed in a branch: change them outside of it")

// RefuseInBranch returns an error if the transaction is in a branch, where the schema and
// the settings cannot change.
func (tx *Tx) RefuseInBranch() error {
	if tx.At.InBranch() {
		return errBranch
	}
	return nil
}

// Close does nothing: a transaction ends when its function returns.
func (tx *Tx) Close() {}

// readAhead reads together what an operation on the entry with a name needs: what Guess says, and the
// reads that more returns for the guessed place. If vacant is set, the operation probably finds no entry.
func (tx *Tx) readAhead(ctx context.Context, name dn.DN, vacant bool, more func(state.Place) []txn.Read) {
	if !tx.Txn.ReadsAhead() {
		return
	}
	if pl, reads, ok := state.Guess(&tx.Snapshot, name, vacant); ok {
		tx.Txn.ReadAhead(ctx, append(reads, more(pl)...)...)
	}
}

// Write adds mutations. The caches do not contain the mutations. So after the first Write,
// caches are used only for entries that the transaction has not touched. A caller that changes
// an entry must call Touch for it before it reads the entry again.
func (tx *Tx) Write(t table.Table, ms ...table.Mutation) {
	tx.Cached, tx.Written = false, !tx.At.InBranch()
	tx.Txn.Write(t, ms...)
}

// Isolate keeps concurrent transactions from changing an entry. Without Isolate, a value
// that a concurrent transaction adds to the entry causes no conflict, although this
// transaction did not see the value.
func (tx *Tx) Isolate(id entry.ID) {
	tx.Txn.Mark(tx.Partition.Master, master.Row(id), txn.Mark{Kind: txn.MarkUpdate})
}

// InvalidatePosting makes the postings of a value stale, by its hash.
func (tx *Tx) InvalidatePosting(value uint64) { tx.Txn.TouchKeys(value) }

// Position returns the position of the next value.
func (tx *Tx) Position() master.Position {
	tx.ordinal++
	return master.NewPosition(tx.Txn.Stamp(), tx.ordinal)
}

// A stamper has the operational attributes that say who made a change and when.
type stamper struct {
	tx    *Tx
	by    string
	given time.Time // time of the change; zero: use the store's clock
}

// The method "now" returns the time of the change: By.Time if it was set, and otherwise the
// time of the store's clock. The store's time is never before a commit that the transaction has
// seen.
func (st *stamper) now() time.Time {
	if !st.given.IsZero() {
		return st.given
	}
	return st.tx.Txn.Stamp().Time()
}

// Csn returns a revision in the form of entryCSN.
func Csn(r table.Revision) []byte { return revision.AppendCSN(make([]byte, 0, revision.CSNLength), r) }

// finalCSN overwrites an entryCSN and its key when the transaction commits. Until then, value
// and key contain the transaction's stamp. When the transaction commits, the revision of the
// commit replaces the stamp. The stamp is not enough: the order of two concurrent commits that
// change one entry may differ from the order of their stamps.
func (st *stamper) finalCSN(value, key []byte) {
	st.tx.Txn.AtCommit(func(r table.Revision) {
		copy(value, Csn(r))
		copy(key, bytes.ToLower(value))
	})
}

// ReplaceCSN corrects the entryCSNs in b when the transaction commits. b may contain entries
// that this transaction changed and read again. These entries have a preliminary entryCSN in
// b. The commit overwrites each of these with the final entryCSN.
func (st *stamper) ReplaceCSN(b []byte) {
	early := Csn(st.tx.Txn.Stamp())
	st.tx.Txn.AtCommit(func(r table.Revision) {
		final := Csn(r)
		for rest := b; ; {
			i := bytes.Index(rest, early)
			if i < 0 {
				return
			}
			rest = rest[i+copy(rest[i:], final):]
		}
	})
}

// stampTypes returns the types of the operational attributes that every change sets.
func (st *stamper) stampTypes() [3]*schema.AttributeType {
	t := st.tx.Catalog.Types
	return [...]*schema.AttributeType{t.ModifiersName, t.ModifyTimestamp, t.EntryCSN}
}

// stamps returns the operational attributes that every change sets.
func (st *stamper) stamps() [3]stamp {
	t := st.stampTypes()
	return [...]stamp{
		{t[0], []byte(st.by)},
		{t[1], schema.AppendTime(nil, st.now())},
		{t[2], Csn(st.tx.Txn.Stamp())},
	}
}

// indexesStamp reports whether an operational attribute that every change sets has an index.
func (st *stamper) indexesStamp() bool {
	for _, t := range st.stampTypes() {
		if st.tx.Catalog.Indexes[t] != nil {
			return true
		}
	}
	return false
}

type stamp struct {
	typ   *schema.AttributeType
	value []byte
}

// valueHash returns the hash by which a mark identifies a value of an entry. A value has the
// same hash under all options, because an entry has one index cell for a value, whatever the
// options are.
func valueHash(qualifier []byte) uint64 {
	c := tree.Decode(&table.Cell{Qualifier: qualifier})
	h := fnv.New64a()
	h.Write(c.Type)
	h.Write([]byte{c.Kind})
	h.Write(c.Key)
	return h.Sum64()
}

// Touch notes that an entry changed. This makes cached data of the entry invalid. Touch also
// touches the watched classes that the entry has, because the entry may be the first or the
// last entry of such a class.
func (tx *Tx) Touch(id entry.ID, cs *catalog.Classes) {
	tx.Txn.Touch(id)
	if tx.Catalog.ToCome != nil {
		tx.Changed = append(tx.Changed, id)
	}
	if cs != nil {
		tx.touchClasses(cs)
	}
}

// touchClasses touches the watched classes among cs.
func (tx *Tx) touchClasses(cs *catalog.Classes) {
	for c, w := range tx.Catalog.Watched {
		if cs.Has(c) {
			tx.Txn.Touch(w.ID)
		}
	}
}

// SchemaSteps records how far one schema change has proceeded.
type SchemaSteps struct {
	Partition *catalog.Partition
	By        By
	// Wanted is the schema to announce. A run of the transaction sets it if the change must
	// be made in steps.
	Wanted *catalog.Subschema
	// Announced is the revision of the first step. It is set when every server applies
	// that step and no entry violates the new schema.
	Announced table.Revision
}
