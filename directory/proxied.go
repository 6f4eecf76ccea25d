package directory

import (
	"context"
	"errors"

	"github.com/seed-4dac0d86/ldapd/op"
)

// errProxied is the one answer to a name that does not exist, one that the
// requester may not assume and one whose account is disabled.
var errProxied = op.Errorf(op.AuthorizationDenied, "this identity cannot be assumed")

// assume runs the rest of the operation as the identity that its control asks
// for. Only the administrator may.
func assume(ctx context.Context, o *operation) error {
	if o.controls.proxied == nil {
		return nil
	}
	if !o.who.isAdmin() {
		return errProxied
	}
	s := o.now()
	defer s.Close()
	who, err := o.identify(ctx, *o.controls.proxied)
	if errors.Is(err, errNobody) {
		return errProxied
	}
	if err == nil {
		err = o.enabled(ctx, who, errProxied)
	}
	if err == nil {
		o.who = who
	}
	return err
}
