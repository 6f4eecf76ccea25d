package write

import (
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/index"
	"github.com/seed-4dac0d86/ldapd/master"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/tree"
)

// A writer receives mutations. It is a transaction or a load.
type writer interface {
	Write(t table.Table, ms ...table.Mutation)
	// InvalidatePosting records the hash of an index value whose cached posting the change makes invalid
	// (see catalog.PostingHash).
	InvalidatePosting(value uint64)
	// Claim records a unique value that the entry with the given id now has.
	Claim(x *catalog.Indexed, key []byte, id, parent entry.ID)
	// Refer records a new value that names an entry.
	Refer(x *catalog.Indexed, key, value []byte)
}

// A change collects the mutations that one operation makes to one entry. It writes the
// entry's rows in master and tree as one mutation each, when the operation ends. It
// writes index rows immediately.
type change struct {
	p       *catalog.Partition
	catalog *catalog.Catalog
	w       writer
	tx      *Tx // nil for a new entry
	id      entry.ID
	parent  entry.ID // parent's id for index cells
	values  int      // number of values that a new entry has got
	master  table.Mutation
	tree    table.Mutation
}

// newCreation returns the change that makes an entry.
func newCreation(p *catalog.Partition, c *catalog.Catalog, w writer, id, parent entry.ID, rdn dn.Norm) *change {
	return &change{
		p: p, catalog: c, w: w, id: id, parent: parent,
		master: table.Mutation{Row: master.Row(id)},
		tree:   table.Mutation{Row: tree.Key(parent, rdn)},
	}
}

// newChange returns a change of an entry that exists.
func newChange(tx *Tx, id, parent entry.ID, rdn dn.Norm) *change {
	c := newCreation(tx.Partition, tx.Catalog, tx, id, parent, rdn)
	c.tx = tx
	return c
}

// lastOfEach removes each cell that a later cell for the same column replaces.
func (c *change) lastOfEach() {
	c.master.Cells, c.tree.Cells = table.LastOfEach(c.master.Cells), table.LastOfEach(c.tree.Cells)
}

// flush writes the rows in master and tree.
func (c *change) flush() {
	if len(c.master.Cells) > 0 || c.master.DeleteRow {
		c.w.Write(c.p.Master, c.master)
	}
	if len(c.tree.Cells) > 0 || c.tree.DeleteRow {
		c.w.Write(c.p.Tree, c.tree)
	}
}

// position returns the position of the next value of a type.
func (c *change) position(t *schema.AttributeType) master.Position {
	switch {
	case t.SingleValue:
		return nil
	case c.tx != nil:
		return c.tx.Position()
	}
	c.values++
	return master.First(c.values)
}

// put writes one value: its column in master and its key. The key is written to the tree, or to
// master if the description has many values. A value of a secret or a keyless type has no key.
func (c *change) put(t *schema.AttributeType, options string, v, key []byte, many bool) {
	p := c.position(t)
	c.master.Cells = append(c.master.Cells, master.Value(t, options, p, v))
	switch {
	case t.Secret() || t.Keyless():
	case many:
		c.master.Cells = append(c.master.Cells, ManyColumn(t, options, key, p))
	default:
		c.tree.Cells = append(c.tree.Cells, tree.ColumnOf(t, options, key, p))
	}
}

// ManyColumn returns the column in master for the key of a value whose description has
// many values.
func ManyColumn(t *schema.AttributeType, options string, key []byte, p master.Position) table.Cell {
	return table.Cell{Family: master.NormAttributes, Qualifier: tree.Qualifier(t, options, key), Value: p}
}

// remove removes the value k. If the type has no keys, the caller must write the column of the
// tree itself, because the content of that column depends on whether other values remain.
func (c *change) remove(t *schema.AttributeType, options string, k *state.Keyed, many bool) {
	c.master.Cells = append(c.master.Cells, master.Gone(t, options, k.Position))
	if !t.Keyed() {
		return
	}
	cell := table.Cell{Family: tree.NormAttributes, Qualifier: k.Qualifier, Tombstone: true}
	if many {
		cell.Family = master.NormAttributes
		c.master.Cells = append(c.master.Cells, cell)
		return
	}
	c.tree.Cells = append(c.tree.Cells, cell)
}

// note writes a column of the tree that contains no key or, if gone is set, removes it. kind
// is tree.Many or tree.Unkeyed.
func (c *change) note(t *schema.AttributeType, options string, kind byte, gone bool) {
	cell := table.Cell{Family: tree.NormAttributes, Qualifier: tree.Plain(t, options, kind), Tombstone: gone}
	if !gone {
		cell.Value = []byte{1}
	}
	c.tree.Cells = append(c.tree.Cells, cell)
}

// enter writes or removes the index cell of a value.
func (c *change) enter(x *catalog.Indexed, key []byte, gone bool) {
	c.w.Write(x.Table(), x.Mutation(key, c.id, c.parent, gone))
	c.w.InvalidatePosting(catalog.PostingHash(x.Typ, key))
	if len(x.Unique) > 0 && !gone {
		c.w.Claim(x, key, c.id, c.parent)
	}
}

// enterNew writes the index cell of a value that the entry did not have before.
func (c *change) enterNew(x *catalog.Indexed, key, value []byte) {
	c.enter(x, key, false)
	if x.Reference != nil {
		c.w.Refer(x, key, value)
	}
}

// presence writes or removes the index cell that records that the entry has a value of
// the type, if the index has such cells.
func (c *change) presence(x *catalog.Indexed, gone bool) {
	if !index.HasPresence(x.Typ) {
		return
	}
	c.w.Write(x.Table(), x.Presence(c.id, c.parent, gone))
}
