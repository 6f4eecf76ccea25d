package identify

import (
	"context"
	"errors"

	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/directory/internal/judge"
	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/directory/settings"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
)

// errProxied is the answer to an identity that does not exist, that the requester may not
// assume, or whose account is disabled. The answer does not reveal which of these is the
// case.
var errProxied = op.Errorf(op.AuthorizationDenied, "this identity cannot be assumed")

// Assume makes the rest of the operation run as the identity that the proxied authorization
// control names. The identity's account must be usable. The administrator needs no right to
// assume the identity. Other requesters need the proxy right on the identity's entry.
func Assume(ctx context.Context, req *request.Request) error {
	if req.Controls.Proxied == nil {
		return nil
	}
	s := req.Now()
	defer s.Close()
	who, err := AuthzID(ctx, above(req), *req.Controls.Proxied)
	if errors.Is(err, ErrNobody) {
		return errProxied
	}
	if err == nil {
		err = MayAssume(ctx, &req.Judge, who, errProxied)
	}
	if err == nil {
		err = Enabled(ctx, req, who, errProxied)
	}
	if err != nil {
		return err
	}
	req.Who = who
	return req.Judged(ctx, s)
}

// The function "above" returns a copy of the request with an unrestricted Judge. Callers use it
// to look up an identity by name, even if the requester does not see the identity's entry.
func above(req *request.Request) *request.Request {
	x := *req
	x.Judge.Unrestrict()
	return &x
}

// MayAssume returns the given refusal unless the requester may act as the given identity.
// The requester needs the proxy right on the identity's entry. The anonymous identity has no
// entry, so for it the right on any entry is enough.
func MayAssume(ctx context.Context, j *judge.Judge, who *settings.Identity, refusal error) error {
	if p := j.Program(); who == nil && p != nil && p.Somewhere(acl.Proxy) {
		return nil
	}
	return mayActOn(ctx, j, who, acl.Proxy, refusal)
}

// mayActOn returns the given refusal unless the requester has a right on the entry of the
// given identity. If the identity is the administrator or has no entry, only a requester
// whom access rules do not restrict has the right.
func mayActOn(ctx context.Context, j *judge.Judge, who *settings.Identity, right acl.Rights, refusal error) error {
	switch {
	case j.Unrestricted():
		return nil
	case !who.HasEntry() || who.IsAdmin():
		return refusal
	}
	d, err := j.DecideAt(ctx, partition.Located{ID: who.ID, Name: who.Name})
	if err == nil && (d == nil || !d.Entry(right)) {
		err = refusal
	}
	return err
}
