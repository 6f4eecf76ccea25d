package verify

import (
	"bytes"
	"context"
	"iter"
	"slices"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/index"
	"github.com/seed-4dac0d86/ldapd/master"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/write"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
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
	return x, nil
}

// value derives the key and the cells of one value.
func (v *verifier) value(ctx context.Context, x *subject, c *table.Cell) error {
	t, options, ok := master.Describe(c.Qualifier, v.s.Catalog.Schema)
	if !ok {
		return v.found(ctx, FaultValue, master.Name, x.id, "the column %q belongs to no attribute", c.Qualifier)
	}
	var description string
	if t != nil {
		description = t.Name() + options
	} else {
		unknown, _, _ := bytes.Cut(c.Qualifier, []byte{0})
		description = schema.NameOf(string(unknown))
	}
	t, options, err := v.s.Catalog.Describe(description)
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
		p := master.PositionOf(c.Qualifier)
		d.column, d.many = tree.ColumnOf(t, options, key, p), write.ManyColumn(t, options, key, p)
	}
	x.values = append(x.values, d)
	return nil
}

// places checks the names of a batch of entries. It also checks that the path from each entry up
// through its ancestors ends at the root.
func (v *verifier) places(ctx context.Context, batch []*subject) error {
	nodes, err := v.ancestors(ctx, batch)
	if err != nil {
		return err
	}
	for _, x := range batch {
		if err := v.ownName(ctx, x); err != nil {
			return err
		}
		if err := v.reaches(ctx, x.id, x.node.Parent, nodes); err != nil {
			return err
		}
	}
	return nil
}

