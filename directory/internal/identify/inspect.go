package identify

import (
	"context"
	"errors"

	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/directory/internal/judge"
	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/directory/settings"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition/state"
)

// errInspected is the answer to an identity that does not exist, or whose rights the
// requester may not ask for. The answer does not reveal which of these is the case.
var errInspected = op.Errorf(op.InsufficientAccessRights, "you may not ask for the rights of this identity")

// Inspected returns the Judge for the identity that the Get Effective Rights control names.
// The Judge decides as if that identity used the requester's connection. The result own
// reports whether the identity is the requester. To ask about another identity, the requester
// needs the right explain on the entry of the other identity, unless that identity is anonymous.
func Inspected(ctx context.Context, req *request.Request, authzID *string) (j judge.Judge, own bool, err error) {
	j = req.Judge
	if authzID == nil {
		return j, true, nil
	}
	who, err := AuthzID(ctx, above(req), *authzID)
	if errors.Is(err, ErrNobody) {
		return j, false, errInspected
	}
	if err != nil || sameIdentity(who, req.Who) {
		return j, err == nil, err
	}
	if err := mayInspect(ctx, &req.Judge, who); err != nil {
		return j, false, err
	}
	if who.IsAdmin() {
		j.Unrestrict()
		return j, false, nil
	}
	if who != nil {
		who.Bound = req.Who.Mechanism()
	}
	newest := state.Newest(req.Server.Part)
	defer newest.Close()
	p, err := req.ProgramOf(ctx, newest, who)
	if err == nil {
		j.By(p)
	}
	return j, false, err
}

// sameIdentity reports whether two identities are the same. A requester may always ask about
// their own rights.
func sameIdentity(a, b *settings.Identity) bool {
	switch {
	case a == nil || b == nil:
		return a == b
	case a.Admin || b.Admin:
		return a.Admin && b.Admin
	}
	return a.HasEntry() && a.ID == b.ID
}

// mayInspect returns an error unless the requester may ask for the rights of an identity.
// Everybody may ask for the rights of the anonymous identity, which has no entry: the
// requester then needs only the right explain on the entries found.
func mayInspect(ctx context.Context, j *judge.Judge, who *settings.Identity) error {
	if who == nil {
		return nil
	}
	return mayActOn(ctx, j, who, acl.Explain, errInspected)
}
