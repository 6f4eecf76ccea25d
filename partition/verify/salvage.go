package verify

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/master"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/search"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/tree"
)

// Salvage streams all readable entries of a damaged store, each entry before the entries below
// it. It calls the function lost for everything that it cannot read. The first argument of that
// call describes a range of rows, or is as much of an entry's name as is known. If an entry is
// lost but its name is known, the entries below the lost entry keep their names. If the name is
// lost too, the entries below the lost entry come last. In their names, the entryUUID of the
// lost entry takes the place of the lost name. Salvage omits entries that are below themselves,
// and the entries below those. It keeps the names of all entries in memory.
func Salvage(ctx context.Context, s *state.Snapshot, lost func(what string, err error) error) iter.Seq2[*search.Result, error] {
	return func(yield func(*search.Result, error) bool) {
		w := &salvage{s: s, lost: lost, yield: yield, below: map[entry.ID][]*wreck{}, known: map[entry.ID]bool{catalog.Root: true}}
		if err := w.run(ctx); err != nil && !errors.Is(err, errStop) {
			yield(nil, err)
		}
	}
}

// errStop ends a salvage whose caller stops the iteration.
var errStop = errors.New("stop")

type salvage struct {
	s *state.Snapshot

	lost  func(string, error) error
	yield func(*search.Result, error) bool
	below map[entry.ID][]*wreck // children of an entry, in the order of their ids
	known map[entry.ID]bool     // entries whose names can be read
}

// A wreck is an entry whose name can be read, in master or in the tree. Its attributes may
// be lost.
type wreck struct {
	id, parent entry.ID
	rdn        string
}

func (w *salvage) run(ctx context.Context) error {
	if err := w.names(ctx); err != nil {
		return err
	}
	if err := w.nameless(ctx); err != nil {
		return err
	}
	if err := w.children(ctx, catalog.Root, ""); err != nil {
		return err
	}
	for _, parent := range w.orphaned() {
		name := "entryUUID=" + parent.String()
		if err := w.lost(name, fmt.Errorf("it has %d entries below it, which stand below that name", len(w.below[parent]))); err != nil {
			return err
		}
		if err := w.children(ctx, parent, name); err != nil {
			return err
		}
	}
	return nil
}

// scan reads a table and skips the rows that cannot be read.
func (w *salvage) scan(ctx context.Context, t table.Table, s table.Select) iter.Seq2[table.Row, error] {
	return scanPast(ctx, w.s.Reader, t, s, func(r table.Range, err error) error {
		return w.lost(gapText(t.Name(), r), err)
	})
}

func scanPast(ctx context.Context, from table.Reader, t table.Table, sel table.Select, lost func(table.Range, error) error) iter.Seq2[table.Row, error] {
	return table.ScanPast(func(r table.Range, sel table.Select) iter.Seq2[table.Row, error] {
		return from.Scan(ctx, t, r, sel)
	}, table.Range{}, sel, lost)
}

func gapText(tbl string, r table.Range) string {
	return fmt.Sprintf("rows of table %s from %x up to %x", tbl, r.Start, r.End)
}

// The method "names" reads the names of all entries.
func (w *salvage) names(ctx context.Context) error {
	for row, err := range w.scan(ctx, w.s.Partition.Master, table.Select{Families: []table.Family{master.TreeInfo}}) {
		if err != nil {
			return err
		}
		node, whole := master.DecodeNode(row)
		if !whole || len(row.Key) != len(entry.ID{}) {
			continue
		}
		id := entry.ID(row.Key)
		w.known[id] = true
		w.below[node.Parent] = append(w.below[node.Parent], &wreck{id, node.Parent, node.UpRDN})
	}
	return nil
}

// nameless finds the entries that have lost everything except their row in the tree. If the
// row's key contains enough of the entry's name, the entry keeps its place in the tree, so
// that the entries below the entry keep their names.
func (w *salvage) nameless(ctx context.Context) error {
	for row, err := range w.scan(ctx, w.s.Partition.Tree, table.Select{Families: []table.Family{tree.TreeInfo}}) {
		if err != nil {
			return err
		}
		id, ok := tree.ID(row)
		if !ok || w.known[id] {
			continue
		}
		parent := tree.Parent(row.Key)
		norm := row.Key[len(parent):]
		if name, ok := nameInTree(w.s.Schema(), parent, norm); ok {
			w.known[id] = true
			w.below[parent] = append(w.below[parent], &wreck{id, parent, name})
			continue
		}
		what := fmt.Sprintf("entry %s, %q below %s", id, norm, parent)
		if err := w.lost(what, table.ErrCorrupt); err != nil {
			return err
		}
	}
	return nil
}

// orphaned returns the ids of the parents that are lost.
func (w *salvage) orphaned() (ids []entry.ID) {
	for id := range w.below {
		if !w.known[id] {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b entry.ID) int { return slices.Compare(a[:], b[:]) })
	return ids
}

// children yields all entries below an entry. It omits entries that are below themselves,
// because no path from the root leads to them.
func (w *salvage) children(ctx context.Context, parent entry.ID, above string) error {
	for _, x := range w.below[parent] {
		name := x.rdn
		if above != "" {
			name += "," + above
		}
		if err := w.entry(ctx, x.id, name); err != nil {
			return err
		}
		if err := w.children(ctx, x.id, name); err != nil {
			return err
		}
	}
	return nil
}

func (w *salvage) entry(ctx context.Context, id entry.ID, name string) error {
	e, err := w.s.Entry(ctx, id, true)
	switch {
	case errors.Is(err, table.ErrCorrupt):
		return w.lost(name, err)
	case err != nil:
		return err
	case e == nil:
		return w.lost(name, table.ErrCorrupt)
	case !w.yield(&search.Result{Located: state.Located{ID: id, Name: dn.NewName(name)}, Entry: e}, nil):
		return errStop
	}
	return nil
}
