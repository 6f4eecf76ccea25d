package write

import (
	"context"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/index"
	"github.com/seed-4dac0d86/ldapd/partition/search"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/tree"
)

// DeleteTree deletes an entry and the entries below it, but at most limit entries in all. It
// deletes an entry only after the entries below that entry, so the remaining entries always
// form a tree. It returns the number of deleted entries. The result whole is true if the entry
// itself was deleted. If the directory has no reference attributes, DeleteTree reads only one
// row of most entries: the row in the tree, with the columns of indexed types.
func (tx *Tx) DeleteTree(ctx context.Context, name dn.DN, limit int) (n int, whole bool, err error) {
	pl, err := tx.existing(ctx, name)
	if err != nil {
		return 0, false, err
	}
	f := treeDeletion{tx: tx, sel: selectDoomed(tx.Catalog), most: limit}
	if whole, err = f.entry(ctx, pl); err != nil {
		return 0, false, err
	}
	if err := f.forgetAll(ctx, pl.Norms); err != nil {
		return 0, false, err
	}
	ids := make([]entry.ID, len(f.victims))
	for i := range f.victims {
		ids[i] = f.victims[i].id
	}
	if err := tx.seal(ctx, ids...); err != nil {
		return 0, false, err
	}
	// All victims are collected before anything is written, because a scan over many
	// uncommitted writes is slow.
	for i := range f.victims {
		if err := tx.remove(ctx, f.victims[i].id, f.victims[i].row); err != nil {
			return 0, false, err
		}
	}
	tx.Txn.SetUrgent()
	tx.Record("deletetree", name)
	return len(f.victims), whole, nil
}

// forgetAll removes the values that name the entries to be deleted.
func (f *treeDeletion) forgetAll(ctx context.Context, base []dn.Norm) error {
	if !f.tx.references.exist() {
		return nil
	}
	goes, names := map[entry.ID]bool{}, map[string]bool{}
	for i := range f.victims {
		id := f.victims[i].id
		name, err := f.tx.Name(ctx, id)
		if err != nil {
			return err
		}
		parsed, err := name.DN()
		if err != nil {
			return err
		}
		norms, err := parsed.Normalize(f.tx.Catalog.Schema)
		if err != nil {
			return err
		}
		goes[id], names[string(dn.Key(norms))] = true, true
	}
	return f.tx.references.forget(ctx, base, goes, names)
}

// A treeDeletion collects the entries of a tree in an order in which they can be deleted.
type treeDeletion struct {
	tx *Tx

	sel     table.Select
	most    int
	victims []victim
}

type victim struct {
	id  entry.ID
	row table.Row // row in the tree
}

// entry collects an entry and all entries below it. It returns false if the tree has more
// entries than may be deleted.
func (f *treeDeletion) entry(ctx context.Context, pl state.Place) (bool, error) {
	if all, err := f.below(ctx, pl.ID); err != nil || !all || len(f.victims) == f.most {
		return false, err
	}
	row, err := f.tx.Reader.Get(ctx, f.tx.Partition.Tree, tree.Key(pl.Parent, pl.RDN), f.sel)
	f.victims = append(f.victims, victim{pl.ID, row.Clone()})
	return true, err
}

// The method "below" collects the entries below an entry. It returns false if there are more
// entries than may be deleted.
func (f *treeDeletion) below(ctx context.Context, parent entry.ID) (bool, error) {
	rows := tree.Children(parent)
	for {
		page, err := f.page(ctx, rows)
		if err != nil {
			return false, err
		}
		for _, d := range page {
			if all, err := f.below(ctx, d.id); err != nil || !all || len(f.victims) == f.most {
				return false, err
			}
			f.victims = append(f.victims, d)
		}
		if len(page) < search.ChildrenPage {
			return true, nil
		}
		rows = index.Continue(rows, page[len(page)-1].row.Key)
	}
}

// page reads a page of children. The entries below these children are read only after the
// scan has ended.
func (f *treeDeletion) page(ctx context.Context, rows table.Range) (page []victim, err error) {
	sel := f.sel
	sel.MaxRows = search.ChildrenPage
	for row, err := range f.tx.Reader.Scan(ctx, f.tx.Partition.Tree, rows, sel) {
		if err != nil {
			return nil, err
		}
		id, ok := tree.ID(row)
		if !ok {
			return nil, table.ErrCorrupt
		}
		page = append(page, victim{id, row.Clone()})
	}
	return page, nil
}
