package identify

import (
	"context"
	"errors"

	"github.com/seed-4dac0d86/ldapd/acl"
	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/directory/internal/settings"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/partition"
)

// errProxied is the one answer to a name that does not exist, one that the
// requester may not assume and one whose account is disabled.
var errProxied = op.Errorf(op.AuthorizationDenied, "this identity cannot be assumed")

// Assume runs the rest of the operation as the identity that its control asks
// for: anyone's, if the administrator asks, and otherwise one whose entry the access
// rules let the requester act as.
func Assume(ctx context.Context, req *request.Request) error {
	if req.Controls.Proxied == nil {
		return nil
	}
	s := req.Now()
	defer s.Close()
	who, err := AuthzID(ctx, req, *req.Controls.Proxied)
	if errors.Is(err, ErrNobody) {
		return errProxied
	}
	if err == nil {
		err = mayAssume(ctx, req, who)
	}
	if err == nil {
		err = Enabled(ctx, req, who, errProxied)
	}
	if err != nil {
		return err
	}
	req.Who = who
	return req.Judged(ctx)
}

// mayAssume refuses an identity that the requester may not act as.
func mayAssume(ctx context.Context, req *request.Request, who *settings.Identity) error {
	switch {
	case req.Judge.Free():
		return nil
	case !who.HasEntry() || who.IsAdmin():
		return errProxied
	}
	d, err := req.Judge.DecideAt(ctx, partition.Located{ID: who.ID, Name: who.Name})
	if err == nil && (d == nil || !d.Entry(acl.Proxy)) {
		err = errProxied
	}
	return err
}
