package write

import (
	"context"

	"github.com/seed-4dac0d86/ldapd/directory/internal/password"
	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/partition"
)

// ResetPassword sets the password of the requester, who has no password to show, but a ticket. In all
// else it is a change by the owner, for the policy and for the access rules. The function still is called
// in the transaction, and returns an error if the ticket is not valid in the transaction's state.
func ResetPassword(ctx context.Context, req *request.Request, clear []byte, still func() error) error {
	switch {
	case password.InClear(req):
		return password.ErrClear
	case len(clear) == 0:
		return password.ErrEmptyPassword
	}
	name, err := req.Who.Name.DN()
	if err != nil {
		return err
	}
	u := setPassword(ctx, req, name, &preparation{}, nil, clear)
	open := u.open
	u.check, u.open = still, func() error {
		if err := open(); err != nil {
			return err
		}
		u.prepared.set.Vouch()
		return nil
	}
	return u.run(ctx, req)
}

// MaySetOwn returns an error if the access rules do not let the requester set the own password.
func MaySetOwn(ctx context.Context, req *request.Request) error {
	if err := req.Judged(ctx, req.Snapshot); err != nil || req.Judge.Unrestricted() {
		return err
	}
	d, err := req.Judge.DecideAt(ctx, partition.Located{ID: req.Who.ID, Name: req.Who.Name})
	if err != nil {
		return err
	}
	return refuseSetting(req, d)
}
