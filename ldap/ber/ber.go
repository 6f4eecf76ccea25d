// Package ber reads and writes the subset of the Basic Encoding Rules that LDAP uses (RFC
// 4511, 5.1; X.690): definite lengths, primitive octet strings, tag numbers up to 30.
//
// A [Reader] is a cursor over bytes. It copies nothing, and it keeps its first error. A
// decoder thus reads one element after another and checks [Reader.Err] once, at the end.
// A decoder enters and leaves constructed elements:
//
//	r := ber.NewReader(b)
//	end := r.Enter(ber.Sequence)
//	id := r.Int(ber.Integer)
//	name := r.Bytes(ber.OctetString)
//	r.Leave(end)
//	if err := r.Err(); err != nil { ...
//
// Writing appends to a buffer. A constructed element begins with [Open] and ends with
// [Close]. Close needs the length that the buffer had before Open:
//
//	start := len(b)
//	b = ber.Open(b, ber.Sequence)
//	b = ber.AppendInt(b, ber.Integer, 1)
//	b = ber.AppendString(b, ber.OctetString, "cn=x")
//	b = ber.Close(b, start)
package ber

import "fmt"

// A Tag is an identifier octet: class, constructed bit and number together.
type Tag byte

// The universal tags that LDAP uses.
const (
	Boolean     Tag = 0x01
	Integer     Tag = 0x02
	OctetString Tag = 0x04
	Null        Tag = 0x05
	Enumerated  Tag = 0x0a
	Sequence    Tag = 0x30
	Set         Tag = 0x31
)

// Constructed is the bit that marks the tag of an element that consists of other
// elements.
const Constructed Tag = 0x20

// Application returns the tag [APPLICATION n], primitive; n is at most 30.
func Application(n byte) Tag { return 0x40 | Tag(n) }

// Context returns the context-specific tag [n], primitive; n is at most 30.
func Context(n byte) Tag { return 0x80 | Tag(n) }

// Universal reports whether the tag is one that ASN.1 itself defines.
func (t Tag) Universal() bool { return t&0xc0 == 0 }

// String returns the tag in ASN.1 notation, followed by the octet: "[APPLICATION 3]
// (63)".
func (t Tag) String() string {
	switch t {
	case Boolean:
		return "BOOLEAN (01)"
	case Integer:
		return "INTEGER (02)"
	case OctetString:
		return "OCTET STRING (04)"
	case Null:
		return "NULL (05)"
	case Enumerated:
		return "ENUMERATED (0a)"
	case Sequence:
		return "SEQUENCE (30)"
	case Set:
		return "SET (31)"
	}
	class := [...]string{"UNIVERSAL ", "APPLICATION ", "", "PRIVATE "}[t>>6]
	return fmt.Sprintf("[%s%d] (%02x)", class, t&0x1f, byte(t))
}

// A SyntaxError describes an error at an offset of the Reader's bytes: what was expected
// there, and what was found.
type SyntaxError struct {
	Offset int
	Want   string
	Got    string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("ber: at offset %d: expected %s, found %s", e.Offset, e.Want, e.Got)
}
