package verify

import (
	"context"
	"fmt"
	"slices"

	"github.com/seed-4dac0d86/ldapd/master"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/load"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/partition/write"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// ReindexOptions are the options of Reindex and Rebuild.
type ReindexOptions struct {
	// Again contains the attributes whose indexes are filled again even if nothing seems
	// wrong with them.
	Again []string
	// Found, if set, is called with each finding that prevents a Rebuild.
	Found func(*Finding) error
	// Progress, if set, is called with the number of entries read so far.
	Progress func(entries int)
}

func (o ReindexOptions) WithDefaults() ReindexOptions {
	if o.Found == nil {
		o.Found = func(*Finding) error { return nil }
	}
	if o.Progress == nil {
		o.Progress = func(int) {}
	}
	return o
}

// FillFrom adds the entries of a snapshot to the indexes of the given types.
func FillFrom(ctx context.Context, s *state.Snapshot, to load.Filling, c *catalog.Catalog, types []*schema.AttributeType, o ReindexOptions) error {
	f := &filler{s: s, w: load.LoadWriter{}, bulk: to, o: o}
	for _, t := range types {
		f.indexes = append(f.indexes, &indexCheck{Indexed: c.Indexes[t]})
	}
	return f.run(ctx)
}

// A filler adds all entries to certain indexes.
type filler struct {
	s *state.Snapshot

	bulk    load.Filling
	w       load.LoadWriter
	indexes []*indexCheck
	o       ReindexOptions
	entries int
}

// run reads the node of each entry and the values of the indexed types. It reads wide
// entries in pages.
func (f *filler) run(ctx context.Context) error {
	sel := table.Select{Families: []table.Family{master.TreeInfo, master.UpAttributes}, MaxCells: state.MaxColumns}
	for _, x := range f.indexes {
		sel.Columns = append(sel.Columns, master.AnyOptions(x.Typ)...)
	}
	for row, err := range f.s.Reader.Scan(ctx, f.s.Partition.Master, table.Range{}, sel) {
		if err != nil {
			return err
		}
		if err := f.row(ctx, row, sel); err != nil {
			return err
		}
		f.entries++
		if f.entries%verifyBatch == 0 {
			f.o.Progress(f.entries)
			if err := f.flush(ctx); err != nil {
				return err
			}
		}
	}
	f.o.Progress(f.entries)
	return f.flush(ctx)
}

// row adds the entry in one row of master to the indexes.
func (f *filler) row(ctx context.Context, row table.Row, sel table.Select) error {
	x := &subject{row: row.Clone()}
	copy(x.id[:], row.Key)
	var ok bool
	if x.node, ok = master.DecodeNode(x.row); !ok {
		if len(row.Cells) < state.MaxColumns {
			return nil // the row is not an entry; Verify reports it
		}
		return f.wide(ctx, x, sel)
	}
	return f.enter(ctx, x, x.row.Family(master.UpAttributes))
}

// wide adds a wide entry page by page.
func (f *filler) wide(ctx context.Context, x *subject, sel table.Select) error {
	head, err := f.s.Reader.Get(ctx, f.s.Partition.Master, x.row.Key, table.Select{Families: []table.Family{master.TreeInfo}})
	if err != nil {
		return err
	}
	x.node, _ = master.DecodeNode(head)
	for _, c := range sel.Columns {
		for {
			page, err := f.s.Reader.Get(ctx, f.s.Partition.Master, x.row.Key, table.Select{Columns: []table.ColumnRange{c}, Families: []table.Family{c.Family}, MaxCells: cellsPage})
			if err != nil {
				return err
			}
			if err := f.enter(ctx, x, page.Cells); err != nil {
				return err
			}
			if err := f.flush(ctx); err != nil {
				return err
			}
			if len(page.Cells) < cellsPage {
				break
			}
			c.From = append(slices.Clone(page.Cells[cellsPage-1].Qualifier), 0)
		}
	}
	return nil
}

// enter writes the index cells for the values in the given cells of master.
func (f *filler) enter(ctx context.Context, x *subject, cells []table.Cell) error {
	v := &verifier{p: f.s.Partition, s: f.s}
	x.values = x.values[:0]
	if err := v.deriveQuietly(ctx, x, cells); err != nil {
		return err
	}
	for _, c := range f.indexes {
		for _, e := range c.mutations(x) {
			f.w.Write(c.Table(), table.Mutation{Row: e.row, Cells: []table.Cell{e.cell}})
		}
	}
	return nil
}

func (f *filler) flush(ctx context.Context) error { return f.w.Flush(ctx, f.bulk) }

// errFound returns the error for a rebuild that the findings prevented.
func errFound(n int) error {
	return fmt.Errorf("%d findings keep the store from being rebuilt: nothing was changed; mend them with the version of ldapd that made the store", n)
}

// Complete lets searches use filled indexes. It records that the indexes are complete
// since the revision r.
func Complete(ctx context.Context, p *catalog.Partition, types []*schema.AttributeType, r table.Revision) error {
	_, err := write.Reconfigure(ctx, p, write.By{}, func(tx *write.Tx) (*catalog.Header, error) {
		h := *tx.Catalog.Header
		h.Indexes = slices.Clone(h.Indexes)
		for i := range h.Indexes {
			x := &h.Indexes[i]
			if x.Since == 0 && slices.ContainsFunc(types, func(t *schema.AttributeType) bool { return t.Name() == x.Attribute }) {
				x.Since = r
			}
		}
		return &h, nil
	})
	return err
}
