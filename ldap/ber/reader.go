package ber

import (
	"fmt"
	"math"
)

// A Reader is a cursor over encoded elements. After the first error, the methods that
// read elements return zero values and [Reader.More] returns false, so loops end.
//
// Returned slices are parts of the bytes passed to [NewReader], without capacity beyond
// their ends. A returned slice is nil only after an error.
type Reader struct {
	data []byte
	pos  int
	end  int // end of the element last entered
	err  error
}

// NewReader returns a Reader at the start of b.
func NewReader(b []byte) Reader { return Reader{data: b, end: len(b)} }

// Err returns the first error: a *SyntaxError, or the argument of [Reader.Fail].
func (r *Reader) Err() error { return r.err }

// Offset returns the offset of the next element.
func (r *Reader) Offset() int { return r.pos }

// More reports whether another element begins before the end of the element last entered.
func (r *Reader) More() bool { return r.err == nil && r.pos < r.end }

// At reports whether the next element has the tag t. Decoders use it to detect optional
// elements.
func (r *Reader) At(t Tag) bool { return r.More() && Tag(r.data[r.pos]) == t }

// Peek returns the tag of the next element, or 0 if there is none.
func (r *Reader) Peek() Tag {
	if !r.More() {
		return 0
	}
	return Tag(r.data[r.pos])
}

// Fail sets the Reader's error, unless the Reader already has an error.
func (r *Reader) Fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// Expected sets a SyntaxError at an offset as the Reader's error.
func (r *Reader) Expected(offset int, want, got string) {
	r.Fail(&SyntaxError{Offset: offset, Want: want, Got: got})
}

// Next reads an element with any tag and returns its contents.
func (r *Reader) Next() (Tag, []byte) {
	t, end := r.header()
	if r.err != nil {
		return 0, nil
	}
	b := r.data[r.pos:end:end]
	r.pos = end
	return t, b
}

// Element reads an element with any tag. It returns the whole element, with identifier
// and length.
func (r *Reader) Element() []byte {
	start := r.pos
	if _, b := r.Next(); b == nil {
		return nil
	}
	return r.data[start:r.pos:r.pos]
}

// Bytes reads an element with the tag t and returns its contents.
func (r *Reader) Bytes(t Tag) []byte {
	if !r.expect(t) {
		return nil
	}
	_, b := r.Next()
	return b
}

// Int reads an INTEGER or ENUMERATED. It accepts superfluous leading octets, up to a
// length of eight octets.
func (r *Reader) Int(t Tag) int64 {
	start := r.pos
	b := r.Bytes(t)
	if r.err != nil {
		return 0
	}
	if len(b) == 0 || len(b) > 8 {
		r.Expected(start, "an integer of 1 to 8 octets", fmt.Sprintf("%d octets", len(b)))
		return 0
	}
	v := int64(int8(b[0]))
	for _, c := range b[1:] {
		v = v<<8 | int64(c)
	}
	return v
}

// IntIn reads an integer between min and max, inclusive.
func (r *Reader) IntIn(t Tag, min, max int64) int64 {
	start := r.pos
	v := r.Int(t)
	if r.err == nil && (v < min || v > max) {
		r.Expected(start, fmt.Sprintf("%v of %d to %d", t, min, max), fmt.Sprint(v))
		return 0
	}
	return v
}

// Bool reads a BOOLEAN. Every octet except 0 is true (X.690, 8.2.2).
func (r *Reader) Bool(t Tag) bool {
	start := r.pos
	b := r.Bytes(t)
	if r.err != nil {
		return false
	}
	if len(b) != 1 {
		r.Expected(start, "a boolean of one octet", fmt.Sprintf("%d octets", len(b)))
		return false
	}
	return b[0] != 0
}

// Enter enters a constructed element. Callers must pass outer to [Reader.Leave].
func (r *Reader) Enter(t Tag) (outer int) {
	outer = r.end
	if !r.expect(t) {
		return outer
	}
	if _, end := r.header(); r.err == nil {
		r.end = end
	}
	return outer
}

