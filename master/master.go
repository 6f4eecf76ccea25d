// Package master is the table of entries by id. It contains everything needed to rebuild the
// table tree and the indexes.
//
// Row: the entry's UUID, 16 bytes. Families:
//
//	t  treeInfo      w  parent's id, normalised RDN, RDN as the client wrote it (of
//	                 a naming context: its whole name), and the order of the
//	                 attributes, if it is not the default order. In stores without
//	                 codes, these have cells of their own: p n u o
//	a  upAttributes  description 00 position -> value, one column per value
//	s  secrets       the same columns for secret attributes, which most reads
//	                 do not read
//	n  normAttributes  the keys of the values of attributes with very many
//	                   values; the table tree has the keys of all other
//	                   attributes, so renaming a big group is cheap; secret
//	                   attributes have no keys
//	m  marks (package txn)
//
// A description is the type's code, or its short name if it has none, and its sorted options. A [Position] orders
// and distinguishes values without a shared counter. So two servers that add values to
// the same attribute write different columns. A value that is written while its type is
// SINGLE-VALUE has the empty position, so that a new value replaces the old value.
package master

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// These are the families of the table.
const (
	TreeInfo       table.Family = 't'
	UpAttributes   table.Family = 'a'
	Secrets        table.Family = 's'
	NormAttributes table.Family = 'n'
)

// Name is the name of the table.
const Name = "master"

// Spec describes the table. Ids are random, so a distributed engine can split the table
// into even regions.
func Spec() table.Spec {
	return table.Spec{
		Name: Name,
		Families: []table.FamilySpec{
			{Name: TreeInfo},
			{Name: UpAttributes, With: TreeInfo},
			{Name: Secrets},
			{Name: NormAttributes},
			{Name: table.MarkFamily},
		},
		Splits: [][]byte{{0x40}, {0x80}, {0xc0}},
	}
}

var (
	parentID = []byte("p")
	upRDN    = []byte("u")
	normRDN  = []byte("n")
	order    = []byte("o")
	whole    = []byte("w")
)

// A Position orders the values of an attribute. It is the number of a value with which an
// entry begins, or else the stamp of the transaction that added the value and a count within
// that transaction. It is empty for values that were written while their type was
// SINGLE-VALUE.
type Position []byte

// First returns the position of the nth value of a new entry, in 2 or 5 bytes. It is less than
// every position with a stamp since 2017. An entry begins in one transaction, so no other writer
// gives one of its values the same position.
func First(n int) Position {
	if n < 0x0f00 {
		return Position{byte(n >> 8), byte(n)}
	}
	return binary.BigEndian.AppendUint32(Position{0x0f}, uint32(n))
}

// NewPosition returns a position of 12 bytes.
func NewPosition(stamp table.Revision, n int) Position {
	p := binary.BigEndian.AppendUint64(make([]byte, 0, 12), uint64(stamp))
	return binary.BigEndian.AppendUint32(p, uint32(n))
}

// A Node contains an entry's parent, its RDN and the order of its attributes.
type Node struct {
	Parent  entry.ID
	UpRDN   string // as the client wrote it; for a naming context, the whole name
	NormRDN dn.Norm
	Order   entry.Order
}

// Cells returns the treeInfo cells of a node in a store for which the schema was made.
func (n *Node) Cells(s *schema.Schema) []table.Cell {
	if s.Codes() > 0 {
		order := n.Order.String()
		b := make([]byte, 0, len(n.Parent)+2*binary.MaxVarintLen16+len(n.NormRDN)+len(n.UpRDN)+len(order))
		b = binary.AppendUvarint(append(b, n.Parent[:]...), uint64(len(n.NormRDN)))
		b = binary.AppendUvarint(append(b, n.NormRDN...), uint64(len(n.UpRDN)))
		return []table.Cell{{Family: TreeInfo, Qualifier: whole, Value: append(append(b, n.UpRDN...), order...)}}
	}
	cells := make([]table.Cell, 0, 4)
	cells = append(cells, table.Cell{Family: TreeInfo, Qualifier: normRDN, Value: []byte(n.NormRDN)})
	if n.Order != (entry.Order{}) {
		cells = append(cells, table.Cell{Family: TreeInfo, Qualifier: order, Value: []byte(n.Order.String())})
	}
	return append(cells,
		table.Cell{Family: TreeInfo, Qualifier: parentID, Value: n.Parent[:]},
		table.Cell{Family: TreeInfo, Qualifier: upRDN, Value: []byte(n.UpRDN)})
}

// Row returns the row key of an id.
func Row(id entry.ID) []byte { return id[:] }

// Family returns the family that contains the values of a type.
func Family(t *schema.AttributeType) table.Family {
	if t.Secret() {
		return Secrets
	}
	return UpAttributes
}

// Columns returns the range of all values of one description.
func Columns(t *schema.AttributeType, options string) table.ColumnRange {
	return table.ColumnPrefix(Family(t), append([]byte(t.InValues()+options), 0))
}

// Qualifier returns the qualifier of the column of one value.
func Qualifier(t *schema.AttributeType, options string, p Position) []byte {
	name := t.InValues()
	q := make([]byte, 0, len(name)+len(options)+1+len(p))
	q = append(append(q, name...), options...)
	return append(append(q, 0), p...)
}

// Value returns the cell of one value.
func Value(t *schema.AttributeType, options string, p Position, v []byte) table.Cell {
	return table.Cell{Family: Family(t), Qualifier: Qualifier(t, options, p), Value: v}
}

// Gone returns the tombstone of one value.
func Gone(t *schema.AttributeType, options string, p Position) table.Cell {
	return table.Cell{Family: Family(t), Qualifier: Qualifier(t, options, p), Tombstone: true}
}

