package state

import (
	"bytes"
	"context"
	"slices"

	"github.com/seed-4dac0d86/ldapd/master"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/tree"
)

// TypeValues are the keys of an entry's values of one type, listed for each combination of
// options.
type TypeValues struct {
	id        entry.ID
	typ       *schema.AttributeType
	Described []*DescribedValues
}

// DescribedValues are the values of one description. If there are many values, they are
// in columns of the table master, and Find and All read them from that table.
type DescribedValues struct {
	ID      entry.ID
	Typ     *schema.AttributeType
	Options string
	Many    bool
	Unkeyed bool // the description has values without keys
	List    []Keyed
}

// Keyed is one value, as its column describes it: the position of the value and, unless
// the column contains a cut key, the key.
type Keyed struct {
	Qualifier []byte // qualifier of the column, unique within the description
	Key       []byte // nil if the key is cut
	Position  master.Position
}

// ValuesOf reads the keys of an entry's values of one type from the tree, or computes them if they are not stored.
func (s *Snapshot) ValuesOf(ctx context.Context, id entry.ID, t *schema.AttributeType) (*TypeValues, error) {
	node, err := s.Node(ctx, id)
	if err != nil {
		return nil, err
	}
	if node == nil {
		return nil, catalog.Errorf(catalog.NoSuchEntry, "no such entry")
	}
	if t.Keyless() {
		row, err := s.Reader.Get(ctx, s.Partition.Master, master.Row(id), table.Select{
			Families: []table.Family{master.UpAttributes}, Columns: master.AnyOptions(t)})
		if err != nil {
			return nil, err
		}
		return ValuesIn(id, t, row, s.Catalog.Schema)
	}
	row, err := s.Reader.Get(ctx, s.Partition.Tree, tree.Key(node.Parent, node.NormRDN), table.Select{
		Families: []table.Family{tree.NormAttributes}, Columns: []table.ColumnRange{tree.Columns(t)}})
	if err != nil {
		return nil, err
	}
	return ValuesOf(id, t, row), nil
}

// ValuesOf decodes the columns of a type from a row of the tree.
func ValuesOf(id entry.ID, t *schema.AttributeType, row table.Row) *TypeValues {
	tv := &TypeValues{id: id, typ: t}
	cells := row.Range(tree.Columns(t))
	for i := range cells {
		c := tree.Decode(&cells[i])
		d := tv.Description(c.Options)
		switch c.Kind {
		case tree.Many:
			d.Many = true
		case tree.Unkeyed:
			d.Unkeyed = true
		default:
			d.List = append(d.List, keyedOf(t, &cells[i], c))
		}
	}
	return tv
}

// ValuesIn computes the keys of the values that a row of master has of a type.
func ValuesIn(id entry.ID, t *schema.AttributeType, row table.Row, s *schema.Schema) (*TypeValues, error) {
	tv := &TypeValues{id: id, typ: t}
	for i := range row.Cells {
		typ, options, _ := master.Describe(row.Cells[i].Qualifier, s)
		if typ != t {
			continue
		}
		key, err := catalog.KeyOf(t, row.Cells[i].Value)
		if err != nil {
			return nil, err
		}
		d := tv.Description(options)
		d.List = append(d.List, Keyed{tree.Qualifier(t, options, key), bytes.Clone(key), bytes.Clone(master.PositionOf(row.Cells[i].Qualifier))})
	}
	return tv, nil
}

// Is reports whether k is the value with the given key. The argument q is the result of
// tree.Qualifier for the key. If the column of k contains only a cut key, Is compares q with
// the column's qualifier, which contains a hash of the whole key.
func (k *Keyed) Is(key, q []byte) bool {
	if k.Key != nil {
		return bytes.Equal(k.Key, key)
	}
	return bytes.Equal(k.Qualifier, q)
}

func keyedOf(t *schema.AttributeType, cell *table.Cell, c tree.Column) Keyed {
	k := Keyed{Qualifier: bytes.Clone(cell.Qualifier), Position: bytes.Clone(c.Position)}
	if c.Kind != tree.Cut {
		k.Key = bytes.Clone(c.Key)
	}
	return k
}

