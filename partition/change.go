package partition

import (
	"slices"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/master"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/table"
	"github.com/seed-4dac0d86/ldapd/tree"
	"github.com/seed-4dac0d86/ldapd/txn"
)

// A writer takes mutations: a transaction, or a load.
type writer interface {
	write(t *txn.Table, ms ...table.Mutation)
	// position makes a position larger than those before it.
	position() master.Position
	// stale names something kept in memory that the change makes wrong.
	stale(value uint64)
	// claim takes a value that must be unique for an entry.
	claim(x *indexed, key []byte, id, parent entry.ID)
}

// change gathers what an operation does to one entry: its rows of master and
// tree, which go out as one mutation each, and its index rows.
type change struct {
	p       *Partition
	catalog *catalog
	w       writer
	id      entry.ID
	parent  entry.ID // as index cells say it
	master  table.Mutation
	tree    table.Mutation
}

func newChange(p *Partition, c *catalog, w writer, id, parent entry.ID, rdn dn.Norm) *change {
	return &change{
		p: p, catalog: c, w: w, id: id, parent: parent,
		master: table.Mutation{Row: master.Row(id)},
		tree:   table.Mutation{Row: tree.Key(parent, rdn)},
	}
}

// settle leaves of several cells for one column the last.
func (c *change) settle() {
	c.master.Cells, c.tree.Cells = lastOfEach(c.master.Cells), lastOfEach(c.tree.Cells)
}

// flush hands the rows of master and tree over.
func (c *change) flush() {
	if len(c.master.Cells) > 0 || c.master.DeleteRow {
		c.w.write(c.p.master, c.master)
	}
	if len(c.tree.Cells) > 0 || c.tree.DeleteRow {
		c.w.write(c.p.tree, c.tree)
	}
}

func (c *change) position(t *schema.AttributeType) master.Position {
	if t.SingleValue {
		return nil
	}
	return c.w.position()
}

// lastOfEach sorts cells and keeps the last of those for one column.
func lastOfEach(cells []table.Cell) []table.Cell {
	slices.SortStableFunc(cells, table.Cell.Compare)
	kept := cells[:0]
	for i, c := range cells {
		if i+1 < len(cells) && c.Compare(cells[i+1]) == 0 {
			continue
		}
		kept = append(kept, c)
	}
	return kept
}

// put writes one value: its column in master and its key, in the tree or, of a
// description with many values, in master too.
func (c *change) put(t *schema.AttributeType, options string, v, key []byte, many bool) {
	p := c.position(t)
	c.master.Cells = append(c.master.Cells, master.Value(t, options, p, v))
	switch {
	case t.Secret():
	case many:
		c.master.Cells = append(c.master.Cells, manyColumn(t, options, key, p))
	default:
		c.tree.Cells = append(c.tree.Cells, tree.ColumnOf(t, options, key, p))
	}
}

// manyColumn is the column of a value of a description with many.
func manyColumn(t *schema.AttributeType, options string, key []byte, p master.Position) table.Cell {
	return table.Cell{Family: master.NormAttributes, Qualifier: tree.Qualifier(t, options, key), Value: p}
}

// remove takes out one value by its column. That of values without keys is left to
// who knows whether others stay.
func (c *change) remove(t *schema.AttributeType, options string, k *keyed, many bool) {
	c.master.Cells = append(c.master.Cells, master.Gone(t, options, k.position))
	if t.Equality == nil || t.Secret() {
		return
	}
	cell := table.Cell{Family: tree.NormAttributes, Qualifier: k.qualifier, Tombstone: true}
	if many {
		cell.Family = master.NormAttributes
		c.master.Cells = append(c.master.Cells, cell)
		return
	}
	c.tree.Cells = append(c.tree.Cells, cell)
}

// note writes or takes out a column of the tree that has no key: Many, Unkeyed.
func (c *change) note(t *schema.AttributeType, options string, kind byte, gone bool) {
	cell := table.Cell{Family: tree.NormAttributes, Qualifier: tree.Plain(t, options, kind), Tombstone: gone}
	if !gone {
		cell.Value = []byte{1}
	}
	c.tree.Cells = append(c.tree.Cells, cell)
}

// enter writes or takes out the index cell of a value.
func (c *change) enter(x *indexed, key []byte, gone bool) {
	c.w.write(x.Presence.Table, x.Values.Mutation(key, c.id, c.parent, gone))
	c.w.stale(postingHash(x.typ, key))
	if len(x.unique) > 0 && !gone {
		c.w.claim(x, key, c.id, c.parent)
	}
}

// presence writes or takes out the entry in an existence index.
func (c *change) presence(x *indexed, gone bool) {
	c.w.write(x.Presence.Table, x.Presence.Mutation(c.id, c.parent, gone))
}

// keyOf checks a value's size and syntax and normalises it; the key is nil for
// types whose values have none.
func keyOf(t *schema.AttributeType, v []byte) ([]byte, error) {
	if len(v) > table.MaxValue {
		return nil, problem(TooLarge, "a value of %s has %d bytes: at most %d can be stored", t.Name(), len(v), table.MaxValue)
	}
	if err := t.Syntax.Validate(v); err != nil {
		return nil, problem(InvalidSyntax, "value of %s: %v", t.Name(), err)
	}
	if t.Equality == nil || t.Secret() {
		return nil, nil
	}
	key, err := t.Equality.Key(v)
	if err != nil {
		return nil, problem(InvalidSyntax, "value of %s: %v", t.Name(), err)
	}
	return key, nil
}
