package verify

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/master"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/load"
	"github.com/seed-4dac0d86/ldapd/partition/load/spill"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/partition/write"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/tree"
)

// Rebuild rebuilds the tree and all indexes of a store from the table master. It is run
// after damage, or if another version of the normal forms made the keys (ErrNormalizer).
// No other process may use the store. If the first pass has a finding, such as two
// entries with the same name, Rebuild changes nothing. An interrupted Rebuild can be run
// again.
func Rebuild(ctx context.Context, s table.Store, o catalog.Options, ro ReindexOptions) (entries int, err error) {
	h, err := catalog.ReadHeader(ctx, s)
	if err != nil {
		return 0, err
	}
	if err := h.Known(); err != nil {
		return 0, fmt.Errorf("%s: %w", s, err)
	}
	p, err := catalog.Open(ctx, s, o.WithDefaults(), h)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, p.Close(context.WithoutCancel(ctx))) }()
	ro = ro.WithDefaults()
	names := spill.New("", load.DefaultLoadMemory/2)
	defer names.Close()
	r := &rebuilder{p: p, o: ro, names: names}
	return r.run(ctx)
}

type rebuilder struct {
	p *catalog.Partition

	o     ReindexOptions
	names *spill.Map
	v     *verifier // derives keys from values, and reports findings
	f     *filler
	found int
}

func (r *rebuilder) run(ctx context.Context) (int, error) {
	if err := r.p.DB.Alone(ctx); err != nil { // because all keys may change
		return 0, err
	}
	s := state.Newest(r.p)
	defer s.Close()
	s.Cached = false
	r.v = &verifier{p: r.p, s: s, above: map[entry.ID]bool{}}
	r.v.o.Found = func(f *Finding) error { r.found++; return r.o.Found(f) }
	// The first pass only checks, so that nothing has been changed if the rebuild is
	// impossible.
	if err := r.each(ctx, r.Claim); err != nil {
		return 0, err
	}
	if r.found > 0 {
		return 0, errFound(r.found)
	}
	c, types, err := r.clear(ctx)
	if err != nil {
		return 0, err
	}
	b, err := r.p.DB.Bulk(ctx, table.BulkOptions{Memory: load.DefaultLoadMemory})
	if err != nil {
		return 0, err
	}
	defer b.Abort(context.WithoutCancel(ctx))
	r.f = &filler{s: s, bulk: b, o: r.o, w: load.LoadWriter{}}
	for _, x := range c.Ordered {
		r.f.indexes = append(r.f.indexes, &indexCheck{Indexed: x})
	}
	if err := r.Write(ctx); err != nil {
		return 0, err
	}
	at, err := b.Commit(ctx, []byte(`"" `+"\nrebuild"))
	if err != nil {
		return 0, err
	}
	if err := Complete(ctx, r.p, types, at); err != nil {
		return 0, err
	}
	h := *r.p.Origin
	h.Normalizer = schema.Version()
	return r.f.entries, h.Write(ctx, r.p.Store)
}

// clear stores in the settings that no index is complete, so that no search uses an index. It
// also empties the tables of the indexes.
func (r *rebuilder) clear(ctx context.Context) (*catalog.Catalog, []*schema.AttributeType, error) {
	old := r.v.s.Catalog
	h := *old.Header
	h.Indexes = nil
	var types []*schema.AttributeType
	var tables []string
	for i, x := range old.Ordered {
		h.Indexes = append(h.Indexes, catalog.HeaderIndex{Attribute: old.Header.Indexes[i].Attribute, Layout: old.Header.Indexes[i].Layout, Since: 0})
		types, tables = append(types, x.Typ), append(tables, x.Table().Name())
	}
	specs := old.Specs(&h)
	c, err := old.With(&h)
	if err == nil {
		_, err = write.Install(ctx, r.p, write.By{}, c)
	}
	if err == nil {
		err = r.p.Store.Drop(ctx, tables...)
	}
	if err == nil {
		err = r.p.Store.Create(ctx, specs...)
	}
	return c, types, err
}

// The method "each" calls f for every entry. It skips rows that are not entries; Verify reports
// these rows.
func (r *rebuilder) each(ctx context.Context, f func(context.Context, *subject) error) error {
	sel := table.Select{Families: []table.Family{master.TreeInfo, master.UpAttributes, master.Secrets, master.NormAttributes}}
	for row, err := range r.v.s.Reader.Scan(ctx, r.p.Master, table.Range{}, sel) {
		if err != nil {
			return err
		}
		x := &subject{row: row.Clone()}
		copy(x.id[:], row.Key)
		var ok bool
		if x.node, ok = master.DecodeNode(x.row); !ok {
			continue
		}
		if err := f(ctx, x); err != nil {
			return err
		}
	}
	return nil
}

