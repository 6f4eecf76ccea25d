package directory

import (
	"context"
	"errors"
	"time"

	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/table"
	"github.com/seed-4dac0d86/ldapd/txn"
)

// awaitOthers waits until this server shows the commits of others that the request is to
// see.
func (o *operation) awaitOthers(ctx context.Context) error {
	if err := o.original(ctx); err != nil {
		return err
	}
	return o.awaitToken(ctx)
}

// original waits, if the request wants no copy, until this server shows all that
// any server of the store had committed when the request came: the store is the
// original, what a server remembers of it is a copy for up to one poll.
func (o *operation) original(ctx context.Context) error {
	if !o.controls.original {
		return nil
	}
	return o.server.part.CatchUp(ctx)
}

// tokenPatience bounds how long a read waits for what its token names.
const tokenPatience = 5 * time.Second

// awaitToken waits until this server shows the commit that the request's token names.
func (o *operation) awaitToken(ctx context.Context) error {
	if o.controls.atLeast == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, tokenPatience)
	defer cancel()
	err := o.server.part.AtLeast(ctx, o.controls.atLeast)
	if errors.Is(err, txn.ErrRevision) && !errors.Is(err, table.ErrUnavailable) {
		return op.Errorf(op.UnwillingToPerform, "token: %v", err)
	}
	return err
}
