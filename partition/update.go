package partition

import (
	"bytes"
	"context"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/master"
	"github.com/seed-4dac0d86/ldapd/revision"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/table"
	"github.com/seed-4dac0d86/ldapd/tree"
	"github.com/seed-4dac0d86/ldapd/txn"
)

// Tx changes the directory. What it reads (it has all of Snapshot's methods)
// includes its own changes.
type Tx struct {
	Snapshot
	// Rules are set before a change that they are for.
	Rules   Rules
	tx      *txn.Tx
	by      string
	time    time.Time
	ordinal int // of the last position
	message []byte
	alone   bool         // nobody else writes
	claims  []claim      // of the operation
	steps   *schemaSteps // of a change of the schema
	changed []entry.ID   // if a schema is to come
}

// Update runs fn in a transaction, perhaps more than once, and returns when
// what it changed is durable and visible.
func (p *Partition) Update(ctx context.Context, by By, fn func(*Tx) error) (table.Revision, error) {
	p.changing.RLock()
	defer p.changing.RUnlock()
	return p.update(ctx, by, fn)
}

func (p *Partition) update(ctx context.Context, by By, fn func(*Tx) error) (table.Revision, error) {
	if by.Time.IsZero() {
		by.Time = time.Now()
	}
	return p.db.Update(ctx, func(t *txn.Tx) error {
		c, err := p.catalogOf(t.Snapshot())
		if err != nil {
			return fmt.Errorf("the schema in force: %w", err)
		}
		tx := &Tx{
			Snapshot: Snapshot{p: p, r: t, at: t.Snapshot(), catalog: c, cached: true},
			tx:       t, by: by.Name, time: by.Time.UTC(),
		}
		tx.message = by.append(tx.message)
		err = fn(tx)
		if err == nil && c.toCome != nil && tx.steps == nil {
			err = tx.keepToBoth(ctx, c)
		}
		t.SetMessage(tx.message)
		return err
	})
}

// Close does nothing: a transaction ends when its function returns.
func (tx *Tx) Close() {}

// write adds mutations; from here on the transaction reads past the caches,
// which do not know of them.
func (tx *Tx) write(t *txn.Table, ms ...table.Mutation) {
	tx.cached = false
	tx.tx.Write(t, ms...)
}

// Isolate keeps all others from changing an entry beside this transaction. Without
// it values that others add at the same time do not conflict, although what was
// read of the entry lacks them.
func (tx *Tx) Isolate(id entry.ID) {
	tx.tx.Mark(tx.p.master, master.Row(id), txn.Mark{Kind: txn.MarkUpdate})
}

func (tx *Tx) stale(value uint64) { tx.tx.TouchKeys(value) }

// position makes the next value's position.
func (tx *Tx) position() master.Position {
	tx.ordinal++
	return master.NewPosition(tx.tx.Stamp(), tx.ordinal)
}

func timestamp(t time.Time) []byte { return t.AppendFormat(nil, "20060102150405Z") }

// csn gives a revision as entryCSN has it.
func csn(r table.Revision) []byte { return revision.AppendCSN(make([]byte, 0, revision.CSNLength), r) }

// finalCSN makes the revision of the commit, once it is known, out of an
// entryCSN and its key that were made of a stamp. A stamp would not do: commits
// that change one entry side by side may be in another order than their stamps.
func (tx *Tx) finalCSN(value, key []byte) {
	tx.tx.AtCommit(func(r table.Revision) {
		copy(value, csn(r))
		copy(key, bytes.ToLower(value))
	})
}

// SettleCSN has each entryCSN that the transaction has made, where b shows it as it
// is before the commit, become what it is in the end.
func (tx *Tx) SettleCSN(b []byte) {
	early := csn(tx.tx.Stamp())
	tx.tx.AtCommit(func(r table.Revision) {
		final := csn(r)
		for rest := b; ; {
			i := bytes.Index(rest, early)
			if i < 0 {
				return
			}
			rest = rest[i+copy(rest[i:], final):]
		}
	})
}

// stamps are the operational attributes that every change sets.
func (tx *Tx) stamps() []stamp {
	t := tx.catalog.types
	by := tx.by
	return []stamp{
		{t.modifiersName, []byte(by)},
		{t.modifyTimestamp, timestamp(tx.time)},
		{t.entryCSN, csn(tx.tx.Stamp())},
	}
}

type stamp struct {
	typ   *schema.AttributeType
	value []byte
}

// valueHash tells the values of an entry apart in marks, by their columns. The
// same value under two descriptions of a type is one: they share an index cell.
func valueHash(qualifier []byte) uint64 {
	c := tree.Decode(&table.Cell{Qualifier: qualifier})
	h := fnv.New64a()
	h.Write(c.OID)
	h.Write([]byte{c.Kind})
	h.Write(c.Key)
	return h.Sum64()
}

// touch tells caches that an entry changes; and, of a class that searches ask
// about, that the first or last entry of it may come or go.
func (tx *Tx) touch(id entry.ID, cs *classes) {
	tx.tx.Touch(id)
	if tx.catalog.toCome != nil {
		tx.changed = append(tx.changed, id)
	}
	for c, id := range tx.catalog.watched {
		if cs != nil && cs.has(c) {
			tx.tx.Touch(id)
		}
	}
}

// classID stands for a class in what commits touch.
func classID(c *schema.ObjectClass) entry.ID {
	h := fnv.New128a()
	h.Write([]byte("class " + c.OID))
	return entry.ID(h.Sum(nil))
}