// Description returns the values with the given options. If there are none, it adds an
// empty list and returns that list.
func (tv *TypeValues) Description(options string) *DescribedValues {
	for _, d := range tv.Described {
		if d.Options == options {
			return d
		}
	}
	d := &DescribedValues{ID: tv.id, Typ: tv.typ, Options: options}
	tv.Described = append(tv.Described, d)
	return d
}

// Present reports whether the type has any value.
func (tv *TypeValues) Present() bool {
	for _, d := range tv.Described {
		if d.Many || d.Unkeyed || len(d.List) > 0 {
			return true
		}
	}
	return false
}

// Find returns the value with the given key, or nil if there is no such value.
func (d *DescribedValues) Find(ctx context.Context, s *Snapshot, key []byte) (*Keyed, error) {
	found, err := d.FindAll(ctx, s, [][]byte{key})
	if err != nil {
		return nil, err
	}
	return found[0], nil
}

// FindAll returns the value for each key, in the order of the argument keys. An element is nil
// if no value has the key. FindAll reads the store at most once.
func (d *DescribedValues) FindAll(ctx context.Context, s *Snapshot, keys [][]byte) ([]*Keyed, error) {
	found := make([]*Keyed, len(keys))
	columns := make([]table.ColumnRange, 0, len(keys))
	var elsewhere []int // indexes of the keys that are not in List
	for i, key := range keys {
		q := tree.Qualifier(d.Typ, d.Options, key)
		if k := slices.IndexFunc(d.List, func(k Keyed) bool { return k.Is(key, q) }); k >= 0 {
			found[i] = &d.List[k]
			continue
		}
		columns, elsewhere = append(columns, table.Column(master.NormAttributes, q)), append(elsewhere, i)
	}
	if !d.Many || len(columns) == 0 {
		return found, nil
	}
	row, err := s.Reader.Get(ctx, s.Partition.Master, master.Row(d.ID), table.Select{Families: []table.Family{master.NormAttributes}, Columns: columns})
	if err != nil {
		return nil, err
	}
	for k, i := range elsewhere {
		if cell := row.Find(master.NormAttributes, columns[k].From); cell != nil {
			found[i] = &Keyed{Qualifier: columns[k].From, Key: keys[i], Position: bytes.Clone(cell.Value)}
		}
	}
	return found, nil
}

// Spelled reads the stored spelling of the values in list from the table master.
func (d *DescribedValues) Spelled(ctx context.Context, s *Snapshot, list []*Keyed) ([][]byte, error) {
	if len(list) == 0 {
		return nil, nil
	}
	columns := make([]table.ColumnRange, len(list))
	for i, k := range list {
		columns[i] = table.Column(master.UpAttributes, master.Qualifier(d.Typ, d.Options, k.Position))
	}
	row, err := s.Reader.Get(ctx, s.Partition.Master, master.Row(d.ID), table.Select{Families: []table.Family{master.UpAttributes}, Columns: columns})
	if err != nil {
		return nil, err
	}
	values := make([][]byte, len(list))
	for i := range list {
		cell := row.Find(master.UpAttributes, columns[i].From)
		if cell == nil {
			return nil, table.ErrCorrupt
		}
		values[i] = bytes.Clone(cell.Value)
	}
	return values, nil
}

// ManyColumns returns the ranges of a description's columns in the table master: the
// range of whole keys and the range of cut keys. The columns of a description with more
// options (";x-a" and ";x-ab") may be between these ranges.
func (d *DescribedValues) ManyColumns() []table.ColumnRange {
	return []table.ColumnRange{
		table.ColumnPrefix(master.NormAttributes, tree.Plain(d.Typ, d.Options, tree.Whole)),
		table.ColumnPrefix(master.NormAttributes, tree.Plain(d.Typ, d.Options, tree.Cut)),
	}
}

// All reads all values of a description, even if there are many.
func (d *DescribedValues) All(ctx context.Context, s *Snapshot) ([]Keyed, error) {
	if !d.Many {
		return d.List, nil
	}
	row, err := s.Reader.Get(ctx, s.Partition.Master, master.Row(d.ID), table.Select{
		Families: []table.Family{master.NormAttributes}, Columns: d.ManyColumns()})
	if err != nil {
		return nil, err
	}
	list := make([]Keyed, len(row.Cells))
	for i := range row.Cells {
		list[i] = keyedOf(d.Typ, &row.Cells[i], tree.Decode(&row.Cells[i]))
	}
	return list, nil
}
