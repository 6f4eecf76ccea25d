// Package tree is the table of names: (parent's id, normalised RDN) to id, with
// each entry's normalised values beside it.
//
// Row: the parent's UUID, 16 bytes, and the normalised RDN; a naming context is
// a child of the virtual root and its whole normalised name is its RDN. The
// children of X are the rows [X, X+1). Families:
//
//	t  treeInfo        i  the entry's id
//	n  normAttributes  see below; for filters, compare and membership tests
//	                   that read no entry, and for finding the column to delete
//	m  marks (package txn)
//
// A column of normAttributes begins with the type's OID and its options:
//
//	OID;options = key       -> position of the value in master
//	OID;options ~ key hash  -> the same for a key too long for a column: its
//	                           first bytes and a hash; says yes or no to
//	                           equality, "maybe" to everything else
//	OID;options :           -> key; of a value without a position, as a
//	                           SINGLE-VALUE type has it, so that a new one lies
//	                           over the old one
//	OID;options ?           -> 01; has values, but its type has no equality rule
//	OID;options >           -> 01; has too many values to lie here: its columns
//	                           are in master's normAttributes, all of them with
//	                           the key
//
// How a value lies tells its column, not its type: a type may become SINGLE-VALUE,
// or stop being so, while entries have it.
package tree

import (
	"bytes"
	"crypto/sha256"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/master"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/table"
)

// Families of the table.
const (
	TreeInfo       table.Family = 't'
	NormAttributes table.Family = 'n'
)

// Name of the table.
const Name = "tree"

// Spec describes the table.
func Spec() table.Spec {
	return table.Spec{
		Name:     Name,
		Families: []table.FamilySpec{{Name: TreeInfo}, {Name: NormAttributes}, {Name: table.MarkFamily}},
		Splits:   [][]byte{{0x40}, {0x80}, {0xc0}},
	}
}

// ManyValues is the number of values above which an attribute's columns move to
// master.
const ManyValues = 100

const (
	maxRDN  = 1024 // of a normalised RDN in a row key; longer ones are cut and hashed
	maxKey  = 512  // of a key in a qualifier
	hashLen = 16
)

var id = []byte("i")

// Key is the row of a child.
func Key(parent entry.ID, rdn dn.Norm) []byte {
	k := make([]byte, 0, len(parent)+min(len(rdn), maxRDN+hashLen))
	k = append(k, parent[:]...)
	if len(rdn) > maxRDN {
		h := sha256.Sum256([]byte(rdn))
		return append(append(k, rdn[:maxRDN]...), h[:hashLen]...)
	}
	return append(k, rdn...)
}

// Parent is the parent's id in a row key.
func Parent(row []byte) (p entry.ID) {
	copy(p[:], row)
	return p
}

// Children is the range of an entry's children.
func Children(parent entry.ID) table.Range { return table.Prefix(parent[:]) }

// ID reads the entry's id of a row that has the family TreeInfo.
func ID(r table.Row) (e entry.ID, ok bool) {
	c := r.Find(TreeInfo, id)
	return e, c != nil && copy(e[:], c.Value) == len(e)
}

// Cell makes the id's cell.
func Cell(e entry.ID) table.Cell {
	return table.Cell{Family: TreeInfo, Qualifier: id, Value: e[:]}
}

// Columns is the range of everything a row says about values of exactly one
// type, whatever the options.
func Columns(t *schema.AttributeType) table.ColumnRange {
	return table.ColumnRange{Family: NormAttributes, From: []byte(t.OID + ":"), To: []byte(t.OID + "\x7f")}
}

// A Column is what one column of normAttributes says, decoded.
type Column struct {
	OID      []byte
	Options  string
	Kind     byte // one of = ~ : ? >
	Key      []byte
	Position master.Position
}

// Kinds of columns, as in the package comment.
const (
	Whole   = '='
	Cut     = '~'
	Single  = ':'
	Unkeyed = '?'
	Many    = '>'
)

// Decode reads a column. Its parts share the cell's bytes.
func Decode(c *table.Cell) Column {
	q := c.Qualifier
	i := bytes.IndexAny(q, ":;=>?~")
	if i < 0 {
		return Column{}
	}
	col := Column{OID: q[:i]}
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

// Qualifier is the column of a key whose value has a position, in this table, and
// of any key in master's normAttributes.
func Qualifier(t *schema.AttributeType, options string, key []byte) []byte {
	q := make([]byte, 0, len(t.OID)+len(options)+1+min(len(key), maxKey+hashLen))
	q = append(append(q, t.OID...), options...)
	if len(key) <= maxKey {
		return append(append(q, Whole), key...)
	}
	h := sha256.Sum256(key)
	return append(append(append(q, Cut), key[:maxKey]...), h[:hashLen]...)
}

// Plain is the column of a kind that has no key in its qualifier.
func Plain(t *schema.AttributeType, options string, kind byte) []byte {
	return append([]byte(t.OID+options), kind)
}

// ColumnOf makes the cell for one value at a position: of a type with an equality
// rule its key, otherwise a note that there are values.
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
