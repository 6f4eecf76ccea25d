package directory

import (
	"context"
	"errors"

	"github.com/seed-4dac0d86/ldapd/op"
)

const proxiedAuthorization = "2.16.840.1.113730.3.4.18" // RFC 4370

// takeProxied reads a proxied authorization control, whose value is an
// authorization identity. RFC 4370, 3 refuses one that is not critical: servers
// that do not know it would run the request as somebody else.
func takeProxied(o *operation, _ *op.Message, c *op.Control) error {
	switch {
	case !c.Critical:
		return op.Errorf(op.ProtocolError, "proxied authorization control: it must be critical")
	case c.Value == nil:
		return op.Errorf(op.ProtocolError, "proxied authorization control: it has no value; an empty one names the anonymous")
	}
	authzID := string(c.Value)
	o.controls.proxied = &authzID
	return nil
}

// errProxied is the one answer to a name that does not exist, one that the
// requester may not assume and one whose account is disabled.
var errProxied = op.Errorf(op.AuthorizationDenied, "this identity cannot be assumed")

// assume runs the rest of the operation as the identity that its control asks
// for. Only the administrator may.
func (o *operation) assume(ctx context.Context) error {
	if o.controls.proxied == nil {
		return nil
	}
	if !o.who.isAdmin() {
		return errProxied
	}
	s := o.now()
	defer s.Close()
	who, err := o.identify(ctx, s, *o.controls.proxied)
	if errors.Is(err, errNobody) {
		return errProxied
	}
	if err == nil {
		err = o.enabled(ctx, s, who, errProxied)
	}
	if err == nil {
		o.who = who
	}
	return err
}
