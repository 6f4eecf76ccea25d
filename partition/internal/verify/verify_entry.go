package verify

import (
	"bytes"
	"context"
	"slices"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/index"
	"github.com/seed-4dac0d86/ldapd/master"
	"github.com/seed-4dac0d86/ldapd/partition/internal/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/internal/write"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/table"
	"github.com/seed-4dac0d86/ldapd/tree"
)

// A subject is an entry that is being checked: its row in master, and the data derived
// from it.
type subject struct {
	id     entry.ID
	row    table.Row
	node   master.Node
	values []derived
}

// derived is one value of an entry, with the key and the cells that are derived from the
// value.
type derived struct {
	typ     *schema.AttributeType
	options string
	key     []byte
	column  table.Cell // expected column in the tree
	many    table.Cell // expected column in master, if the description has many values
}

// subject decodes a row of master. It returns nil if the row cannot be checked any
// further.
func (v *verifier) subject(ctx context.Context, row table.Row) (*subject, error) {
	x := &subject{row: row}
	if copy(x.id[:], row.Key) != len(x.id) || len(row.Key) != len(x.id) {
		return nil, v.found(ctx, FaultEntry, master.Name, catalog.Root, "the row %q is no entryUUID", row.Key)
	}
	var ok bool
	if x.node, ok = master.DecodeNode(row); !ok {
		return nil, v.found(ctx, FaultEntry, master.Name, x.id, "the row has cells but no place in the tree")
	}
	for _, f := range []table.Family{master.UpAttributes, master.Secrets} {
		cells := row.Family(f)
		for i := range cells {
			if err := v.value(ctx, x, &cells[i]); err != nil {
				return nil, err
			}
		}
	}
	if len(x.values) == 0 {
		if err := v.found(ctx, FaultEntry, master.Name, x.id, "the entry has no values"); err != nil {
			return nil, err
		}
	}
	if !x.node.Order.Valid() {
		if err := v.found(ctx, FaultEntry, master.Name, x.id, "the order of its attributes, %q, is no list of them", x.node.Order); err != nil {
			return nil, err
		}
	}
	if err := v.place(ctx, x); err != nil {
		return nil, err
	}
	return x, nil
}

// value derives the key and the cells of one value.
func (v *verifier) value(ctx context.Context, x *subject, c *table.Cell) error {
	z := bytes.IndexByte(c.Qualifier, 0)
	if z < 0 {
		return v.found(ctx, FaultValue, master.Name, x.id, "the column %q is none of an attribute", c.Qualifier)
	}
	t, options, err := v.s.Catalog.Describe(string(c.Qualifier[:z]))
	if err != nil {
		return v.found(ctx, FaultValue, master.Name, x.id, "%v", err)
	}
	key, err := catalog.KeyOf(t, c.Value)
	if err != nil {
		return v.found(ctx, FaultValue, master.Name, x.id, "%v", err)
	}
	if master.Family(t) != c.Family {
		return v.found(ctx, FaultValue, master.Name, x.id, "a value of %s is not in the family that it belongs to", t.Name())
	}
	d := derived{typ: t, options: options, key: key}
	if !t.Secret() {
		p := master.Position(c.Qualifier[z+1:])
		d.column, d.many = tree.ColumnOf(t, options, key, p), write.ManyColumn(t, options, key, p)
	}
	x.values = append(x.values, d)
	return nil
}

// place checks the entry's name. It also checks that the path from the entry up through its
// ancestors ends at the root.
func (v *verifier) place(ctx context.Context, x *subject) error {
	name, err := dn.Parse(x.node.UpRDN)
	if err != nil || len(name) == 0 {
		return v.found(ctx, FaultName, master.Name, x.id, "the name %q is not a DN", x.node.UpRDN)
	}
	norms, err := name.Normalize(v.s.Catalog.Schema)
	if err != nil {
		return v.found(ctx, FaultName, master.Name, x.id, "the name %q: %v", x.node.UpRDN, err)
	}
	rdn := norms[0]
	if x.node.Parent == catalog.Root {
		rdn = dn.Norm(dn.Key(norms))
		if x.id != catalog.SubschemaID && !slices.ContainsFunc(v.s.Catalog.Contexts, func(c catalog.NamingContext) bool { return c.RDN == rdn }) {
			if err := v.found(ctx, FaultParent, master.Name, x.id, "the entry is at the top, but %s is no naming context", x.node.UpRDN); err != nil {
				return err
			}
		}
	}
	if rdn != x.node.NormRDN {
		if err := v.found(ctx, FaultName, master.Name, x.id, "the normalised name is %q and must be %q", x.node.NormRDN, rdn); err != nil {
			return err
		}
	}
	for _, a := range name[0] {
		if !x.hasValue(v.s.Catalog.Types, a) {
			if err := v.found(ctx, FaultName, master.Name, x.id, "the name's value of %s is not among the entry's", a.Type); err != nil {
				return err
			}
		}
	}
	return v.reaches(ctx, x.id, x.node.Parent)
}

