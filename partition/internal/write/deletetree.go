package write

import (
	"context"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/index"
	"github.com/seed-4dac0d86/ldapd/partition/internal/search"
	"github.com/seed-4dac0d86/ldapd/partition/internal/state"
	"github.com/seed-4dac0d86/ldapd/table"
	"github.com/seed-4dac0d86/ldapd/tree"
)

// DeleteTree removes an entry with all that is below it, but no more than most
// entries: those below go before those above, so that what is left is a tree at
// any time. It returns how many went; whole says that the entry itself is among
// them. Of each entry it reads the row of the tree, and there the columns that
// are indexed.
func (tx *Tx) DeleteTree(ctx context.Context, name dn.DN, most int) (n int, whole bool, err error) {
	pl, err := tx.existing(ctx, name)
	if err != nil {
		return 0, false, err
	}
	f := treeDeletion{tx: tx, sel: selectDoomed(tx.Catalog), most: most}
	if whole, err = f.entry(ctx, pl); err != nil {
		return 0, false, err
	}
	// What goes is gathered before anything is written: a scan that has to
	// look at many own writes is slow.
	for i := range f.victims {
		if err := tx.remove(ctx, f.victims[i].id, f.victims[i].row); err != nil {
			return 0, false, err
		}
	}
	tx.Txn.SetUrgent()
	tx.Record("deletetree", name)
	return len(f.victims), whole, nil
}

// treeDeletion gathers the entries of a tree in the order in which they can go.
type treeDeletion struct {
	tx *Tx

	sel     table.Select
	most    int
	victims []victim
}

type victim struct {
	id  entry.ID
	row table.Row // of the tree
}

// entry gathers a whole tree; false: there is more of it than may go.
func (f *treeDeletion) entry(ctx context.Context, pl state.Place) (bool, error) {
	if all, err := f.below(ctx, pl.ID); err != nil || !all || len(f.victims) == f.most {
		return false, err
	}
	row, err := f.tx.Reader.Get(ctx, f.tx.Keeper.Tree, tree.Key(pl.Parent, pl.RDN), f.sel)
	f.victims = append(f.victims, victim{pl.ID, row.Clone()})
	return true, err
}

// below gathers what is below an entry.
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

// page reads some children; their own are read when no scan is open.
func (f *treeDeletion) page(ctx context.Context, rows table.Range) (page []victim, err error) {
	sel := f.sel
	sel.MaxRows = search.ChildrenPage
	for row, err := range f.tx.Reader.Scan(ctx, f.tx.Keeper.Tree, rows, sel) {
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
