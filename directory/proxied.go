package directory

import (
	"context"
	"errors"

	"github.com/seed-4dac0d86/ldapd/control"
	"github.com/seed-4dac0d86/ldapd/op"
)

// takeProxied reads a proxied authorization control, whose value is an
// authorization identity. RFC 4370, 3 refuses one that is not critical: servers
// that do not know it would run the request as somebody else.
func takeProxied(o *operation, _ *op.Message, c *op.Control) error {
	if !c.Critical {
		return op.Errorf(op.ProtocolError, "proxied authorization control: it must be critical")
	}
	p, err := control.ParseProxiedAuthorization(c.Value)
	if err != nil {
		return malformed("proxied authorization", err)
	}
	o.controls.proxied = &p.AuthzID
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
