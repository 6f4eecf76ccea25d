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

// Erasing is for those whom the law obliges: something goes from the past, and
// from the journal, as if it had never been. Everything else of the past stays
// readable, and a notice of the erasure itself, which says who did it and when, and
// not what (docs/decisions/0020-erase.md).
//
// What is to go is looked for in all versions of all entries, those that no state
// shows too. Nothing is changed if it stands in an entry of the present. Then the
// notice is committed, and after it things go in an order in which each can be
// found as long as something of it is left: indexes, names, journal, and then the
// entries, by which all else is found, and the name by which these are. Who was
// interrupted does it again.

// EraseOptions say what is to be gone.
type EraseOptions struct {
	// Name is that of an entry that is no more, of which all goes but that there
	// was an entry, or that is called otherwise by now: then its name goes. With
	// it go values that name the entry or one below it.
	Name dn.DN
	// Value, if there is no name, goes from the attributes of a type and of those
	// below it, or, if Attribute is empty, of all: the values that equal it, names
	// that have it, and values that are such names.
	Attribute string
	Value     []byte
	// Dry finds out what would go, and changes nothing.
	Dry bool
	By  write.By
}

// Erased is what an erasure did, or would do.
type Erased struct {
	// Revision is the commit of the notice; 0: there was nothing to erase, or it
	// was a dry run.
	Revision table.Revision
	Entries  int // whose past is not what it was
	Gone     int // of which all went
	Values   int // versions of values
	Names    int // entries that were called otherwise
	Commits  int // of which the journal tells less
}

// A StandingError refuses to erase what entries of the present have, or naming
// contexts or checkpoints.
type StandingError struct {
	Names []string // of the first ones
	Count int
}

func (e *StandingError) Error() string {
	text := fmt.Sprintf("it stands in the present, %d times: change or delete what has it first", e.Count)
	for _, name := range e.Names {
		text += fmt.Sprintf("\n  %s", name)
	}
	return text
}

// maxStanding is how many entries a StandingError names.
const maxStanding = 20

// An erasure is one Erase under way.
type erasure struct {
	p      *catalog.Keeper
	r      *txn.Redaction
	now    *state.Snapshot // the newest state that is changed
	target *target
	dry    bool
	done   Erased

	findings []*finding
	// rows of the tree are by their keys the name, of some entries. By them it is
	// found out who had it, so they go at last.
	rows map[string][]entry.ID
	// gone are the entries of which all goes.
	gone map[entry.ID]bool
	// keys are what indexes know as values that go, by type.
	keys keySet
	// renamed are rows of the tree that were made anew, to be looked at when they
	// have grown old.
	renamed [][]byte
}

// Erase takes something out of the past. What it leaves in the store's files is
// txn.DB.Purge's to remove.
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
		return e.indexes(ctx) // what no entry tells of any more
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

// Erasure is the kind of an operation that took something out of the past of the
// entries that its commit touches.
const Erasure = "erase"

// notice commits that something is erased, and of which entries. With it all servers
// let go of what they have in memory: nobody reads a state any more that would bring
// it there again.
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

// nameRows has a commit name the rows that others were moved to, so that they are
// looked at when it is old enough to go.
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

// redact changes the past of a table, unless it is a dry run.
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

// oneRow is the range of one row.
func oneRow(key []byte) table.Range {
	end := append([]byte(nil), key...)
	return table.Range{Start: key, End: append(end, 0)}
}
