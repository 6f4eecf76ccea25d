package control

import (
	"errors"

	"github.com/seed-4dac0d86/ldapd/ldap/ber"
)

// OIDProxiedAuthorization is the OID of ProxiedAuthorization.
const OIDProxiedAuthorization = "2.16.840.1.113730.3.4.18"

// ProxiedAuthorization is the value of the proxied authorization control, which is an
// authorization identity (RFC 4513, section 5.2.1.8).
//
// See RFC 4370, section 3.
type ProxiedAuthorization struct{ AuthzID string }

// ParseProxiedAuthorization parses the value of a request. If value is nil, the control
// has no value, which is an error. Mozilla's LDAP SDK for C, 389 Directory Server's chaining, and
// slapd's back-ldap with the flag obsolete-encoding-workaround put the identity into an OCTET
// STRING, as a draft of RFC 4370 did. No identity begins with the tag of one.
func ParseProxiedAuthorization(value []byte) (p ProxiedAuthorization, err error) {
	if value == nil {
		return p, errors.New("it has no value; an empty one names the anonymous")
	}
	if r := ber.NewReader(value); r.At(ber.OctetString) {
		inner := r.Bytes(ber.OctetString)
		if r.End(); r.Err() == nil {
			value = inner
		}
	}
	return ProxiedAuthorization{string(value)}, nil
}