// ownName checks an entry's name.
func (v *verifier) ownName(ctx context.Context, x *subject) error {
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
	return nil
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

// expectTree adds to the sums of the tree the row of an entry. Whether a description has its
// columns in the tree or in master is known from master. If that is wrong, so are the sums.
func (v *verifier) expectTree(x *subject) {
	row := tree.Key(x.node.Parent, x.node.NormRDN)
	id := tree.Cell(x.id)
	v.hash.add(&v.tree.want, row, &id)
	many := map[string]bool{}
	inMaster := x.row.Family(master.NormAttributes)
	if len(inMaster) > 0 {
		for i := range x.values {
			if d := &x.values[i]; d.typ.Equality != nil && x.row.Find(master.NormAttributes, d.many.Qualifier) != nil {
				many[d.description()] = true
			}
		}
	}
	w := x.columns(func(d *derived) bool { return many[d.description()] })
	for q, value := range w.inTree {
		v.hash.add(&v.tree.want, row, &table.Cell{Family: tree.NormAttributes, Qualifier: []byte(q), Value: value})
	}
	for i := range inMaster {
		if value, ok := w.inMaster[string(inMaster[i].Qualifier)]; !ok || !bytes.Equal(value, inMaster[i].Value) {
			v.tree.suspect = true
		}
	}
	if len(w.twice) > 0 || len(w.inMaster) != len(inMaster) {
		v.tree.suspect = true
	}
}

func (d *derived) description() string { return d.typ.OID + d.options }

// Columns are the columns that an entry must have, with their values.
type columns struct {
	inTree, inMaster map[string][]byte
	twice            []*derived // values that are the same as others
}

// columns returns the columns that an entry must have. The function many reports whether the
// columns of a value's description are in master.
func (x *subject) columns(many func(*derived) bool) *columns {
	w := &columns{inTree: make(map[string][]byte, len(x.values)), inMaster: map[string][]byte{}}
	for i := range x.values {
		d := &x.values[i]
		if d.typ.Secret() || d.typ.Keyless() {
			continue
		}
		to, column := w.inTree, d.column
		if d.typ.Equality != nil && many(d) {
			to, column = w.inMaster, d.many
			w.inTree[string(tree.Plain(d.typ, d.options, tree.Many))] = []byte{1}
		}
		if _, twice := to[string(column.Qualifier)]; twice && d.typ.Equality != nil {
			w.twice = append(w.twice, d)
		}
		to[string(column.Qualifier)] = column.Value
	}
	return w
}

// treeRow checks an entry's row in the tree.
func (v *verifier) treeRow(ctx context.Context, x *subject, row table.Row) error {
	id, ok := tree.ID(row)
	if !ok {
		return v.found(ctx, FaultTree, tree.Name, x.id, "there is no row for the entry's name: it cannot be found by it")
	}
	if id != x.id {
		return v.found(ctx, FaultTree, tree.Name, x.id, "the row of the entry's name belongs to the entry %s", id)
	}
	w := x.columns(func(d *derived) bool {
		return row.Find(tree.NormAttributes, tree.Plain(d.typ, d.options, tree.Many)) != nil
	})
	for _, d := range w.twice {
		if err := v.found(ctx, FaultValue, master.Name, x.id, "two values of %s are the same", d.typ.Name()); err != nil {
			return err
		}
	}
	if err := v.columns(ctx, x, tree.Name, w.inTree, row.Family(tree.NormAttributes)); err != nil {
		return err
	}
	return v.columns(ctx, x, master.Name, w.inMaster, x.row.Family(master.NormAttributes))
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
	sums
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
	if present && index.HasPresence(c.Typ) {
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
	for chunk := range slices.Chunk(es, 4*verifyBatch) {
		got, err := v.indexValues(ctx, c, chunk)
		if err != nil {
			return err
		}
		for i := range chunk {
			if err := v.indexCell(ctx, c, &chunk[i], got[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// indexValues reads the expected cells, or nil for cells that do not exist. It reads each row
// once, in one call for all rows. Of the rows with many columns that call reads only some. If
// an expected cell is not among these, a second call reads the cells that are expected in such
// rows.
func (v *verifier) indexValues(ctx context.Context, c *indexCheck, es []expected) ([]*table.Cell, error) {
	got := make([]*table.Cell, len(es))
	all := make([]int, len(es))
	for i := range all {
		all[i] = i
	}
	var long []int
	err := v.indexRows(ctx, c, es, all, table.Select{MaxCells: fewCells}, func(i int, row table.Row) {
		if got[i] = row.Find(es[i].cell.Family, es[i].cell.Qualifier); got[i] == nil && len(row.Cells) >= fewCells {
			long = append(long, i)
		}
	})
	if err != nil || len(long) == 0 {
		return got, err
	}
	var sel table.Select
	selected := map[string]bool{}
	for _, i := range long {
		if q := es[i].cell.Qualifier; !selected[string(q)] {
			selected[string(q)] = true
			sel.Columns = append(sel.Columns, table.Column(es[i].cell.Family, q))
		}
	}
	return got, v.indexRows(ctx, c, es, long, sel, func(i int, row table.Row) {
		got[i] = row.Find(es[i].cell.Family, es[i].cell.Qualifier)
	})
}

// indexRows reads the rows of some expected cells, which are given by their positions in es. It
// calls f with each position and the row.
func (v *verifier) indexRows(ctx context.Context, c *indexCheck, es []expected, some []int, sel table.Select, f func(int, table.Row)) error {
	at := map[string]int{}
	var keys [][]byte
	for _, i := range some {
		if _, known := at[string(es[i].row)]; !known {
			at[string(es[i].row)] = len(keys)
			keys = append(keys, es[i].row)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	rows, err := v.s.Reader.GetMany(ctx, c.Table(), keys, sel)
	if err != nil {
		return err
	}
	for _, i := range some {
		f(i, rows[at[string(es[i].row)]])
	}
	return nil
}

func (v *verifier) indexCell(ctx context.Context, c *indexCheck, e *expected, got *table.Cell) error {
	switch {
	case got == nil:
		return v.found(ctx, FaultIndex, c.Table().Name(), e.x.id, "the row %q does not have the entry: searches miss it", e.row)
	case !bytes.Equal(got.Value, e.cell.Value):
		return v.found(ctx, FaultIndex, c.Table().Name(), e.x.id, "the row %q has another parent for the entry than master", e.row)
	}
	return nil
}

// sumIndex adds up the cells of an index.
func (v *verifier) sumIndex(ctx context.Context, c *indexCheck) error {
	v.stages.begin(1)
	for at, err := range v.indexed(ctx, c) {
		if err != nil {
			return err
		}
		v.void.look([]table.Cell{*at.cell})
		v.hash.add(&c.have, at.row, at.cell)
		v.progress(1)
	}
	return nil
}

// indexed streams the cells of an index.
func (v *verifier) indexed(ctx context.Context, c *indexCheck) iter.Seq2[located, error] {
	t := c.Table()
	rows := v.scan(ctx, t, table.Select{MaxCells: cellsPage})
	return pages(rows, func(row, from []byte) (table.Row, error) {
		return v.void.reader.Get(ctx, t, row, table.Select{Columns: []table.ColumnRange{{Family: index.Info, From: from}}, MaxCells: cellsPage})
	})
}

// entryOf returns the entry that an index cell belongs to.
func entryOf(at located) (id entry.ID, ok bool) {
	from := at.row
	if len(at.cell.Qualifier) == len(id) {
		from = at.cell.Qualifier
	}
	if len(from) < len(id) {
		return id, false
	}
	copy(id[:], from[len(from)-len(id):])
	return id, true
}

// stray reports those of a batch of index cells that belong to no value.
func (v *verifier) stray(ctx context.Context, c *indexCheck, batch []located) error {
	of := map[entry.ID]int{}
	var keys [][]byte
	for _, at := range batch {
		if id, ok := entryOf(at); ok {
			if _, known := of[id]; !known {
				of[id] = len(keys)
				keys = append(keys, master.Row(id))
			}
		}
	}
	rows, err := v.s.Reader.GetMany(ctx, v.p.Master, keys, table.Select{
		Families: []table.Family{master.TreeInfo, master.UpAttributes},
		Columns:  master.AnyOptions(c.Typ)})
	if err != nil {
		return err
	}
	has := make([]map[string]bool, len(rows)) // the cells that each entry must have
	for _, at := range batch {
		id, ok := entryOf(at)
		if !ok {
			if err := v.found(ctx, FaultIndex, c.Table().Name(), catalog.Root, "the row %q is of no entry", at.row); err != nil {
				return err
			}
			continue
		}
		i := of[id]
		if has[i] == nil {
			if has[i], err = v.cellsOf(ctx, c, id, rows[i]); err != nil {
				return err
			}
		}
		if !has[i][cellKey(at.row, at.cell.Qualifier)] {
			if err := v.found(ctx, FaultIndex, c.Table().Name(), id, "the row %q has the entry, which has no such value", at.row); err != nil {
				return err
			}
		}
	}
	return nil
}

// cellsOf returns the index cells that an entry must have, by cellKey.
func (v *verifier) cellsOf(ctx context.Context, c *indexCheck, id entry.ID, row table.Row) (map[string]bool, error) {
	x := &subject{id: id, row: row}
	x.node, _ = master.DecodeNode(row)
	if err := v.deriveQuietly(ctx, x, row.Family(master.UpAttributes)); err != nil {
		return nil, err
	}
	has := map[string]bool{}
	for _, e := range c.mutations(x) {
		has[cellKey(e.row, e.cell.Qualifier)] = true
	}
	return has, nil
}

func cellKey(row, qualifier []byte) string { return string(row) + "\x00" + string(qualifier) }

// deriveQuietly derives values without reporting their faults, because these have already
// been reported.
func (v *verifier) deriveQuietly(ctx context.Context, x *subject, cells []table.Cell) error {
	q := v.quietly()
	for i := range cells {
		if err := q.value(ctx, x, &cells[i]); err != nil {
			return err
		}
	}
	return nil
}
