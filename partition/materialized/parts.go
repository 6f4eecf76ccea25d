package materialized

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/big"
	"slices"

	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// The table of a view has rows of several kinds, by the first byte of the key. Each lane
// has a column of its own, which only steps of that lane write.
//
//	r group               a record: the number of entries, and the sums
//	v group total value   the number of times that a value occurs, for min and max;
//	                      the total 0xff counts spellings of the group
//	o order id            an entry of a list
//	m                     the number of entries of a list that have several values of the
//	                      first attribute of the order
//	c id                  the number of an entry's children, and of all entries below it
//	s                     the finished steps: a lane's column has a version for each of its steps
//
// A group consists of the keys of its values, each with its length before it. An integer
// is encoded so that the keys sort like the integers.
const (
	recordRow  = 'r'
	valueRow   = 'v'
	listedRow  = 'o'
	severalRow = 'm'
	countRow   = 'c'
	stepsRow   = 's'

	spellings = 0xff // in the key of a value's row, in place of the number of a total

	family = table.Family('p')
)

// maxKey bounds the length of a value and of its key. A longer value belongs to no group, and a
// longer integer is not counted in a total.
const maxKey = 512

// maxCombinations bounds the number of groups that one entry belongs to. If its values
// have more combinations, the entry belongs only to the first groups in the order of keys.
const maxCombinations = 1000

// A part is the contribution of a lane's entries to one row, or the difference between two
// contributions.
type part struct {
	n    int64
	sums []*big.Int // the sums of a record; in the kind Subordinates, the number of entries below
}

func (p *part) isZero() bool {
	return p.n == 0 && !slices.ContainsFunc(p.sums, func(s *big.Int) bool { return s.Sign() != 0 })
}

// add adds sign times q to p.
func (p *part) add(q *part, sign int64) {
	p.n += sign * q.n
	for i, s := range q.sums {
		if len(p.sums) <= i {
			p.sums = append(p.sums, new(big.Int))
		}
		if sign < 0 {
			p.sums[i].Sub(p.sums[i], s)
		} else {
			p.sums[i].Add(p.sums[i], s)
		}
	}
}

// parts maps the keys of rows to parts.
type parts map[string]*part

// add adds sign times q to the part with the given key. It removes the part if it becomes
// zero.
func (ps parts) add(key string, q *part, sign int64) {
	p := ps[key]
	if p == nil {
		p = &part{}
		ps[key] = p
	}
	p.add(q, sign)
	if p.isZero() {
		delete(ps, key)
	}
}

// encode encodes a part as the value of a cell.
func (p *part) encode() []byte {
	b := binary.AppendVarint(nil, p.n)
	for _, s := range p.sums {
		text := s.Append(nil, 62)
		b = append(binary.AppendUvarint(b, uint64(len(text))), text...)
	}
	return b
}

func decodePart(b []byte) (*part, error) {
	p := &part{}
	n, k := binary.Varint(b)
	if k <= 0 {
		return nil, fmt.Errorf("part of a record: %w", table.ErrCorrupt)
	}
	p.n, b = n, b[k:]
	for len(b) > 0 {
		text, rest, ok := cut(b)
		if !ok {
			return nil, fmt.Errorf("part of a record: %w", table.ErrCorrupt)
		}
		s, ok := new(big.Int).SetString(string(text), 62)
		if !ok {
			return nil, fmt.Errorf("part of a record: %w", table.ErrCorrupt)
		}
		p.sums, b = append(p.sums, s), rest
	}
	return p, nil
}

// lengthened appends a value with its length before it.
func lengthened(b, value []byte) []byte {
	return append(binary.BigEndian.AppendUint16(b, uint16(len(value))), value...)
}

// cut splits off a value with a length before it, as encode writes it.
func cut(b []byte) (value, rest []byte, ok bool) {
	n, k := binary.Uvarint(b)
	if k <= 0 || n > uint64(len(b)-k) {
		return nil, nil, false
	}
	return b[k : k+int(n)], b[k+int(n):], true
}

// cutLengthened splits off a value as lengthened appends it.
func cutLengthened(b []byte) (value, rest []byte, ok bool) {
	if len(b) < 2 || len(b)-2 < int(binary.BigEndian.Uint16(b)) {
		return nil, nil, false
	}
	n := 2 + int(binary.BigEndian.Uint16(b))
	return b[2:n], b[n:], true
}

