package control

import "github.com/seed-4dac0d86/ldapd/ldap/ber"

// OIDSubentries is the OID of Subentries.
const OIDSubentries = "1.3.6.1.4.1.4203.1.10.1"

// Subentries is the value of the subentries control.
//
// See RFC 3672, section 3:
//
//	Visibility ::= BOOLEAN
type Subentries struct {
	Visible bool // true: the search returns only subentries; false: no subentries
}

// ParseSubentries parses the value of a request.
func ParseSubentries(value []byte) (s Subentries, err error) {
	r := ber.NewReader(value)
	s.Visible = r.Bool(ber.Boolean)
	r.End()
	return s, r.Err()
}
