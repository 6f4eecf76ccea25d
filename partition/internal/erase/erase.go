package erase

import (
	"context"
	"fmt"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/partition/internal/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/internal/state"
	"github.com/seed-4dac0d86/ldapd/partition/internal/write"
	"github.com/seed-4dac0d86/ldapd/table"
	"github.com/seed-4dac0d86/ldapd/txn"
)

// Erasing is for what the law requires: it removes something from the past, and from
// the journal, as if it had never been there. Everything else of the past stays
// readable. So does a notice of the erasure, which records who erased and when, but not
// what (docs/decisions/0020-erase.md).
//
// The target is searched in all versions of all entries, including those that no state
// shows. If an entry of the present has it, nothing is changed. Otherwise the notice is
// committed. After that everything is removed in an order in which each part can still
// be found until it is gone: indexes, names, journal, then the entries, which locate
// everything else, and at last the name, which locates the entries. An interrupted
// erasure is simply repeated.

// EraseOptions specify what to erase.
type EraseOptions struct {
	// Name is the name of an entry. If the entry does not exist any more, everything of
	// it is erased except that it existed. If it has another name now, the old name is
	// erased. Values that name the entry or one below it are erased too.
	Name dn.DN
	// Value is used without a Name. It is erased from the attributes of type Attribute
	// and its subtypes, or of all types if Attribute is empty: values that equal it,
	// names that contain it, and values that are such names.
	Attribute string
	Value     []byte
	// Dry counts what would be erased and changes nothing.
	Dry bool
	By  write.By
}

// Erased is what an erasure did, or would do.
type Erased struct {
	// Revision is the commit of the notice. It is 0 after a dry run, or if there was
	// nothing to erase.
	Revision table.Revision
	Entries  int // entries whose past has changed
	Gone     int // entries that were removed whole
	Values   int // versions of values removed
	Names    int // entries that lost a name
	Commits  int // commits whose records have changed
}

// A StandingError reports that entries of the present, naming contexts or checkpoints
// have what should be erased.
type StandingError struct {
	Names []string // the first ones
	Count int
}

func (e *StandingError) Error() string {
	text := fmt.Sprintf("it stands in the present, %d times: change or delete what has it first", e.Count)
	for _, name := range e.Names {
		text += fmt.Sprintf("\n  %s", name)
	}
	return text
}

// maxStanding bounds the entries that a StandingError names.
const maxStanding = 20

// An erasure is one call of Erase.
type erasure struct {
	p      *catalog.Keeper
	r      *txn.Redaction
	now    *state.Snapshot // the newest state whose past is changed
	target *target
	dry    bool
	done   Erased

	findings []*finding
	// rows maps the keys of rows of the tree with the name to the entries that had
	// them. These rows locate the entries, so they are removed last.
	rows map[string][]entry.ID
	// gone are the entries to be removed whole.
	gone map[entry.ID]bool
	// keys are the keys of values to be removed from indexes, by type.
	keys keySet
	// renamed are rows of the tree that were written anew. They must be examined by a
	// later collection.
	renamed [][]byte
}

// Erase removes something from the past. txn.DB.Purge removes what it leaves in the
// store's files.
func Erase(ctx context.Context, p *catalog.Keeper, o EraseOptions) (*Erased, error) {
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
			return catalog.Errorf(catalog.Unwilling, "the value is part of the name of the user who erases it, which stays: another user has to do it")
		}
		e := &erasure{p: p, r: r, target: t, dry: o.Dry, gone: map[entry.ID]bool{}, keys: keySet{}, rows: map[string][]entry.ID{},
			now: &state.Snapshot{Keeper: p, Reader: r.At, At: r.At, Catalog: c}}
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
	if err := e.standing(ctx); err != nil {
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
		return e.indexes(ctx) // entries of indexes that no entry has any more
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

// Erasure is the kind of an operation that erased something from the past of the
// entries that its commit touches.
const Erasure = "erase"

// notice commits that something is erased, and from which entries. It makes all servers
// drop their caches; after that nobody reads a state that would bring it back there.
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

// nameRows makes a commit that names the rows with moved entries, so that a collection
// examines them once it is old enough.
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

// redact changes the past of a table, except in a dry run.
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

// history reads the past of a table.
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

// oneRow returns the range of one row.
func oneRow(key []byte) table.Range {
	end := append([]byte(nil), key...)
	return table.Range{Start: key, End: append(end, 0)}
}
