package directory

import (
	"github.com/seed-4dac0d86/ldapd/control"
	"github.com/seed-4dac0d86/ldapd/op"
)

// takeAuthzID reads an authorization identity request control (RFC 3829).
func takeAuthzID(o *operation, _ *op.Message, c *op.Control) error {
	o.controls.authzID = true
	return noValue("authorization identity", c)
}

// tellAuthzID answers a bind that succeeded with who is bound now.
func (o *operation) tellAuthzID() {
	if o.controls.authzID && o.response.Code == op.Success {
		o.respond(control.OIDAuthzIDResponse, o.session.who.Load().authzID())
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
