package control

import (
	"errors"

	"github.com/seed-4dac0d86/ldapd/ldap/ber"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
)

// These are the OIDs of SortRequest and SortResponse.
const (
	OIDSortRequest  = "1.2.840.113556.1.4.473"
	OIDSortResponse = "1.2.840.113556.1.4.474"
)

// SortRequest is the value of the server-side sorting request control.
//
// See RFC 2891, section 1.1:
//
//	SortKeyList ::= SEQUENCE OF SEQUENCE {
//		attributeType   AttributeDescription,
//		orderingRule    [0] MatchingRuleId OPTIONAL,
//		reverseOrder    [1] BOOLEAN DEFAULT FALSE }
type SortRequest struct{ Keys []SortKey }

// SortKey is a key of a SortRequest.
type SortKey struct {
	Attribute string
	Rule      string // "": absent
	Reverse   bool
}

// ParseSortRequest parses the value of a request. A value without a key is an error.
func ParseSortRequest(value []byte) (s SortRequest, err error) {
	err = parse(value, func(r *ber.Reader) {
		for r.More() {
			s.Keys = append(s.Keys, parseSortKey(r))
		}
	})
	if err == nil && len(s.Keys) == 0 {
		err = errors.New("it has no key")
	}
	return s, err
}

// parseSortKey parses one key. Ruby's net-ldap (0.19) sends the rule and the order with universal
// tags, twice, and an empty rule.
func parseSortKey(r *ber.Reader) (k SortKey) {
	outer := r.Enter(ber.Sequence)
	k.Attribute = string(r.Bytes(ber.OctetString))
	for r.More() {
		switch tag := r.Peek(); tag {
		case ber.Boolean, ber.Context(1):
			k.Reverse = r.Bool(tag)
		case ber.OctetString:
			k.Rule = string(r.Bytes(tag))
		default:
			k.Rule = string(r.Bytes(ber.Context(0)))
		}
	}
	r.Leave(outer)
	return k
}

// SortResponse is the value of the server-side sorting response control.
//
// See RFC 2891, section 1.2:
//
//	SortResult ::= SEQUENCE {
//		sortResult      ENUMERATED { success (0), ... },
//		attributeType   [0] AttributeDescription OPTIONAL }
type SortResponse struct {
	Code      op.Code
	Attribute string // "": absent
}

// Encode returns the value of a response.
func (s SortResponse) Encode() []byte {
	b := ber.Open(nil, ber.Sequence)
	b = ber.AppendInt(b, ber.Enumerated, int64(s.Code))
	if s.Attribute != "" {
		b = ber.AppendString(b, ber.Context(0), s.Attribute)
	}
	return ber.Close(b, 0)
}
