package control

import "github.com/seed-4dac0d86/ldapd/ldap/ber"

// OIDAccessDiff is the OID of the access diff control, in requests and responses. A request has
// no value. The OID is made from a UUID.
const OIDAccessDiff = "2.25.178558701932725413350933999470490492240"

// AccessDiff is the value of the access diff control in the response to a modify of access
// rules: what `ldapd access diff` prints.
//
//	accessDiff ::= SEQUENCE OF SEQUENCE {
//		gained          BOOLEAN,                  -- else lost
//		rights          SEQUENCE OF OCTET STRING, -- each with its attributes
//		where           SEQUENCE OF OCTET STRING  -- whoever, and on what, one of these holds for
//	}
type AccessDiff []AccessChange

// An AccessChange is a set of rights that some identities gain or lose.
type AccessChange struct {
	Gained        bool
	Rights, Where []string
}

// ParseAccessDiff parses the value of a response.
func ParseAccessDiff(value []byte) (x AccessDiff, err error) {
	err = parse(value, func(r *ber.Reader) {
		list := func() []string {
			outer := r.Enter(ber.Sequence)
			defer r.Leave(outer)
			return parseStrings(r)
		}
		for r.More() {
			outer := r.Enter(ber.Sequence)
			x = append(x, AccessChange{r.Bool(ber.Boolean), list(), list()})
			r.Leave(outer)
		}
	})
	return x, err
}

// Encode returns the value of a response.
func (x AccessDiff) Encode() []byte {
	b := ber.Open(nil, ber.Sequence)
	for _, c := range x {
		start := len(b)
		b = ber.AppendBool(ber.Open(b, ber.Sequence), ber.Boolean, c.Gained)
		b = ber.Close(appendStrings(appendStrings(b, c.Rights), c.Where), start)
	}
	return ber.Close(b, 0)
}
