package control

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/seed-4dac0d86/ldapd/ldap/ber"
)

// OIDSessionTracking is the OID of SessionTracking.
const OIDSessionTracking = "1.3.6.1.4.1.21008.108.63.1"

// SessionTracking is the value of the session tracking control. The client sends the
// request on behalf of a session in another system. The value describes that session. Logs
// print the value as JSON.
//
// See draft-wahl-ldap-session-03, section 2.1:
//
//	LDAPString ::= OCTET STRING -- UTF-8 encoded
//	LDAPOID ::= OCTET STRING -- Constrained to numericoid
//
//	SessionIdentifierControlValue ::= SEQUENCE {
//		sessionSourceIp                 LDAPString,
//		sessionSourceName               LDAPString,
//		formatOID                       LDAPOID,
//		sessionTrackingIdentifier       LDAPString
//	}
type SessionTracking struct {
	SourceIP   string `json:"ip"`
	SourceName string `json:"name"`
	Format     string `json:"format"` // OID of the format of Identifier
	Identifier string `json:"identifier"`
}

// ParseSessionTracking parses the value of a request.
func ParseSessionTracking(value []byte) (s SessionTracking, err error) {
	err = parse(value, func(r *ber.Reader) {
		s.SourceIP = string(r.Bytes(ber.OctetString))
		s.SourceName = string(r.Bytes(ber.OctetString))
		s.Format = string(r.Bytes(ber.OctetString))
		s.Identifier = string(r.Bytes(ber.OctetString))
	})
	if err == nil {
		err = s.check()
	}
	return s, err
}

// check checks the values against section 2.1 of the draft. It enforces the limits that
// the draft only suggests, because a log stores the whole value.
func (s *SessionTracking) check() error {
	for _, f := range []struct {
		name, value string
		most        int
	}{
		{"sessionSourceIp", s.SourceIP, 128},
		{"sessionSourceName", s.SourceName, 65536},
		{"formatOID", s.Format, 1024},
		{"sessionTrackingIdentifier", s.Identifier, 65536},
	} {
		switch {
		case len(f.value) > f.most:
			return fmt.Errorf("%s has %d octets, %d are the most", f.name, len(f.value), f.most)
		case !utf8.ValidString(f.value):
			return fmt.Errorf("%s is not UTF-8", f.name)
		}
	}
	if s.Format == "" || strings.Trim(s.Format, "0123456789.") != "" {
		return fmt.Errorf("formatOID %q is not an OID in numbers", s.Format)
	}
	return nil
}