// hasValue reports whether the entry has the value of an AVA.
func (x *subject) hasValue(k *catalog.Types, a dn.AVA) bool {
	t, err := write.NamingType(k, a.Type)
	if err != nil {
		return false
	}
	key, err := catalog.KeyOf(t, a.Value)
	return err == nil && slices.ContainsFunc(x.values, func(d derived) bool {
		return d.typ == t && d.options == "" && bytes.Equal(d.key, key)
	})
}

// treeRow checks an entry's row in the tree.
func (v *verifier) treeRow(ctx context.Context, x *subject, row table.Row) error {
	id, ok := tree.ID(row)
	v.rows++
	if !ok || id != x.id {
		v.suspect = true
		if !ok {
			return v.found(ctx, FaultTree, tree.Name, x.id, "there is no row for the entry's name: it cannot be found by it")
		}
		return v.found(ctx, FaultTree, tree.Name, x.id, "the row of the entry's name belongs to the entry %s", id)
	}
	inTree, inMaster := map[string][]byte{}, map[string][]byte{}
	for i := range x.values {
		d := &x.values[i]
		if d.typ.Secret() {
			continue
		}
		to, column := inTree, d.column
		note := tree.Plain(d.typ, d.options, tree.Many)
		if d.typ.Equality != nil && row.Find(tree.NormAttributes, note) != nil {
			to, column = inMaster, d.many
			inTree[string(note)] = []byte{1}
		}
		if _, twice := to[string(column.Qualifier)]; twice && d.typ.Equality != nil {
			if err := v.found(ctx, FaultValue, master.Name, x.id, "two values of %s are the same", d.typ.Name()); err != nil {
				return err
			}
		}
		to[string(column.Qualifier)] = column.Value
	}
	if err := v.columns(ctx, x, tree.Name, inTree, row.Family(tree.NormAttributes)); err != nil {
		return err
	}
	return v.columns(ctx, x, master.Name, inMaster, x.row.Family(master.NormAttributes))
}

// columns compares the columns that contain keys with the expected columns.
func (v *verifier) columns(ctx context.Context, x *subject, tbl string, want map[string][]byte, have []table.Cell) error {
	for i := range have {
		q := have[i].Qualifier
		value, ok := want[string(q)]
		var err error
		switch {
		case !ok:
			err = v.found(ctx, FaultColumn, tbl, x.id, "the column %q is of no value", q)
		case !bytes.Equal(value, have[i].Value):
			err = v.found(ctx, FaultColumn, tbl, x.id, "the column %q does not lead to its value", q)
		}
		if err != nil {
			return err
		}
		delete(want, string(q))
	}
	for q := range want {
		if err := v.found(ctx, FaultColumn, tbl, x.id, "the column %q is missing: filters do not see the value", q); err != nil {
			return err
		}
	}
	return nil
}

// An indexCheck is an index that is being checked.
type indexCheck struct {
	*catalog.Indexed
	cells   int  // number of expected cells
	suspect bool // the index has a finding
}

// expected is an index cell that an entry must have.
type expected struct {
	x    *subject
	row  []byte
	cell table.Cell
}

// mutations returns the index cells that an entry must have, each cell once.
func (c *indexCheck) mutations(x *subject) (es []expected) {
	present := false
	seen := map[string]bool{}
	enter := func(m table.Mutation) {
		if !seen[string(m.Row)] {
			seen[string(m.Row)] = true
			es = append(es, expected{x, m.Row, m.Cells[0]})
		}
	}
	for i := range x.values {
		if d := &x.values[i]; d.typ == c.Typ {
			present = true
			enter(c.Mutation(d.key, x.id, x.node.Parent, false))
		}
	}
	if present {
		enter(c.Presence(x.id, x.node.Parent, false))
	}
	return es
}

// fewCells is the number of columns of an index row that are read first. The expected
// column is probably among them.
const fewCells = 32

