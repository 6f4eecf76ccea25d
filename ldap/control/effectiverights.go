package control

import (
	"errors"
	"strings"

	"github.com/seed-4dac0d86/ldapd/ldap/ber"
)

// OIDEffectiveRights is the OID of EffectiveRights.
const OIDEffectiveRights = "1.3.6.1.4.1.42.2.27.9.5.2"

// EffectiveRights is the value of the Get Effective Rights control. The request has one
// of two forms. In the form of Sun's and OpenDJ's servers it is
//
//	GetRightsControl ::= SEQUENCE {
//		authzId    authzId,
//		attributes SEQUENCE OF AttributeType OPTIONAL }
//
// In the form of 389 Directory Server it is an authorization identity and nothing else.
// The response has no value: the rights are attributes of the entries found.
//
// See draft-ietf-ldapext-acl-model-08, section 9.
type EffectiveRights struct {
	AuthzID    *string  // nil: the requester
	Attributes []string // attributes to report on, besides the attributes that the search requests
}

// ParseEffectiveRights parses the value of a request. An absent or empty value asks about
// the requester.
func ParseEffectiveRights(value []byte) (e EffectiveRights, err error) {
	if len(value) == 0 {
		return e, nil
	}
	if value[0] != byte(ber.Sequence) {
		text := string(value)
		e.AuthzID = &text
		return e, checkAuthzID(text)
	}
	err = parse(value, func(r *ber.Reader) {
		text := string(r.Bytes(ber.OctetString))
		e.AuthzID = &text
		if r.More() {
			inner := r.Enter(ber.Sequence)
			e.Attributes = parseStrings(r)
			r.Leave(inner)
		}
	})
	if err == nil {
		err = checkAuthzID(*e.AuthzID)
	}
	return e, err
}

// checkAuthzID returns an error if a text is not an authorization identity (RFC 4513,
// section 5.2.1.8).
func checkAuthzID(text string) error {
	kind, _, ok := strings.Cut(text, ":")
	if text == "" || ok && (strings.EqualFold(kind, "dn") || strings.EqualFold(kind, "u")) {
		return nil
	}
	return errors.New(`the identity has to begin with "dn:" or "u:"`)
}
