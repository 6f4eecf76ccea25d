// Package tree is the table of names: it maps (parent's id, normalised RDN) to id,
// and contains the keys of each entry's values, except secret values.
//
// Row: the parent's UUID, 16 bytes, and the normalised RDN. A naming context is a child
// of the virtual root, and its RDN is its whole normalised name. The children of X are
// the rows [X, X+1). Families:
//
//	t  treeInfo        i  the entry's id
//	n  normAttributes  keys (see below): with these, filters, compares and
//	                   membership tests need not read the entry, and a
//	                   delete finds the column of a value
//	m  marks (package txn)
//
// A column of normAttributes begins with the type's code, or its OID if it has none, and its
// options:
//
//	type;options = key       -> position of the value in master
//	type;options ~ key hash  -> position of the value in master, if its key is
//	                           too long for a column: the column contains the
//	                           key's first bytes and a hash. Such a column
//	                           decides equality, but no other test.
//	type;options :           -> key of a value without a position. A value that
//	                           is written while its type is SINGLE-VALUE has no
//	                           position, so that a new value replaces the old.
//	type;options ?           -> 01; the attribute has values, but its type has
//	                           no equality rule
//	type;options >           -> 01; the attribute has too many values for this
//	                           table: all its columns are in the normAttributes
//	                           of the table master, and contain the keys
//
// Secret types have no columns, and neither have those of [schema.AttributeType.Keyless].
//
// A reader must use the kind of the column, not the type, because a type may become
// SINGLE-VALUE, or may stop being SINGLE-VALUE, while entries have values of it.
package tree

import (
	"bytes"
	"crypto/sha256"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/master"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// These are the families of the table.
const (
	TreeInfo       table.Family = 't'
	NormAttributes table.Family = 'n'
)

// Name is the name of the table.
const Name = "tree"

// Spec describes the table.
func Spec() table.Spec {
	return table.Spec{
		Name:     Name,
		Families: []table.FamilySpec{{Name: TreeInfo}, {Name: NormAttributes}, {Name: table.MarkFamily}},
		Splits:   [][]byte{{0x40}, {0x80}, {0xc0}},
	}
}

// ManyValues is the number of values above which the columns of a description are moved to
// master. They stay there while values are added and removed.
const ManyValues = 100

const (
	maxRDN  = 1024 // longest normalised RDN in a row key; a longer RDN is cut and hashed
	maxKey  = 512  // longest key in a qualifier
	hashLen = 16
)

var id = []byte("i")

// Key returns the row key of a parent's child with the given RDN.
func Key(parent entry.ID, rdn dn.Norm) []byte {
	k := make([]byte, 0, len(parent)+min(len(rdn), maxRDN+hashLen))
	k = append(k, parent[:]...)
	if len(rdn) > maxRDN {
		return append(append(k, rdn[:maxRDN]...), Hash(rdn)...)
	}
	return append(k, rdn...)
}

// CutKey parses a row key. If the RDN was too long for the key, hash is the [Hash] of the RDN, and rdn is only the
// beginning of it.
func CutKey(row []byte) (parent entry.ID, rdn dn.Norm, hash []byte) {
	rdn = dn.Norm(row[copy(parent[:], row):])
	if len(rdn) > maxRDN {
		rdn, hash = rdn[:maxRDN], []byte(rdn[maxRDN:])
	}
	return parent, rdn, hash
}

// Hash returns the hash that ends a row key and a column's qualifier in place of the rest of a long RDN or key.
func Hash[T ~string | ~[]byte](whole T) []byte {
	h := sha256.Sum256([]byte(whole))
	return h[:hashLen]
}

// CutHash returns the hash in the column of a key that was cut.
func (c *Column) CutHash() []byte { return c.Key[max(0, len(c.Key)-hashLen):] }

// Parent returns the parent's id, which begins a row key.
func Parent(row []byte) (p entry.ID) {
	copy(p[:], row)
	return p
}

// Children returns the range of the rows of an entry's children.
func Children(parent entry.ID) table.Range { return table.Prefix(parent[:]) }

// ID returns the entry's id from a row that was read with the family TreeInfo.
func ID(r table.Row) (e entry.ID, ok bool) {
	c := r.Find(TreeInfo, id)
	return e, c != nil && copy(e[:], c.Value) == len(e)
}

// Cell returns the cell that contains an entry's id.
func Cell(e entry.ID) table.Cell {
	return table.Cell{Family: TreeInfo, Qualifier: id, Value: e[:]}
}

// Columns returns the range of all columns for the values of exactly one type, with any
// options.
func Columns(t *schema.AttributeType) table.ColumnRange {
	return table.ColumnRange{Family: NormAttributes, From: []byte(t.InKeys() + ":"), To: []byte(t.InKeys() + "\x7f")}
}

// A Column is one decoded column of normAttributes.
type Column struct {
	Type     []byte // code or OID
	Options  string
	Kind     byte // one of = ~ : ? >
	Key      []byte
	Position master.Position
}

// These are the kinds of columns. The package comment describes each kind.
const (
	Whole   = '='
	Cut     = '~'
	Single  = ':'
	Unkeyed = '?'
	Many    = '>'
)

// Decode decodes a column. The result shares the bytes of the cell. It is the zero Column if
// the column is malformed.
func Decode(c *table.Cell) Column {
	q := c.Qualifier
	i := bytes.IndexAny(q, ":;=>?~")
	if i < 0 {
		return Column{}
	}
	col := Column{Type: q[:i]}
	if q[i] == ';' {
		j := i + bytes.IndexAny(q[i:], ":=>?~")
		if j < i {
			return Column{}
		}
		col.Options, i = string(q[i:j]), j
	}
	col.Kind, col.Key = q[i], q[i+1:]
	switch col.Kind {
	case Single:
		col.Key = c.Value
	case Whole, Cut:
		col.Position = c.Value
	}
	return col
}

// Qualifier returns the qualifier of the column for a key. In this table, only values with a
// position have a column with such a qualifier. In the normAttributes of the table master, all
// values have such a column.
func Qualifier(t *schema.AttributeType, options string, key []byte) []byte {
	typ := t.InKeys()
	q := make([]byte, 0, len(typ)+len(options)+1+min(len(key), maxKey+hashLen))
	q = append(append(q, typ...), options...)
	if len(key) <= maxKey {
		return append(append(q, Whole), key...)
	}
	return append(append(append(q, Cut), key[:maxKey]...), Hash(key)...)
}

// Plain returns the qualifier of a column that has no key in its qualifier.
func Plain(t *schema.AttributeType, options string, kind byte) []byte {
	return append([]byte(t.InKeys()+options), kind)
}

// ColumnOf returns the cell for one value at a position. If the type has an equality rule, the
// cell contains the value's key, which Qualifier may cut. Otherwise the cell records only that
// there are values.
func ColumnOf(t *schema.AttributeType, options string, key []byte, p master.Position) table.Cell {
	c := table.Cell{Family: NormAttributes}
	switch {
	case t.Equality == nil:
		c.Qualifier, c.Value = Plain(t, options, Unkeyed), []byte{1}
	case len(p) == 0:
		c.Qualifier, c.Value = Plain(t, options, Single), key
	default:
		c.Qualifier, c.Value = Qualifier(t, options, key), p
	}
	return c
}
