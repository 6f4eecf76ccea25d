package identify

import (
	"context"
	"errors"

	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/op"
)

// errProxied is the one answer to a name that does not exist, one that the
// requester may not assume and one whose account is disabled.
var errProxied = op.Errorf(op.AuthorizationDenied, "this identity cannot be assumed")

// Assume runs the rest of the operation as the identity that its control asks
// for. Only the administrator may.
func Assume(ctx context.Context, req *request.Request) error {
	if req.Controls.Proxied == nil {
		return nil
	}
	if !req.Who.IsAdmin() {
		return errProxied
	}
	s := req.Now()
	defer s.Close()
	who, err := AuthzID(ctx, req, *req.Controls.Proxied)
	if errors.Is(err, ErrNobody) {
		return errProxied
	}
	if err == nil {
		err = Enabled(ctx, req, who, errProxied)
	}
	if err == nil {
		req.Who = who
	}
	return err
}
