package partition

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed-4dac0d86/ldapd/index"
	"github.com/seed-4dac0d86/ldapd/master"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/table"
	"github.com/seed-4dac0d86/ldapd/txn"
)

// SetIndexes changes which attributes are indexed and how. It fills what is new
// or changes its layout, and drops what is no more. Searches go on meanwhile;
// updates wait. An index whose filling was cut short is not used, and is filled
// by the next call.
func (p *Partition) SetIndexes(ctx context.Context, indexes []Index) error {
	return p.Reindex(ctx, indexes, ReindexOptions{})
}

// ReindexOptions of a Reindex or Rebuild.
type ReindexOptions struct {
	// Again are attributes whose indexes are filled anew even if they seem
	// right.
	Again []string
	// Found is told what keeps a Rebuild from being made; may be nil.
	Found func(*Finding) error
	// Progress is told how many entries were read so far; may be nil.
	Progress func(entries int)
}

func (o ReindexOptions) withDefaults() ReindexOptions {
	if o.Found == nil {
		o.Found = func(*Finding) error { return nil }
	}
	if o.Progress == nil {
		o.Progress = func(int) {}
	}
	return o
}

// Reindex is SetIndexes with options.
func (p *Partition) Reindex(ctx context.Context, indexes []Index, o ReindexOptions) error {
	o = o.withDefaults()
	end, err := p.reshape(ctx)
	if err != nil {
		return err
	}
	defer end()
	old, err := p.latest()
	if err != nil {
		return err
	}
	h, fill, err := old.newIndexes(indexes, o.Again)
	if err != nil {
		return err
	}
	stale := old.staleTables(h)
	if p.db.Shared() {
		return p.reindexBeside(ctx, old, h, stale, fill, o)
	}
	c, err := old.with(h)
	if err != nil {
		return err
	}
	// From here on nobody uses the indexes to be filled or dropped.
	if _, err := p.install(ctx, c); err != nil {
		return err
	}
	if len(stale) > 0 {
		if err := p.drain(ctx, 0); err != nil {
			return err
		}
		if err := p.store.Drop(ctx, stale...); err != nil {
			return err
		}
	}
	if len(fill) == 0 {
		return nil
	}
	return p.fill(ctx, c, fill, o)
}

// newIndexes gives the header with the wanted indexes, those to be filled with
// no revision yet, and their types.
func (c *catalog) newIndexes(indexes []Index, again []string) (*header, []*schema.AttributeType, error) {
	h := *c.header
	h.Indexes = nil
	var fill, seen []*schema.AttributeType
	force := map[*schema.AttributeType]bool{}
	for _, name := range again {
		t, err := c.indexable(name)
		if err != nil {
			return nil, nil, err
		}
		force[t] = true
	}
	for _, x := range indexes {
		t, err := c.indexable(x.Attribute)
		switch {
		case err != nil:
			return nil, nil, err
		case x.Layout != RowLayout && x.Layout != ColumnLayout:
			return nil, nil, problem(Unwilling, "index of %s: the layout %q is neither %q nor %q", x.Attribute, x.Layout, RowLayout, ColumnLayout)
		case slices.Contains(seen, t):
			return nil, nil, problem(Unwilling, "index of %s: given twice", x.Attribute)
		}
		seen = append(seen, t)
		entry := headerIndex{Attribute: t.Name(), Layout: x.Layout}
		if i := slices.IndexFunc(c.header.Indexes, func(o headerIndex) bool {
			return c.schema.Attribute(o.Attribute) == t && o.Layout == x.Layout
		}); i >= 0 && !force[t] {
			entry.Since = c.header.Indexes[i].Since
		}
		if entry.Since == 0 {
			fill = append(fill, t)
		}
		h.Indexes = append(h.Indexes, entry)
	}
	for _, x := range c.ordered {
		if slices.Contains(fill, x.typ) || !slices.Contains(seen, x.typ) {
			if err := c.keepsUnique(x.typ); err != nil {
				return nil, nil, err
			}
		}
	}
	return &h, fill, nil
}

// staleTables names the index tables that go, or are made anew.
func (c *catalog) staleTables(h *header) (names []string) {
	for _, x := range c.ordered {
		i := slices.IndexFunc(h.Indexes, func(n headerIndex) bool { return c.schema.Attribute(n.Attribute) == x.typ })
		if i < 0 || h.Indexes[i].Since == 0 {
			names = append(names, x.table)
		}
	}
	return names
}

// drainTime bounds how long a reindex waits for searches that began before it.
var drainTime = 30 * time.Second

// drain waits until nobody uses a catalog from before r. Where there is one server
// every snapshot older than an empty commit made now may have one.
func (p *Partition) drain(ctx context.Context, r table.Revision) error {
	if p.db.Shared() {
		return errors.Join(p.awaitStep(ctx, r), p.db.AwaitReaders(ctx, r))
	}
	if _, err := p.db.Update(ctx, func(tx *txn.Tx) error {
		tx.SetMessage([]byte(`"" ` + "\nreindex"))
		return nil
	}); err != nil {
		return err
	}
	now := p.db.Snapshot()
	newest := now.Low()
	now.Close()
	for deadline := time.Now().Add(drainTime); p.db.Oldest() < newest; {
		if time.Now().After(deadline) {
			return errors.New("searches that use the index are still running: try again later")
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(5 * time.Millisecond):
		}
	}
	return nil
}

