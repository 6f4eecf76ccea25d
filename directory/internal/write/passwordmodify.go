package write

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"

	"github.com/seed-4dac0d86/ldapd/acl"
	"github.com/seed-4dac0d86/ldapd/auth"
	"github.com/seed-4dac0d86/ldapd/control"
	"github.com/seed-4dac0d86/ldapd/directory/internal/identify"
	"github.com/seed-4dac0d86/ldapd/directory/internal/password"
	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/directory/internal/settings"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/partition"
)

// PasswordModify sets a password (RFC 3062): a user's own, or by the
// administrator anyone's. Without a new one it makes one and tells it.
func PasswordModify(ctx context.Context, req *request.Request, value []byte) error {
	p, err := control.ParsePasswordModify(value)
	switch {
	case err != nil:
		return op.Errorf(op.ProtocolError, "Password Modify: %v", err)
	case password.InClear(req):
		return password.ErrClear
	case req.Who == nil:
		return op.Errorf(op.UnwillingToPerform, "bind first")
	}
	name, err := passwordTarget(ctx, req, p.Identity)
	if err != nil {
		return err
	}
	generated := p.New == nil
	if generated {
		p.New = []byte(rand.Text())
	}
	if len(p.New) == 0 {
		return password.ErrEmptyPassword
	}
	var changes []op.Modification
	u := &update{
		name: name,
		allowed: func(_ context.Context, req *request.Request, _ partition.Located, d *acl.Decision) error {
			return refuseUnless(d.All(req.Known.UserPassword, acl.Insert|acl.Remove))
		},
		check: func() error { return checkOld(ctx, req, name, p.Old) },
		prepare: func() (err error) {
			changes, err = password.New(ctx, req, p.New)
			return err
		},
		change: func(tx *partition.Tx) error { return modifyIn(ctx, req, tx, name, changes) },
	}
	if err := u.run(ctx, req); err != nil {
		return err
	}
	identify.ChangedPassword(req)
	if generated {
		req.Response.Value = control.PasswordModifyResult{Generated: p.New}.Encode()
	}
	sendToken(req)
	return nil
}

// passwordTarget is whose password is to be set: the requester's, or that of a
// DN, with "dn:" in front or not, or of a name with "u:" in front.
func passwordTarget(ctx context.Context, req *request.Request, identity *string) (dn.DN, error) {
	s := req.Who.Name
	if identity != nil {
		s = *identity
	}
	if kind, rest, ok := strings.Cut(s, ":"); ok && identity != nil {
		switch strings.ToLower(kind) {
		case "dn":
			s = rest
		case "u":
			who, err := userNamed(ctx, req, s)
			if err != nil {
				return nil, err
			}
			s = who.Name
		}
	}
	name, err := target(s)
	if err == nil && req.Server.IsAdmin(name) {
		return nil, op.Errorf(op.UnwillingToPerform, "the administrator's password is in the server's configuration")
	}
	return name, err
}

// userNamed returns who has a name, if the requester may know.
func userNamed(ctx context.Context, req *request.Request, authzID string) (*settings.Identity, error) {
	s := req.Now()
	defer s.Close()
	who, err := identify.AuthzID(ctx, req, authzID)
	switch {
	case errors.Is(err, identify.ErrNobody) && req.Who.IsAdmin():
		return nil, op.Errorf(op.NoSuchObject, "the userIdentity %q is nobody's, or more than one entry's", authzID)
	case errors.Is(err, identify.ErrNobody):
		return nil, request.ErrAccess
	case err != nil || req.Judge.Free():
		return who, err
	}
	return who, mayKnow(ctx, req, who)
}

// mayKnow refuses somebody whose entry the requester does not see, as if there were
// nobody of the name.
func mayKnow(ctx context.Context, req *request.Request, who *settings.Identity) error {
	if !who.HasEntry() {
		return request.ErrAccess
	}
	name, err := dn.Parse(who.Name)
	if err != nil {
		return err
	}
	if _, err = req.Judge.Find(ctx, name); request.IsMissing(err) {
		return request.ErrAccess
	}
	return err
}

// checkOld verifies the old password if one is given (RFC 3062, 2), also if the
// requester could do without.
func checkOld(ctx context.Context, req *request.Request, name dn.DN, old []byte) error {
	if old == nil {
		return nil
	}
	stored, err := password.Stored(ctx, req, name, "userPassword")
	if err != nil {
		return err
	}
	for _, v := range stored {
		ok, err := req.Server.Passwords.Verify(ctx, req.Session.Channel, v, old)
		if ok || err != nil && !errors.Is(err, auth.ErrScheme) {
			return err
		}
	}
	return op.Errorf(op.UnwillingToPerform, "the old password is not right")
}
