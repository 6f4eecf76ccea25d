package erase

import (
	"context"
	"fmt"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/partition/write"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/txn"
)

// An erasure removes data from the past and from the journal as if the data had never
// existed. The law may require this. All other data of the past stays readable. A notice
// of the erasure also stays readable. It records who erased and when, but not what was
// erased (docs/decisions/0020-erase.md).
//
// An erasure searches for the target in all versions of all entries, including the
// versions that no state shows. If the present state contains the target, the erasure
// changes nothing. Otherwise it commits the notice. Then it removes the target from the
// indexes, the names, the journal, the settings and the entries, in this order, and
// finally removes the name itself. All other parts are found through the entries, and the
// entries are found through the name. So each part can still be found until it is
// removed. An interrupted erasure can be repeated.

// EraseOptions specify the data to erase.
type Options struct {
	// Name is the name of an entry. If the entry no longer exists, all data of the entry is
	// removed. Only the fact that the entry existed remains. If the entry has another name
	// now, the erasure removes the old name. The erasure also removes values that name the
	// entry or an entry below it.
	Name dn.DN
	// Value is used if Name is empty. Value is erased from the attributes of the type
	// Attribute and its subtypes, or of all types if Attribute is empty. The erasure removes
	// values that equal Value. It also removes names that contain Value, both the names of
	// entries and names in values.
	Attribute string
	Value     []byte
	// Dry makes Erase count the data that would be erased, and change nothing.
	Dry bool
	By  write.By
}

// Erased counts what an erasure removed, or would remove in a dry run.
type Erased struct {
	// Revision is the revision of the commit that contains the notice. It is 0 after a dry
	// run, or if there was nothing to erase.
	Revision table.Revision
	Entries  int // entries whose past changed
	Gone     int // entries that were removed completely
	Values   int // versions of values that were removed
	Names    int // other entries that lost a name
	Commits  int // commits whose records changed
}

// A StandingError reports that entries of the present state, naming contexts or
// checkpoints contain the data to be erased.
type StandingError struct {
	Names []string // names of the first of these entries, contexts or checkpoints
	Count int
}

func (e *StandingError) Error() string {
	text := fmt.Sprintf("%d values of the present state contain it: change or delete them first", e.Count)
	for _, name := range e.Names {
		text += fmt.Sprintf("\n  %s", name)
	}
	return text
}

// maxStanding is the largest number of entries, naming contexts and checkpoints that a
// StandingError names.
const maxStanding = 20

// An erasure contains the data of one call of Erase.
type erasure struct {
	p      *catalog.Partition
	r      *txn.Redaction
	now    *state.Snapshot // the newest state: the erasure changes only the states before it
	target *target
	dry    bool
	done   Erased

	findings []*finding
	// rows contains the keys of the tree's rows that belong to the erased name, and for
	// each key the entries that had the row. The erasure finds the entries by these rows,
	// so it removes the rows last.
	rows map[string][]entry.ID
	// gone contains the entries to be removed completely.
	gone map[entry.ID]bool
	// keys contains the keys, by type, of the values to be removed from indexes.
	keys keySet
	// renamed contains the rows of the tree that the erasure wrote under new names. A
	// later collection must examine these rows.
	renamed [][]byte
}

// Erase removes data from the past. The store's files may still contain the data until
// txn.DB.Purge rewrites them.
func Erase(ctx context.Context, p *catalog.Partition, o Options) (*Erased, error) {
	p.Changing.RLock()
	defer p.Changing.RUnlock()
	var done *Erased
	err := p.DB.Redact(ctx, func(r *txn.Redaction) error {
		c, err := p.Latest()
		if err != nil {
			return err
		}
		t, err := newTarget(c, &o)
		if err != nil {
			return err
		}
		if t.inName(o.By.Name) || t.inName(o.By.Bound) {
			return catalog.Errorf(catalog.Unwilling, "the value is part of the name of the user who erases it, and this name is recorded: another user must erase it")
		}
		e := &erasure{p: p, r: r, target: t, dry: o.Dry, gone: map[entry.ID]bool{}, keys: keySet{}, rows: map[string][]entry.ID{},
			now: &state.Snapshot{Partition: p, Reader: r.At, At: r.At, Catalog: c}}
		done = &e.done
		return e.run(ctx, o.By)
	})
	if err != nil {
		return nil, err
	}
	return done, nil
}

func (e *erasure) run(ctx context.Context, by write.By) error {
	if err := e.find(ctx); err != nil {
		return err
	}
	if err := e.checkStanding(ctx); err != nil {
		return err
	}
	told, err := e.journal(ctx, true)
	if err != nil {
		return err
	}
	settings, err := e.settings(ctx)
	if err != nil {
		return err
	}
	e.done.Entries, e.done.Commits = len(e.findings), told
	if e.dry || len(e.findings)+told+len(settings) == 0 {
		return e.indexes(ctx) // the indexes may still contain the target although no entry does
	}
	if e.done.Revision, err = e.notice(ctx, by); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{
		e.indexes, e.names,
		func(ctx context.Context) error { _, err := e.journal(ctx, false); return err },
		func(ctx context.Context) error { return e.redact(ctx, e.p.SettingsTable, settings) },
		e.nameRows, e.entries, e.lastNames,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Erasure is the kind of the operation that records an erasure. Its commit touches the
// entries that lost data from their past.
const Erasure = "erase"

// notice commits the notice of the erasure. The commit touches the entries that lose data. The
// commit makes all servers drop their caches, so no server later reads a state that could
// bring erased data back into a cache.
func (e *erasure) notice(ctx context.Context, by write.By) (table.Revision, error) {
	return write.UpdateLocked(ctx, e.p, by, func(tx *write.Tx) error {
		for _, f := range e.findings {
			tx.Txn.Touch(f.id)
		}
		tx.Record(Erasure, nil)
		h := *tx.Catalog.Header
		h.Erasures++
		return tx.Configure(&h)
	})
}

// nameRows makes a commit that lists the rows in renamed, so that a collection examines
// these rows when the commit is old enough.
func (e *erasure) nameRows(ctx context.Context) error {
	if len(e.renamed) == 0 {
		return nil
	}
	_, err := write.UpdateLocked(ctx, e.p, write.By{}, func(tx *write.Tx) error {
		for _, row := range e.renamed {
			tx.Write(e.p.Tree, table.Mutation{Row: row, Cells: []table.Cell{movedHere}})
		}
		return nil
	})
	return err
}

// redact applies redactions to the past of a table. In a dry run it does nothing.
func (e *erasure) redact(ctx context.Context, t table.Table, rs []table.Redaction) error {
	if e.dry || len(rs) == 0 {
		return nil
	}
	x, err := e.r.Table(t)
	if err != nil {
		return err
	}
	return x.Redact(ctx, e.r.At.Max(), rs)
}

// history calls f with the past of each row in a range of a table.
func (e *erasure) history(ctx context.Context, t table.Table, r table.Range, f func(*table.Past) error) error {
	x, err := e.r.Table(t)
	if err != nil {
		return err
	}
	for p, err := range x.History(ctx, r) {
		if err == nil {
			err = f(&p)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// oneRow returns the range that contains one row.
func oneRow(key []byte) table.Range {
	end := append([]byte(nil), key...)
	return table.Range{Start: key, End: append(end, 0)}
}