// AnyOptions returns the ranges of all values of exactly one type, with any options.
func AnyOptions(t *schema.AttributeType) []table.ColumnRange {
	return []table.ColumnRange{Columns(t, ""), table.ColumnPrefix(Family(t), []byte(t.InValues()+";"))}
}

// PositionOf returns the position that a column's qualifier contains.
func PositionOf(qualifier []byte) Position {
	return qualifier[bytes.IndexByte(qualifier, 0)+1:]
}

// DecodeNode decodes the treeInfo of a row. ok is false if the row does not contain a parent's
// id: then the entry does not exist.
func DecodeNode(r table.Row) (n Node, ok bool) {
	cells := r.Family(TreeInfo)
	for i := range cells {
		ok = n.Take(&cells[i]) || ok
	}
	return n, ok
}

// Describe returns the type and the options of the values in a column of upAttributes or secrets. ok is false if the
// column is malformed. The type is nil if the schema does not define it.
func Describe(qualifier []byte, s *schema.Schema) (t *schema.AttributeType, options string, ok bool) {
	d := description(qualifier)
	if d == nil {
		return nil, "", false
	}
	if i := bytes.IndexByte(d, ';'); i >= 0 {
		d, options = d[:i], string(d[i:])
	}
	return s.StoredAs(string(d)), options, true
}

// Take decodes one cell of treeInfo into the node. It reports whether the cell contains
// the parent's id. Every existing entry has such a cell.
func (n *Node) Take(c *table.Cell) (stands bool) {
	switch c.Qualifier[0] {
	case 'w':
		return n.parse(c.Value)
	case 'n':
		n.NormRDN = dn.Norm(c.Value)
	case 'o':
		n.Order = entry.ParseOrder(string(c.Value))
	case 'p':
		return copy(n.Parent[:], c.Value) == len(n.Parent)
	case 'u':
		n.UpRDN = string(c.Value)
	}
	return false
}

// parse decodes the cell that contains the whole node. It returns false if the cell is malformed.
func (n *Node) parse(b []byte) bool {
	if len(b) < len(n.Parent) {
		return false
	}
	rest := string(b[copy(n.Parent[:], b):])
	var norm string
	var ok bool
	if norm, rest, ok = cutText(rest); !ok {
		return false
	}
	n.NormRDN = dn.Norm(norm)
	if n.UpRDN, rest, ok = cutText(rest); ok {
		n.Order = entry.ParseOrder(rest)
	}
	return ok
}

// cutText returns the text that follows its length, and the rest.
func cutText(s string) (text, rest string, ok bool) {
	size, k := binary.Uvarint([]byte(s[:min(len(s), binary.MaxVarintLen64)]))
	if k <= 0 || uint64(len(s)-k) < size {
		return "", "", false
	}
	return s[k : k+int(size)], s[k+int(size):], true
}

// Decode decodes the attributes in the families upAttributes and secrets of a row. The result
// is a copy, and its attributes are in the order of the columns. [Node.Order] contains the
// order of the entry's attributes. Decode returns an error for a malformed column, and for a
// type that the schema does not define. A sound store has no such type, because a type in use
// is never removed.
func Decode(r table.Row, s *schema.Schema) ([]entry.Attribute, error) {
	cells, size, descriptions := 0, 0, 0
	var last []byte
	for i := range r.Cells {
		if f := r.Cells[i].Family; f == UpAttributes || f == Secrets {
			cells++
			size += len(r.Cells[i].Value)
			if d := description(r.Cells[i].Qualifier); cells == 1 || !bytes.Equal(d, last) {
				descriptions++
				last = d
			}
		}
	}
	d := decoder{
		schema: s,
		buf:    make([]byte, 0, size),
		values: make([][]byte, 0, cells),
		out:    make([]entry.Attribute, 0, descriptions+1), // one more for the entryUUID
	}
	for i := range r.Cells {
		if f := r.Cells[i].Family; f == UpAttributes || f == Secrets {
			if err := d.add(&r.Cells[i]); err != nil {
				return nil, fmt.Errorf("entry %x: %w", r.Key, err)
			}
		}
	}
	d.close()
	return d.out, nil
}

// A decoder copies all values to one buffer and lists them in one slice. Each attribute
// refers to a part of the buffer and a part of the slice.
type decoder struct {
	schema *schema.Schema
	buf    []byte
	values [][]byte
	first  int    // index in values of the current attribute's first value
	desc   []byte // description of the current attribute
	out    []entry.Attribute
}

func (d *decoder) add(c *table.Cell) error {
	desc := description(c.Qualifier)
	if desc == nil {
		return fmt.Errorf("column %q: %w", c.Qualifier, table.ErrCorrupt)
	}
	if !bytes.Equal(desc, d.desc) || len(d.out) == 0 {
		d.close()
		t, options, _ := Describe(c.Qualifier, d.schema)
		if t == nil {
			return fmt.Errorf("attribute %s is not in the schema", schema.NameOf(string(desc)))
		}
		d.desc = desc
		d.out = append(d.out, entry.Attribute{Type: t, Options: options})
	}
	at := len(d.buf)
	d.buf = append(d.buf, c.Value...)
	d.values = append(d.values, d.buf[at:len(d.buf):len(d.buf)])
	return nil
}

// description returns the description in a column's qualifier, or nil if there is none.
func description(qualifier []byte) []byte {
	if z := bytes.IndexByte(qualifier, 0); z >= 0 {
		return qualifier[:z]
	}
	return nil
}

func (d *decoder) close() {
	if n := len(d.out); n > 0 {
		d.out[n-1].Values = d.values[d.first:len(d.values):len(d.values)]
		d.first = len(d.values)
	}
}
