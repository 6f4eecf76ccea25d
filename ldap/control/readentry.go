package control

import "github.com/seed-4dac0d86/ldapd/ldap/ber"

// These are the OIDs of ReadEntry. OIDPreRead is for the entry before the change, and
// OIDPostRead is for the entry after the change.
const (
	OIDPreRead  = "1.3.6.1.1.13.1"
	OIDPostRead = "1.3.6.1.1.13.2"
)

// ReadEntry is the value of the pre-read and post-read request controls. The value of the
// response controls is a SearchResultEntry: see wire.AppendSearchEntry.
//
// See RFC 4527, section 3, and RFC 4511, section 4.5.1:
//
//	AttributeSelection ::= SEQUENCE OF selector LDAPString
type ReadEntry struct{ Attributes []string }

// ParseReadEntry parses the value of a request. The Attributes of the result are never
// nil.
func ParseReadEntry(value []byte) (e ReadEntry, err error) {
	err = parse(value, func(r *ber.Reader) { e.Attributes = parseStrings(r) })
	return e, err
}

// Encode returns the value of a request.
func (e ReadEntry) Encode() []byte {
	b := ber.Open(nil, ber.Sequence)
	for _, a := range e.Attributes {
		b = ber.AppendString(b, ber.OctetString, a)
	}
	return ber.Close(b, 0)
}

// EntryRead is the value of a response: an entry without its name.
type EntryRead map[string][]string

// ParseEntryRead parses the value of a response.
func ParseEntryRead(value []byte) (EntryRead, error) {
	r, e := ber.NewReader(value), EntryRead{}
	entry := r.Enter(ber.Application(4) | ber.Constructed)
	r.Bytes(ber.OctetString)
	list := r.Enter(ber.Sequence)
	for r.More() {
		attribute := r.Enter(ber.Sequence)
		name := string(r.Bytes(ber.OctetString))
		values := r.Enter(ber.Set)
		e[name] = parseStrings(&r)
		r.Leave(values)
		r.Leave(attribute)
	}
	r.Leave(list)
	r.Leave(entry)
	r.End()
	return e, r.Err()
}
