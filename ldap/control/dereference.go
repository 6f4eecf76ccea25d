package control

import (
	"github.com/seed-4dac0d86/ldapd/ldap/ber"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
)

// OIDDereference is the OID of Dereference and DereferenceResult.
const OIDDereference = "1.3.6.1.4.1.4203.666.5.16"

// Dereference is the value of the dereference request control.
//
// See draft-masarati-ldap-deref-00, section 2.2:
//
//	controlValue ::= SEQUENCE OF derefSpec DerefSpec
//
//	DerefSpec ::= SEQUENCE {
//		derefAttr       attributeDescription,    ; with DN syntax
//		attributes      AttributeList }
type Dereference struct{ Specs []DerefSpec }

// DerefSpec requests attributes of the entries that the values of Attribute name.
type DerefSpec struct {
	Attribute  string
	Attributes []string
}

// ParseDereference parses the value of a request.
func ParseDereference(value []byte) (d Dereference, err error) {
	err = parse(value, func(r *ber.Reader) {
		for r.More() {
			d.Specs = append(d.Specs, parseDerefSpec(r))
		}
	})
	return d, err
}

func parseDerefSpec(r *ber.Reader) (s DerefSpec) {
	outer := r.Enter(ber.Sequence)
	s.Attribute = string(r.Bytes(ber.OctetString))
	list := r.Enter(ber.Sequence)
	s.Attributes = parseStrings(r)
	r.Leave(list)
	r.Leave(outer)
	return s
}

// DereferenceResult is the value of the dereference response control of an entry.
//
// See draft-masarati-ldap-deref-00, section 2.3:
//
//	controlValue ::= SEQUENCE OF derefRes DerefRes
//
//	DerefRes ::= SEQUENCE {
//		derefAttr       AttributeDescription,
//		derefVal        LDAPDN,
//		attrVals        [0] PartialAttributeList OPTIONAL }
type DereferenceResult struct{ Results []DerefRes }

// DerefRes contains the requested attributes of an entry that Attribute names.
type DerefRes struct {
	Attribute  string
	Name       []byte
	Attributes []op.PartialAttribute // empty: attrVals is absent
}

// Encode returns the value of a response.
func (d DereferenceResult) Encode() []byte {
	b := ber.Open(nil, ber.Sequence)
	for i := range d.Results {
		b = d.Results[i].append(b)
	}
	return ber.Close(b, 0)
}

// Size returns about how many octets the result takes.
func (d *DerefRes) Size() int64 {
	const overhead = 32
	n := overhead + len(d.Name)
	for i := range d.Attributes {
		n += overhead + len(d.Attributes[i].Description)
		for _, v := range d.Attributes[i].Values {
			n += overhead + len(v)
		}
	}
	return int64(n)
}

func (d *DerefRes) append(b []byte) []byte {
	start := len(b)
	b = ber.Open(b, ber.Sequence)
	b = ber.AppendString(b, ber.OctetString, d.Attribute)
	b = ber.AppendString(b, ber.OctetString, d.Name)
	if len(d.Attributes) > 0 {
		list := len(b)
		b = ber.Open(b, ber.Context(0)|ber.Constructed)
		for i := range d.Attributes {
			b = appendAttribute(b, &d.Attributes[i])
		}
		b = ber.Close(b, list)
	}
	return ber.Close(b, start)
}

// appendAttribute appends a PartialAttribute (RFC 4511, section 4.1.7).
func appendAttribute(b []byte, a *op.PartialAttribute) []byte {
	start := len(b)
	b = ber.Open(b, ber.Sequence)
	b = ber.AppendString(b, ber.OctetString, a.Description)
	set := len(b)
	b = ber.Open(b, ber.Set)
	for _, v := range a.Values {
		b = ber.AppendString(b, ber.OctetString, v)
	}
	b = ber.Close(b, set)
	return ber.Close(b, start)
}
