package entry

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
	"sync"
	"unsafe"

	"github.com/seed-4dac0d86/ldapd/schema"
)

// A Packed contains attributes in one block of memory without pointers, and the shape of the
// attributes, which is shared. The zero Packed contains no attributes.
//
// The block begins with the width w of its numbers, 2 or 4. Then come numbers of w octets, little
// end first: for each attribute, how many values there are up to its last one; then for each value,
// how many octets there are up to its last one. The octets of the values follow.
type Packed struct {
	shape *shape
	block string
}

// A shape is what entries with the same attribute descriptions have in common.
type shape struct{ described []description }

type description struct {
	typ     *schema.AttributeType
	options string
}

// Shapes packs attributes of one schema, and remembers the shapes that it has made.
type Shapes struct {
	mu    sync.Mutex
	known map[string]*shape
	buf   []byte
}

// manyShapes is a number of shapes. When so many are known, Shapes forgets them. If every entry has
// another shape, nothing is shared, but not more than this is kept beside the entries.
const manyShapes = 1 << 14

// Pack packs attributes and some texts. The result shares no memory with the attributes. It also
// returns the texts as parts of the block, and the size in octets of what it has allocated.
func (s *Shapes) Pack(as []Attribute, texts ...*string) (p Packed, size int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.shape, size = s.shapeOf(as)
	values, octets := 0, 0
	for i := range as {
		values += len(as[i].Values)
		for _, v := range as[i].Values {
			octets += len(v)
		}
	}
	b, number := append(s.buf[:0], 2), binary.LittleEndian.AppendUint16
	put := func(n int) { b = number(b, uint16(n)) }
	if values > 1<<16-1 || octets > 1<<16-1 {
		b[0], put = 4, func(n int) { b = binary.LittleEndian.AppendUint32(b, uint32(n)) }
	}
	values, octets = 0, 0
	for i := range as {
		values += len(as[i].Values)
		put(values)
	}
	for i := range as {
		for _, v := range as[i].Values {
			octets += len(v)
			put(octets)
		}
	}
	for i := range as {
		for _, v := range as[i].Values {
			b = append(b, v...)
		}
	}
	end := len(b)
	for _, t := range texts {
		b = append(b, *t...)
	}
	p.block, s.buf = string(b), b
	if cap(b) > 1<<16 {
		s.buf = nil
	}
	for _, t := range texts {
		*t = p.block[end : end+len(*t)]
		end += len(*t)
	}
	return p, size + len(p.block)
}

// shapeOf returns the shape of attributes, and its size if it is a new one.
func (s *Shapes) shapeOf(as []Attribute) (*shape, int) {
	key := s.buf[:0]
	for i := range as {
		key = append(append(append(key, as[i].Type.OID...), as[i].Options...), ' ')
	}
	s.buf = key
	if known := s.known[string(key)]; known != nil {
		return known, 0
	}
	if s.known == nil || len(s.known) == manyShapes {
		s.known = map[string]*shape{}
	}
	made := &shape{make([]description, len(as))}
	for i := range as {
		made.described[i] = description{as[i].Type, strings.Clone(as[i].Options)}
	}
	s.known[string(key)] = made
	return made, 100 + len(key) + 24*len(as)
}

// Len returns the number of attributes.
func (p Packed) Len() int {
	if p.shape == nil {
		return 0
	}
	return len(p.shape.described)
}

// IsZero reports whether p is the zero Packed.
func (p Packed) IsZero() bool { return p.shape == nil }

// Description returns the type and the options of attribute k.
func (p Packed) Description(k int) (*schema.AttributeType, string) {
	d := &p.shape.described[k]
	return d.typ, d.options
}

// Size returns the size of the block in octets.
func (p Packed) Size() int { return len(p.block) }

// Index returns the index of the attribute with exactly the type t and the given options, or -1.
func (p Packed) Index(t *schema.AttributeType, options string) int {
	for k := range p.Len() {
		if d := &p.shape.described[k]; d.typ == t && d.options == options {
			return k
		}
	}
	return -1
}

// Numbers returns the number of the first value of attribute k, and that of the first value of the
// next attribute. The values of all attributes are numbered from 0 on.
func (p Packed) Numbers(k int) (from, to int) { return p.end(k - 1), p.end(k) }

// Value returns the value with a number. The caller must not change it.
func (p Packed) Value(n int) []byte {
	attributes := p.Len()
	first := 1 + int(p.block[0])*(attributes+p.end(attributes-1))
	from := first
	if n > 0 {
		from += p.end(attributes + n - 1)
	}
	return octets(p.block[from : first+p.end(attributes+n)])
}

// end returns the i-th number of the block. The number before the first is 0.
func (p Packed) end(i int) int {
	if i < 0 {
		return 0
	}
	return number(p.block, i)
}

// number is small enough to be inlined where all values are unpacked.
func number(block string, i int) int {
	if block[0] == 2 {
		return int(block[1+2*i]) | int(block[2+2*i])<<8
	}
	return wideNumber(block[1+4*i:])
}

func wideNumber(b string) int { return int(b[0]) | int(b[1])<<8 | int(b[2])<<16 | int(b[3])<<24 }

// octets returns s without copying it.
func octets(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

// Same reports whether p and q have the same descriptions in the same order, and the same values of the types
// for which the function compared returns true.
func (p Packed) Same(q Packed, compared func(*schema.AttributeType) bool) bool {
	if p.Len() != q.Len() {
		return false
	}
	for k := range p.Len() {
		d := p.shape.described[k]
		if d != q.shape.described[k] || compared(d.typ) && !p.sameValues(q, k) {
			return false
		}
	}
	return true
}

// sameValues reports whether p and q have the same values of attribute k.
func (p Packed) sameValues(q Packed, k int) bool {
	from, to := p.Numbers(k)
	first, end := q.Numbers(k)
	for n := from; n < to && to-from == end-first; n++ {
		if !bytes.Equal(p.Value(n), q.Value(first+n-from)) {
			return false
		}
	}
	return to-from == end-first
}

// Entry returns the entry with an id and the attributes. The values are parts of the block.
func (p Packed) Entry(id ID) *Entry {
	n := p.Len()
	e := &Entry{ID: id, Attributes: make([]Attribute, 0, n)}
	e.Attributes, _ = p.Append(e.Attributes, make([][]byte, 0, p.end(n-1)), nil)
	return e
}

// Append appends the attributes to as, or, if types is not nil, only those of the types. It appends
// their values, which are parts of the block, to values.
func (p Packed) Append(as []Attribute, values [][]byte, types []*schema.AttributeType) ([]Attribute, [][]byte) {
	n := p.Len()
	if n == 0 {
		return as, values
	}
	first := 1 + int(p.block[0])*(n+p.end(n-1))
	for k := range n {
		d := &p.shape.described[k]
		if types != nil && !slices.Contains(types, d.typ) {
			continue
		}
		at, from := len(values), first
		low, high := p.Numbers(k)
		if low > 0 {
			from += p.end(n + low - 1)
		}
		for v := low; v < high; v++ {
			to := first + number(p.block, n+v)
			values = append(values, octets(p.block[from:to]))
			from = to
		}
		as = append(as, Attribute{d.typ, d.options, values[at:len(values):len(values)]})
	}
	return as, values
}
