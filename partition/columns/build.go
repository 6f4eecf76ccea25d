package columns

import (
	"bytes"
	"slices"

	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/tree"
)

// A Builder makes a Table from the rows of the table tree.
type Builder struct {
	asOf  moment
	types []*schema.AttributeType
	made  []values // parallel to types
	ids   []node
	size  uint64 // of the rows
	most  uint64 // size of the table
	full  bool   // the table does not fit
}

// A node is an entry. Its row is its place in the order of Add.
type node struct {
	id, parent entry.ID
	row        uint32
}

// values are the values of a type in the order of Add.
type values struct {
	keys   []byte
	all    []value
	unsure []uint32 // rows

	distinct, octets int // keys and their length, after measure
}

type value struct{ from, to, row uint32 }

// timesLarger is how much larger than the table the rows may be, which contain the key of each value.
const timesLarger = 4

// NewBuilder returns a Builder for a state.
func (c *Cache) NewBuilder(s State, types []*schema.AttributeType) *Builder {
	return &Builder{asOf: momentOf(s), types: types, made: make([]values, len(types)), most: c.most}
}

// Select selects what Add needs of a row.
func (b *Builder) Select() table.Select {
	s := table.Select{Families: []table.Family{tree.TreeInfo, tree.NormAttributes}}
	for _, at := range b.types {
		s.Columns = append(s.Columns, tree.Columns(at))
	}
	return s
}

// Add adds a row. It returns false if the table does not fit into the cache, or the row has no id.
func (b *Builder) Add(row table.Row) bool {
	id, ok := tree.ID(row)
	if !ok {
		b.full = true
		return false
	}
	n := uint32(len(b.ids))
	b.ids = append(b.ids, node{id, tree.Parent(row.Key), n})
	b.size += 36
	for i, at := range b.types {
		v := &b.made[i]
		cells := row.Range(tree.Columns(at))
		for j := range cells {
			c := tree.Decode(&cells[j])
			if c.Kind != tree.Whole && c.Kind != tree.Single {
				v.unsure = append(v.unsure, n)
				b.size += 4
				continue
			}
			from := uint32(len(v.keys))
			v.keys = append(v.keys, c.Key...)
			v.all = append(v.all, value{from, uint32(len(v.keys)), n})
			b.size += uint64(12 + len(c.Key))
		}
		b.full = b.full || len(v.keys) > 1<<31
	}
	b.full = b.full || b.size > timesLarger*b.most || n == 1<<31
	return !b.full
}

// table returns the table of all rows, or nil if it would be larger than the cache. That is known before any of it is made.
func (b *Builder) table() *Table {
	size := sizeOfEntry * len(b.ids)
	for i := range b.made {
		size += b.made[i].measure()
	}
	if uint64(size) > b.most {
		return nil
	}
	slices.SortFunc(b.ids, func(x, y node) int { return x.id.Compare(y.id) })
	t := &Table{asOf: b.asOf, upTo: b.asOf, columns: map[*schema.AttributeType]*column{}}
	t.ids, t.parent = make([]entry.ID, len(b.ids)), make([]uint32, len(b.ids))
	number := make([]uint32, len(b.ids)) // of a row
	parents := map[entry.ID]uint32{}
	for i, n := range b.ids {
		p, known := parents[n.parent]
		if !known {
			p = uint32(len(t.parents))
			t.parents = append(t.parents, n.parent)
			parents[n.parent] = p
		}
		t.ids[i], t.parent[i], number[n.row] = n.id, p, uint32(i)
	}
	if uint64(size+16*len(t.parents)) > b.most {
		return nil
	}
	for i, at := range b.types {
		t.columns[at] = b.made[i].column(number)
		b.made[i] = values{}
	}
	return t
}

// measure sorts the values, and returns how many octets their column takes.
func (v *values) measure() int {
	key := func(x value) []byte { return v.keys[x.from:x.to] }
	slices.SortFunc(v.all, func(x, y value) int { return bytes.Compare(key(x), key(y)) })
	v.distinct, v.octets = 0, 0
	for i, x := range v.all {
		if i == 0 || !bytes.Equal(key(v.all[i-1]), key(x)) {
			v.distinct++
			v.octets += len(key(x))
		}
	}
	return v.octets + 4*(2*v.distinct+1+len(v.all)+len(v.unsure))
}

// column returns the column of the values, after measure. number has the numbers of rows.
func (v *values) column(number []uint32) *column {
	c := &column{
		keys: make([]byte, 0, v.octets), ends: make([]uint32, 0, v.distinct), first: make([]uint32, 0, v.distinct+1),
		numbers: make([]uint32, len(v.all)), unsure: make([]uint32, len(v.unsure)),
	}
	for i, x := range v.all {
		key := v.keys[x.from:x.to]
		if n := len(c.ends); n == 0 || !bytes.Equal(c.key(n-1), key) {
			c.keys = append(c.keys, key...)
			c.ends = append(c.ends, uint32(len(c.keys)))
			c.first = append(c.first, uint32(i))
		}
		c.numbers[i] = number[x.row]
	}
	c.first = append(c.first, uint32(len(v.all)))
	for i, row := range v.unsure {
		c.unsure[i] = number[row]
	}
	return c
}