// indexCells looks up the index cells of a batch of entries.
func (v *verifier) indexCells(ctx context.Context, c *indexCheck, batch []*subject) error {
	var es []expected
	for _, x := range batch {
		es = append(es, c.mutations(x)...)
	}
	c.cells += len(es)
	t := c.Table()
	for chunk := range slices.Chunk(es, 4*verifyBatch) {
		keys := make([][]byte, len(chunk))
		for i := range chunk {
			keys[i] = chunk[i].row
		}
		rows, err := v.s.Reader.GetMany(ctx, t, keys, table.Select{MaxCells: fewCells})
		if err != nil {
			return err
		}
		for i := range chunk {
			if err := v.indexCell(ctx, c, &chunk[i], rows[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (v *verifier) indexCell(ctx context.Context, c *indexCheck, e *expected, row table.Row) error {
	got := row.Find(e.cell.Family, e.cell.Qualifier)
	if got == nil && len(row.Cells) >= fewCells {
		one, err := v.s.Reader.Get(ctx, c.Table(), e.row, table.Select{Columns: []table.ColumnRange{table.Column(e.cell.Family, e.cell.Qualifier)}})
		if err != nil {
			return err
		}
		got = one.Find(e.cell.Family, e.cell.Qualifier)
	}
	switch {
	case got == nil:
		c.suspect = true
		return v.found(ctx, FaultIndex, c.Table().Name(), e.x.id, "the row %q does not have the entry: searches miss it", e.row)
	case !bytes.Equal(got.Value, e.cell.Value):
		return v.found(ctx, FaultIndex, c.Table().Name(), e.x.id, "the row %q has another parent for the entry than master", e.row)
	}
	return nil
}

// index counts the cells of an index. If the number is wrong or the index has a finding,
// it looks for cells that belong to no value.
func (v *verifier) index(ctx context.Context, c *indexCheck) error {
	n := 0
	for _, err := range v.indexed(ctx, c) {
		if err != nil {
			return err
		}
		n++
	}
	if n == c.cells && !c.suspect {
		return nil
	}
	var last *subject
	for at, err := range v.indexed(ctx, c) {
		if err == nil {
			last, err = v.stray(ctx, c, at, last)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// indexed streams the cells of an index.
func (v *verifier) indexed(ctx context.Context, c *indexCheck) func(func(located, error) bool) {
	t := c.Table()
	rows := v.scan(ctx, t, table.Select{MaxCells: cellsPage})
	return pages(rows, func(row, from []byte) (table.Row, error) {
		return v.s.Reader.Get(ctx, t, row, table.Select{Columns: []table.ColumnRange{{Family: index.Info, From: from}}, MaxCells: cellsPage})
	})
}

// stray reports an index cell that belongs to no value. It returns the entry that it has
// read, because the next cell may belong to the same entry.
func (v *verifier) stray(ctx context.Context, c *indexCheck, at located, last *subject) (*subject, error) {
	var id entry.ID
	from := at.row
	if len(at.cell.Qualifier) == len(id) {
		from = at.cell.Qualifier
	}
	if len(from) < len(id) {
		return last, v.found(ctx, FaultIndex, c.Table().Name(), catalog.Root, "the row %q is of no entry", at.row)
	}
	copy(id[:], from[len(from)-len(id):])
	if last == nil || last.id != id {
		row, err := v.s.Reader.Get(ctx, v.p.Master, master.Row(id), table.Select{Families: []table.Family{master.TreeInfo, master.UpAttributes}})
		if err != nil {
			return last, err
		}
		last = &subject{id: id, row: row}
		last.node, _ = master.DecodeNode(row)
		if err := v.deriveQuietly(ctx, last, row.Family(master.UpAttributes)); err != nil {
			return last, err
		}
	}
	for _, e := range c.mutations(last) {
		if bytes.Equal(e.row, at.row) && bytes.Equal(e.cell.Qualifier, at.cell.Qualifier) {
			return last, nil
		}
	}
	return last, v.found(ctx, FaultIndex, c.Table().Name(), id, "the row %q has the entry, which has no such value", at.row)
}

// deriveQuietly derives values without reporting their faults, because these have already
// been reported.
func (v *verifier) deriveQuietly(ctx context.Context, x *subject, cells []table.Cell) error {
	q := *v
	q.o.Found = func(*Finding) error { return nil }
	for i := range cells {
		if err := q.value(ctx, x, &cells[i]); err != nil {
			return err
		}
	}
	return nil
}
