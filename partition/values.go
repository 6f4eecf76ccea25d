package partition

import (
	"bytes"
	"context"

	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/master"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/table"
	"github.com/seed-4dac0d86/ldapd/tree"
)

// typeValues is what an entry's normalised columns say about one type, under
// all options.
type typeValues struct {
	id        entry.ID
	typ       *schema.AttributeType
	described []*describedValues
}

// describedValues is the values of one description. If many, they lie in
// master's columns and are asked for one by one; list then has only what was
// asked.
type describedValues struct {
	id      entry.ID
	typ     *schema.AttributeType
	options string
	many    bool
	unkeyed bool // has values, which have no keys
	list    []keyed
}

// keyed is one value by its column: its position, and its key unless it was
// cut.
type keyed struct {
	qualifier []byte // of its column; tells values of a description apart
	key       []byte // nil if cut
	position  master.Position
}

// values reads the columns of a type.
func (s *Snapshot) values(ctx context.Context, id entry.ID, t *schema.AttributeType) (*typeValues, error) {
	node, err := s.node(ctx, id)
	if err != nil {
		return nil, err
	}
	if node == nil {
		return nil, problem(NoSuchEntry, "no such entry")
	}
	row, err := s.r.Get(ctx, s.p.tree, tree.Key(node.Parent, node.NormRDN), table.Select{
		Families: []table.Family{tree.NormAttributes}, Columns: []table.ColumnRange{tree.Columns(t)}})
	if err != nil {
		return nil, err
	}
	return valuesOf(id, t, row), nil
}

// valuesOf reads them from a row of the tree.
func valuesOf(id entry.ID, t *schema.AttributeType, row table.Row) *typeValues {
	tv := &typeValues{id: id, typ: t}
	cells := row.Range(tree.Columns(t))
	for i := range cells {
		c := tree.Decode(&cells[i])
		d := tv.description(c.Options)
		switch c.Kind {
		case tree.Many:
			d.many = true
		case tree.Unkeyed:
			d.unkeyed = true
		default:
			d.list = append(d.list, keyedOf(t, &cells[i], c))
		}
	}
	return tv
}

// is tells whether it is the value with a key, which would be in column q if it
// has a position.
func (k *keyed) is(key, q []byte) bool {
	if k.key != nil {
		return bytes.Equal(k.key, key)
	}
	return bytes.Equal(k.qualifier, q)
}

func keyedOf(t *schema.AttributeType, cell *table.Cell, c tree.Column) keyed {
	k := keyed{qualifier: bytes.Clone(cell.Qualifier), position: bytes.Clone(c.Position)}
	if c.Kind != tree.Cut {
		k.key = bytes.Clone(c.Key)
	}
	return k
}

// description finds the values under options, or makes an empty list.
func (tv *typeValues) description(options string) *describedValues {
	for _, d := range tv.described {
		if d.options == options {
			return d
		}
	}
	d := &describedValues{id: tv.id, typ: tv.typ, options: options}
	tv.described = append(tv.described, d)
	return d
}

// present reports whether the type has any value.
func (tv *typeValues) present() bool {
	for _, d := range tv.described {
		if d.many || d.unkeyed || len(d.list) > 0 {
			return true
		}
	}
	return false
}

// find gives the value with a key, or nil.
func (d *describedValues) find(ctx context.Context, s *Snapshot, key []byte) (*keyed, error) {
	q := tree.Qualifier(d.typ, d.options, key)
	for i := range d.list {
		if d.list[i].is(key, q) {
			return &d.list[i], nil
		}
	}
	if !d.many {
		return nil, nil
	}
	row, err := s.r.Get(ctx, s.p.master, master.Row(d.id), table.Select{
		Families: []table.Family{master.NormAttributes}, Columns: []table.ColumnRange{table.Column(master.NormAttributes, q)}})
	if err != nil || len(row.Cells) == 0 {
		return nil, err
	}
	return &keyed{qualifier: q, key: key, position: bytes.Clone(row.Cells[0].Value)}, nil
}

// manyColumns are the ranges of a description's columns in master: of whole and
// of cut keys. Between them may lie those of a longer option (";x-a" and ";x-ab").
func (d *describedValues) manyColumns() []table.ColumnRange {
	return []table.ColumnRange{
		table.ColumnPrefix(master.NormAttributes, tree.Plain(d.typ, d.options, tree.Whole)),
		table.ColumnPrefix(master.NormAttributes, tree.Plain(d.typ, d.options, tree.Cut)),
	}
}

// all reads the values of a description that has many.
func (d *describedValues) all(ctx context.Context, s *Snapshot) ([]keyed, error) {
	if !d.many {
		return d.list, nil
	}
	row, err := s.r.Get(ctx, s.p.master, master.Row(d.id), table.Select{
		Families: []table.Family{master.NormAttributes}, Columns: d.manyColumns()})
	if err != nil {
		return nil, err
	}
	list := make([]keyed, len(row.Cells))
	for i := range row.Cells {
		list[i] = keyedOf(d.typ, &row.Cells[i], tree.Decode(&row.Cells[i]))
	}
	return list, nil
}