// Leave leaves a constructed element. The argument must be the result of the Enter that
// entered the element. Leave skips unread elements, because LDAP ignores unknown
// trailing components of a SEQUENCE (RFC 4511, 4). Unread octets that are not elements
// are an error.
func (r *Reader) Leave(outer int) {
	for r.More() {
		r.Next()
	}
	r.end = outer
}

// End sets an error if the element last entered has unread octets.
func (r *Reader) End() {
	if r.More() {
		r.Expected(r.pos, "the end", r.Found())
	}
}

func (r *Reader) expect(t Tag) bool {
	if r.At(t) {
		return true
	}
	r.Expected(r.pos, t.String(), r.Found())
	return false
}

// Found describes the octet at the place of the next element, for [Reader.Expected].
func (r *Reader) Found() string {
	if r.pos >= r.end {
		return "the end"
	}
	return Tag(r.data[r.pos]).String()
}

// Count returns about how many elements b contains, on all levels. It also counts the elements in
// the values of controls and extended operations, which are in octet strings. It counts up to the
// first error.
func Count(b []byte) (n int) {
	for len(b) > 0 {
		t, head, size, err := Header(b)
		if err != nil || head == 0 || size > len(b)-head {
			break
		}
		n++
		b = b[head:]
		if t&Constructed == 0 && !isSequence(b[:size]) {
			b = b[size:]
		}
	}
	return n
}

// isSequence reports whether b looks like one SEQUENCE.
func isSequence(b []byte) bool {
	if len(b) == 0 || Tag(b[0]) != Sequence {
		return false
	}
	_, head, size, err := Header(b)
	return err == nil && head > 0 && head+size == len(b)
}

// header reads the identifier and length of the next element, and returns the end of its
// contents.
func (r *Reader) header() (t Tag, end int) {
	if r.err != nil {
		return 0, 0
	}
	t, head, size, err := Header(r.data[r.pos:r.end])
	if err != nil {
		err.Offset += r.pos
		r.err = err
		return 0, 0
	}
	if head == 0 {
		r.Expected(r.pos, "an element", "the end")
		return 0, 0
	}
	if size > r.end-r.pos-head {
		r.Expected(r.pos, fmt.Sprintf("%v of %d octets", t, size), fmt.Sprintf("only %d", r.end-r.pos-head))
		return 0, 0
	}
	r.pos += head
	return t, r.pos + size
}

// Header reads the identifier and length octets at the start of b. head is the number of
// these octets, and size is the number of octets of contents. If b ends within the
// identifier and length, head is 0. Bytes that cannot be the start of an element are an
// error.
func Header(b []byte) (t Tag, head, size int, err *SyntaxError) {
	if len(b) == 0 {
		return 0, 0, 0, nil
	}
	t = Tag(b[0])
	if t&0x1f == 0x1f {
		return 0, 0, 0, &SyntaxError{0, "a tag number up to 30", fmt.Sprintf("octet %02x", b[0])}
	}
	if len(b) == 1 {
		return t, 0, 0, nil
	}
	if b[1] < 0x80 {
		return t, 2, int(b[1]), nil
	}
	return longHeader(t, b)
}

func longHeader(t Tag, b []byte) (Tag, int, int, *SyntaxError) {
	n := int(b[1] & 0x7f)
	switch {
	case n == 0: // RFC 4511, 5.1 (1)
		return 0, 0, 0, &SyntaxError{1, "a definite length", "an indefinite one"}
	case n > 8:
		return 0, 0, 0, &SyntaxError{1, "a length of at most 8 octets", fmt.Sprintf("one of %d", n)}
	}
	var size uint64
	for i, c := range b[2:] {
		if i == n {
			break
		}
		size = size<<8 | uint64(c)
	}
	if size > math.MaxInt32 {
		return 0, 0, 0, &SyntaxError{1, "a length of less than 2 GiB", fmt.Sprint(size)}
	}
	if len(b) < 2+n {
		return t, 0, 0, nil
	}
	return t, 2 + n, int(size), nil
}