// integerKey encodes an integer so that keys sort like integers.
func integerKey(n *big.Int) []byte {
	magnitude := n.Bytes()
	b := append(binary.BigEndian.AppendUint16([]byte{1}, uint16(len(magnitude))), magnitude...)
	if n.Sign() < 0 {
		for i := range b {
			b[i] = ^b[i]
		}
		b[0] = 0
	}
	return b
}

func integerOf(key []byte) *big.Int {
	if len(key) < 3 {
		return new(big.Int)
	}
	if key[0] == 1 {
		return new(big.Int).SetBytes(key[3:])
	}
	b := slices.Clone(key[3:])
	for i := range b {
		b[i] = ^b[i]
	}
	n := new(big.Int).SetBytes(b)
	return n.Neg(n)
}

// give adds to ps the parts that an entry has in a state, multiplied by sign. An entry that
// does not exist, is not in the base's subtree or does not match the filter has no parts.
func (d *Definition) give(ctx context.Context, s *state.Snapshot, base, id entry.ID, sign int64, ps parts) error {
	item, err := s.Item(ctx, id)
	if err != nil || item == nil {
		return err
	}
	in, err := s.Within(ctx, id, item.Node.Parent, base)
	if err != nil || !in {
		return err
	}
	e, err := s.EntryOf(ctx, id, item, false, d.needs)
	if err != nil {
		return err
	}
	if d.filter.Match(&filter.EntrySource{Schema: s.Catalog.Schema, Entry: e}) != filter.True {
		return nil
	}
	d.giveEntry(e, sign, ps)
	return nil
}

// giveEntry adds to ps the parts of an entry that matches the filter, multiplied by sign.
func (d *Definition) giveEntry(e *entry.Entry, sign int64, ps parts) {
	if d.Kind == List {
		d.giveListed(e, sign, ps)
		return
	}
	one := &part{n: 1}
	record := &part{n: 1}
	var values [][]byte // the end of the key of each value's row: the number of a total, and a value
	for i, t := range d.Totals {
		if t.Op == Count {
			continue
		}
		sum := new(big.Int)
		for _, n := range integers(e, t.typ) {
			sum.Add(sum, n)
			if t.Op != Sum {
				values = append(values, append([]byte{byte(i)}, integerKey(n)...))
			}
		}
		if t.Op == Sum {
			record.sums = append(record.sums, sum)
		}
	}
	for _, g := range d.groupsOf(e) {
		ps.add(string(recordRow)+g.key, record, sign)
		ps.add(string(valueRow)+g.key+string([]byte{spellings})+g.spelling, one, sign)
		for _, v := range values {
			ps.add(string(valueRow)+g.key+string(v), one, sign)
		}
	}
}

func integers(e *entry.Entry, t *schema.AttributeType) (ns []*big.Int) {
	for i := range e.Attributes {
		if e.Attributes[i].Type != t {
			continue
		}
		for _, v := range e.Attributes[i].Values {
			if n, ok := new(big.Int).SetString(string(v), 10); ok && len(v) <= maxKey {
				ns = append(ns, n)
			}
		}
	}
	return ns
}

// A group is one combination of values of the types in Definition.Groups. spelling
// contains the values as the entry spells them.
type group struct{ key, spelling string }

// groupsOf returns the groups that an entry belongs to, each once, and at most maxCombinations
// groups. An entry that lacks a value of one of the types belongs to no group.
func (d *Definition) groupsOf(e *entry.Entry) []group {
	groups := []group{{}}
	for _, t := range d.Groups {
		var next []group
		for _, g := range groups {
			for _, v := range valuesOf(e, t) {
				if len(next) == maxCombinations {
					break
				}
				next = append(next, group{g.key + v.key, g.spelling + v.spelling})
			}
		}
		groups = next
	}
	return groups
}

// valuesOf returns the distinct values of a type, sorted by key. If a value occurs in
// several spellings, one of them is used.
func valuesOf(e *entry.Entry, t *schema.AttributeType) (vs []group) {
	for i := range e.Attributes {
		if e.Attributes[i].Type != t {
			continue
		}
		for _, v := range e.Attributes[i].Values {
			key, err := t.Equality.Key(v)
			if err == nil && len(key) <= maxKey && len(v) <= maxKey {
				vs = append(vs, group{string(lengthened(nil, key)), string(lengthened(nil, v))})
			}
		}
	}
	slices.SortFunc(vs, func(a, b group) int {
		if c := bytes.Compare([]byte(a.key), []byte(b.key)); c != 0 {
			return c
		}
		return bytes.Compare([]byte(a.spelling), []byte(b.spelling))
	})
	return slices.CompactFunc(vs, func(a, b group) bool { return a.key == b.key })
}
