package request

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/store/revision"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// Awaits reports whether the request must see commits of other servers.
func (req *Request) Awaits() bool { return req.Controls.original || req.Controls.atLeast != 0 }

// AwaitOthers waits until this server shows the commits of other servers that the request
// must see.
func (req *Request) AwaitOthers(ctx context.Context) error {
	if err := req.original(ctx); err != nil {
		return err
	}
	return req.awaitToken(ctx)
}

// original implements the Don't Use Copy control. It waits until this server shows
// everything that any server of the store had committed when the request arrived. In the
// words of the control, the store is the original, and a server's view of the store is a
// copy, which may be one poll old. Without the control, original does not wait.
func (req *Request) original(ctx context.Context) error {
	if !req.Controls.original {
		return nil
	}
	return req.Server.Part.CatchUp(ctx)
}

// tokenPatience is how long a read waits for the commit that its token names.
const tokenPatience = 5 * time.Second

var errNoNews = fmt.Errorf("%w: the commit of the token did not become visible within %v", table.ErrUnavailable, tokenPatience)

// awaitToken waits until this server shows the commit that the request's token names.
func (req *Request) awaitToken(ctx context.Context) error {
	if req.Controls.atLeast == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, tokenPatience, errNoNews)
	defer cancel()
	if revision.SlotOf(req.Controls.atLeast).IsBranch() {
		return req.Server.Part.CatchUp(ctx)
	}
	err := req.Server.Part.AtLeast(ctx, req.Controls.atLeast)
	if errors.Is(err, partition.ErrRevision) && !errors.Is(err, table.ErrUnavailable) {
		return op.Errorf(op.UnwillingToPerform, "token: %v", err)
	}
	return err
}