// rdn returns an entry's RDN in the present normal form. For a naming context this is its
// whole name.
func (r *rebuilder) rdn(x *subject) (dn.Norm, error) {
	name, err := dn.Parse(x.node.UpRDN)
	if err != nil {
		return "", err
	}
	norms, err := name.Normalize(r.v.s.Catalog.Schema)
	switch {
	case err != nil:
		return "", err
	case len(norms) == 0:
		return "", table.ErrCorrupt
	case x.node.Parent == catalog.Root:
		return dn.Norm(dn.Key(norms)), nil
	}
	return norms[0], nil
}

// Claim claims the entry's name. If another entry has the same name, or if the schema
// does not allow a value of the entry, Claim reports a finding.
func (r *rebuilder) Claim(ctx context.Context, x *subject) error {
	for _, f := range []table.Family{master.UpAttributes, master.Secrets} {
		cells := x.row.Family(f)
		for i := range cells {
			if err := r.v.value(ctx, x, &cells[i]); err != nil {
				return err
			}
		}
	}
	rdn, err := r.rdn(x)
	if err != nil {
		return r.v.found(ctx, FaultName, master.Name, x.id, "the name %q: %v", x.node.UpRDN, err)
	}
	h := sha256.Sum256(tree.Key(x.node.Parent, rdn))
	had, taken, err := r.names.Put(spill.Key(h[:16]), spill.Value(x.id))
	if err != nil || !taken {
		return err
	}
	return r.v.found(ctx, FaultName, tree.Name, x.id, "it would have the same name as the entry %s (%s): rename one of them", entry.ID(had), r.v.name(ctx, entry.ID(had)))
}

// Write deletes all rows of the tree and writes all derived rows again.
func (r *rebuilder) Write(ctx context.Context) error {
	old := table.Select{Families: []table.Family{tree.TreeInfo, tree.NormAttributes}, MaxCells: 1}
	n := 0
	for row, err := range r.v.s.Reader.Scan(ctx, r.p.Tree, table.Range{}, old) {
		if err != nil {
			return err
		}
		r.f.w.Write(r.p.Tree, table.Mutation{Row: append([]byte(nil), row.Key...), DeleteRow: true})
		if n++; n%verifyBatch == 0 {
			if err := r.f.flush(ctx); err != nil {
				return err
			}
		}
	}
	if err := r.each(ctx, r.entry); err != nil {
		return err
	}
	r.o.Progress(r.f.entries)
	return r.f.flush(ctx)
}

// entry writes an entry's row in the tree, its index cells, and the normalised parts of
// its row in master. Write has deleted the rows of the tree at the same revision, and
// that deletion hides only older cells.
func (r *rebuilder) entry(ctx context.Context, x *subject) error {
	rdn, err := r.rdn(x)
	if err != nil {
		return err
	}
	if err := r.f.enter(ctx, x, x.row.Family(master.UpAttributes)); err != nil {
		return err
	}
	inTree := table.Mutation{Row: tree.Key(x.node.Parent, rdn), Cells: []table.Cell{tree.Cell(x.id)}}
	x.node.NormRDN = rdn
	inMaster := table.Mutation{Row: master.Row(x.id), Cells: x.node.Cells(r.v.s.Catalog.Schema)}
	for _, c := range x.row.Family(master.NormAttributes) {
		c.Tombstone, c.Value = true, nil
		inMaster.Cells = append(inMaster.Cells, c)
	}
	counts := map[string]int{}
	for i := range x.values {
		counts[x.values[i].typ.OID+x.values[i].options]++
	}
	for i := range x.values {
		d := &x.values[i]
		if d.typ.Keyless() {
			continue
		}
		if d.typ.Equality == nil || counts[d.typ.OID+d.options] <= tree.ManyValues {
			inTree.Cells = append(inTree.Cells, d.column)
			continue
		}
		inTree.Cells = append(inTree.Cells, table.Cell{Family: tree.NormAttributes, Qualifier: tree.Plain(d.typ, d.options, tree.Many), Value: []byte{1}})
		c := d.column
		c.Family = master.NormAttributes
		inMaster.Cells = append(inMaster.Cells, c)
	}
	inTree.Cells, inMaster.Cells = table.LastOfEach(inTree.Cells), table.LastOfEach(inMaster.Cells)
	r.f.w.Write(r.p.Tree, inTree)
	r.f.w.Write(r.p.Master, inMaster)
	if r.f.entries++; r.f.entries%verifyBatch == 0 {
		r.o.Progress(r.f.entries)
		return r.f.flush(ctx)
	}
	return nil
}
