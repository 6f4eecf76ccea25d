package verify

import (
	"context"
	"iter"

	"github.com/seed-4dac0d86/ldapd/index"
	"github.com/seed-4dac0d86/ldapd/master"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/store/journal"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/txn"
	"github.com/seed-4dac0d86/ldapd/tree"
)

// void finds the tables that may have cells that no commit wrote. The scans of all other
// checks read through it.
type void struct {
	at      *txn.Snapshot
	reader  table.Reader
	reading string          // the table that is read
	suspect map[string]bool // tables
	last    table.Revision  // the revision that look has tested last
}

func newVoid(s *state.Snapshot) *void {
	d := &void{at: s.At, suspect: map[string]bool{}}
	d.reader = s.At.Noting(d.note)
	return d
}

// note notes that the table that is read may have cells that no commit wrote, or cannot be read.
func (d *void) note(table.Revision) { d.suspect[d.reading] = true }

// look tests cells that the reader has returned. The reader does not test what is older than the
// low-water mark.
func (d *void) look(cells []table.Cell) {
	for i := range cells {
		if r := cells[i].Revision; r != d.last {
			if d.last = r; !d.at.Visible(r) {
				d.note(r)
			}
		}
	}
}

// voids looks for cells that no commit wrote, in the tables that may have some.
func (v *verifier) voids(ctx context.Context) error {
	look := func(t table.Table, families ...table.Family) error {
		for _, f := range families {
			if !v.void.suspect[t.Name()] {
				continue
			}
			if err := v.unlessDamaged(ctx, t.Name(), v.voidIn(ctx, t, f)); err != nil {
				return err
			}
		}
		return nil
	}
	if err := look(v.p.Master, master.TreeInfo, master.UpAttributes, master.Secrets, master.NormAttributes); err != nil {
		return err
	}
	if err := look(v.p.Tree, tree.TreeInfo, tree.NormAttributes); err != nil {
		return err
	}
	for _, x := range v.indexes {
		if err := look(x.Table(), index.Info); err != nil {
			return err
		}
	}
	return nil
}

// voidIn looks for cells of one family that no commit wrote. It reads the newest cells
// directly from the table, not through a snapshot.
func (v *verifier) voidIn(ctx context.Context, t table.Table, f table.Family) error {
	log := journal.New(v.p.Store)
	told := map[table.Revision]bool{}
	for c, err := range allCells(ctx, t, f) {
		if err != nil {
			return err
		}
		r := c.cell.Revision
		if v.s.At.Visible(r) || !v.s.At.Swept(r) || told[r] {
			// The cell is visible, pending or still to be removed, or its revision was
			// reported already.
			continue
		}
		told[r] = true
		rec, err := log.Get(ctx, r)
		if err := v.unlessDamaged(ctx, journal.Table, err); err != nil {
			return err
		}
		// Cells that are newer than the snapshot are not void if their commit is
		// committed or pending.
		if r > v.s.At.Max() && (rec.State == journal.Committed || rec.State == journal.Pending) {
			continue
		}
		if err := v.found(ctx, FaultVoid, t.Name(), catalog.Root, "row %q has cells of revision %d, which is no commit", c.row, r); err != nil {
			return err
		}
	}
	return nil
}

// allCells streams the newest cells of a family. It reads wide rows in pages.
func allCells(ctx context.Context, t table.Table, f table.Family) iter.Seq2[located, error] {
	read := func(row []byte, from []byte) (table.Row, error) {
		return t.Get(ctx, row, table.Select{Columns: []table.ColumnRange{{Family: f, From: from}}, Families: []table.Family{f}, MaxCells: cellsPage})
	}
	return pages(t.Scan(ctx, table.Range{}, table.Select{Families: []table.Family{f}, MaxCells: cellsPage}), read)
}