// fill makes the tables of indexes, fills them in one bulk commit, and puts them
// into service.
func (p *Partition) fill(ctx context.Context, c *catalog, types []*schema.AttributeType, o ReindexOptions) error {
	specs := make([]table.Spec, len(types))
	for i, t := range types {
		specs[i] = index.Spec(t)
	}
	if err := p.store.Create(ctx, specs...); err != nil {
		return err
	}
	b, err := p.db.Bulk(ctx, table.BulkOptions{Memory: defaultLoadMemory})
	if err != nil {
		return err
	}
	defer b.Abort(context.WithoutCancel(ctx))
	s := p.Snapshot()
	defer s.Close()
	if err := fillFrom(ctx, s, b, c, types, o); err != nil {
		return err
	}
	r, err := b.Commit(ctx, []byte(`"" `+"\nreindex"))
	if err != nil {
		return err
	}
	return p.complete(ctx, types, r)
}

// fillFrom enters the entries of a snapshot into indexes.
func fillFrom(ctx context.Context, s *Snapshot, to filling, c *catalog, types []*schema.AttributeType, o ReindexOptions) error {
	f := &filler{s: s, ctx: ctx, w: newLoadWriter(to), bulk: to, o: o}
	for _, t := range types {
		f.indexes = append(f.indexes, &indexCheck{indexed: c.indexes[t]})
	}
	return f.run()
}

// complete puts filled indexes into service: they are complete since r.
func (p *Partition) complete(ctx context.Context, types []*schema.AttributeType, r table.Revision) error {
	_, err := p.reconfigure(ctx, func(tx *Tx) (*header, error) {
		h := *tx.catalog.header
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

// filler enters all entries into some indexes.
type filler struct {
	s       *Snapshot
	ctx     context.Context
	bulk    filling
	w       *loadWriter
	indexes []*indexCheck
	o       ReindexOptions
	entries int
}

// run reads of each entry its place and the values of the types. Wide entries
// are read a page after the other.
func (f *filler) run() error {
	sel := table.Select{Families: []table.Family{master.TreeInfo, master.UpAttributes}, MaxCells: maxColumns}
	for _, x := range f.indexes {
		sel.Columns = append(sel.Columns, master.Columns(x.typ, ""), table.ColumnPrefix(master.UpAttributes, []byte(x.typ.Name()+";")))
	}
	for row, err := range f.s.r.Scan(f.ctx, f.s.p.master, table.Range{}, sel) {
		if err != nil {
			return err
		}
		if err := f.row(row, sel); err != nil {
			return err
		}
		f.entries++
		if f.entries%verifyBatch == 0 {
			f.o.Progress(f.entries)
			if err := f.flush(); err != nil {
				return err
			}
		}
	}
	f.o.Progress(f.entries)
	return f.flush()
}

// row enters one entry.
func (f *filler) row(row table.Row, sel table.Select) error {
	x := &subject{row: row.Clone()}
	copy(x.id[:], row.Key)
	var ok bool
	if x.node, ok = master.DecodeNode(x.row); !ok {
		if len(row.Cells) < maxColumns {
			return nil // no entry: check reports it
		}
		return f.wide(x, sel)
	}
	return f.enter(x, x.row.Family(master.UpAttributes))
}

// wide enters an entry page by page.
func (f *filler) wide(x *subject, sel table.Select) error {
	head, err := f.s.r.Get(f.ctx, f.s.p.master, x.row.Key, table.Select{Families: []table.Family{master.TreeInfo}})
	if err != nil {
		return err
	}
	x.node, _ = master.DecodeNode(head)
	for _, c := range sel.Columns {
		for {
			page, err := f.s.r.Get(f.ctx, f.s.p.master, x.row.Key, table.Select{Columns: []table.ColumnRange{c}, Families: []table.Family{c.Family}, MaxCells: cellsPage})
			if err != nil {
				return err
			}
			if err := f.enter(x, page.Cells); err != nil {
				return err
			}
			if err := f.flush(); err != nil {
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

// enter writes the index cells of some values.
func (f *filler) enter(x *subject, cells []table.Cell) error {
	v := &verifier{p: f.s.p, s: f.s, ctx: f.ctx}
	x.values = x.values[:0]
	if err := v.quietly(x, cells); err != nil {
		return err
	}
	for _, c := range f.indexes {
		for _, e := range c.mutations(x) {
			f.w.write(c.Presence.Table, table.Mutation{Row: e.row, Cells: []table.Cell{e.cell}})
		}
	}
	return nil
}

func (f *filler) flush() error { return f.w.flush(f.ctx, f.bulk) }

// asOf gives the catalog as it may be used at a revision: without indexes that
// were not complete then. A store without a commit shows revision 0; the indexes
// that its directory was made with are complete there too.
func (c *catalog) asOf(r table.Revision) *catalog {
	if r = max(r, 1); r >= c.newest {
		return c
	}
	old := *c
	old.indexes = make(map[*schema.AttributeType]*indexed, len(c.indexes))
	old.ordered = nil
	for i, x := range c.ordered {
		y := *x
		y.ready = y.ready && c.header.Indexes[i].Since <= r
		old.indexes[x.typ] = &y
		old.ordered = append(old.ordered, &y)
	}
	return &old
}

// errFound says that a rebuild was not made.
func errFound(n int) error {
	return fmt.Errorf("%d findings keep the store from being rebuilt: nothing was changed; mend them with the version of ldapd that made the store", n)
}
