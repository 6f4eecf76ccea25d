package directory

import "github.com/seed-4dac0d86/ldapd/op"

// The authorization identity controls (RFC 3829): a bind asks for it, and its
// response tells.
const (
	authzIDRequest  = "2.16.840.1.113730.3.4.16"
	authzIDResponse = "2.16.840.1.113730.3.4.15"
)

func takeAuthzID(o *operation, _ *op.Message, c *op.Control) error {
	o.controls.authzID = true
	return noValue("authorization identity", c)
}

// tellAuthzID answers a bind that succeeded with who is bound now.
func (o *operation) tellAuthzID() {
	if o.controls.authzID && o.response.Code == op.Success {
		o.respond(authzIDResponse, o.session.who.Load().authzID())
	}
}

// authzID is an authorization identity in the form of RFC 4513, 5.2.1.8, empty
// for the anonymous.
func (i *identity) authzID() []byte {
	if i == nil {
		return []byte{}
	}
	return []byte("dn:" + i.name)
}
