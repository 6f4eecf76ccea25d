package write

import (
	"context"
	"errors"
	"strings"

	"github.com/seed-4dac0d86/ldapd/directory/account"
	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/directory/auth"
	"github.com/seed-4dac0d86/ldapd/directory/internal/accountcheck"
	"github.com/seed-4dac0d86/ldapd/directory/internal/identify"
	"github.com/seed-4dac0d86/ldapd/directory/internal/password"
	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/directory/settings"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/ldap/control"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
)

// PasswordModify sets a password (RFC 3062). It sets the requester's own password, or the
// password of another entry if the requester has the rights. If the request has no new
// password, PasswordModify generates a password and returns it.
func PasswordModify(ctx context.Context, req *request.Request, value []byte) error {
	u, err := planPasswordModify(ctx, req, value, &preparation{})
	if err != nil {
		return err
	}
	if err := u.run(ctx, req); err != nil {
		return err
	}
	if generated := u.prepared.generated; generated != nil {
		req.Response.Value = control.PasswordModifyResult{Generated: generated}.Encode()
	}
	sendToken(req)
	return nil
}

// givenPassword reads the value of a Password Modify. It returns an error if the value is
// invalid, or if the operation is not possible on this connection.
func givenPassword(req *request.Request, value []byte) (control.PasswordModify, error) {
	p, err := control.ParsePasswordModify(value)
	switch {
	case err != nil:
		return p, op.Errorf(op.ProtocolError, "Password Modify: %v", err)
	case password.InClear(req):
		return p, password.ErrClear
	case p.New != nil && len(p.New) == 0:
		return p, password.ErrEmptyPassword
	case req.Who == nil:
		return p, op.Errorf(op.UnwillingToPerform, "bind first")
	}
	return p, nil
}

func planPasswordModify(ctx context.Context, req *request.Request, value []byte, prepared *preparation) (*update, error) {
	p, err := givenPassword(req, value)
	if err != nil {
		return nil, err
	}
	name, err := passwordTarget(ctx, req, p.Identity, prepared.kept)
	if err != nil {
		return nil, err
	}
	if p.New == nil {
		if prepared.generated == nil {
			prepared.generated = auth.Generate()
		}
		p.New = prepared.generated
	}
	if identify.MustChange(req, nil) && !isOwn(req, name) {
		return nil, accountcheck.Refusal(req, account.ErrMustChange)
	}
	return setPassword(ctx, req, name, prepared, p.Old, p.New), nil
}

// setPassword returns the update that replaces the passwords of an entry.
func setPassword(ctx context.Context, req *request.Request, name dn.DN, prepared *preparation, old, clear []byte) *update {
	u := &update{
		name:     name,
		prepared: prepared,
		allowed: func(_ context.Context, req *request.Request, _ partition.Located, d *acl.Decision) error {
			return refuseSetting(req, d)
		},
		change: func(tx *partition.Tx) error { return modifyIn(ctx, req, tx, name, nil, prepared.set) },
	}
	u.setsPassword(ctx, req, func() error { return prepared.set.Replace(ctx, req, old, clear) })
	return u
}

// passwordTarget returns the name of the entry that a Password Modify request changes. If
// identity is nil, passwordTarget returns the name of the requester's entry. Otherwise
// identity is a DN, "dn:" and a DN, or "u:" and a user name. The identity rules map a user
// name to an entry. They look the user name up in the newest state, or in the request's
// state if isKept is set.
func passwordTarget(ctx context.Context, req *request.Request, identity *string, isKept bool) (dn.DN, error) {
	s := req.Who.DN()
	if identity != nil {
		s = *identity
	}
	if kind, rest, ok := strings.Cut(s, ":"); ok && identity != nil {
		switch strings.ToLower(kind) {
		case "dn":
			s = rest
		case "u":
			if !isKept {
				s, err := req.Newest(ctx)
				if err != nil {
					return nil, err
				}
				defer s.Close()
			}
			who, err := userNamed(ctx, req, s)
			if err != nil {
				return nil, err
			}
			s = who.DN()
		}
	}
	name, err := target(s)
	if err == nil && req.Server.IsAdmin(name) {
		return nil, op.Errorf(op.UnwillingToPerform, "the administrator's password is in the server's configuration")
	}
	return name, err
}

// refuseSetting returns an error if the requester may not set the password of an entry.
func refuseSetting(req *request.Request, d *acl.Decision) error {
	for _, right := range []acl.Rights{acl.Insert, acl.Remove} {
		if !d.All(req.Known.UserPassword, right) {
			return req.Judge.Refuse(d, acl.Question{Right: right, Type: req.Known.UserPassword})
		}
	}
	return nil
}

// userNamed returns the identity that an authorization identity leads to, if the requester
// sees the entry of the identity.
func userNamed(ctx context.Context, req *request.Request, authzID string) (*settings.Identity, error) {
	who, err := identify.AuthzID(ctx, req, authzID)
	switch {
	case errors.Is(err, identify.ErrNobody) && req.Who.IsAdmin():
		return nil, op.Errorf(op.NoSuchObject, "the userIdentity %q belongs to no entry, or to more than one", authzID)
	case errors.Is(err, identify.ErrNobody):
		return nil, req.Judge.Refuse(acl.Nothing, acl.Question{Right: acl.See})
	case err != nil || req.Judge.Unrestricted():
		return who, err
	}
	return who, mayKnow(ctx, req, who)
}

// mayKnow returns an error if the requester does not see the entry of an identity. The
// error is the same as for an identity that does not exist.
func mayKnow(ctx context.Context, req *request.Request, who *settings.Identity) error {
	if !who.HasEntry() {
		return req.Judge.Refuse(acl.Nothing, acl.Question{Right: acl.See})
	}
	name, err := who.Name.DN()
	if err != nil {
		return err
	}
	if _, err = req.Judge.Find(ctx, name); request.IsMissing(err) {
		return req.Judge.Refuse(acl.Nothing, acl.Question{Right: acl.See})
	}
	return err
}

// isOwn reports whether a name is the requester's name.
func isOwn(req *request.Request, name dn.DN) bool {
	own, err := req.Parse(req.Who.DN())
	key, keyErr := req.Parse(name.String())
	return err == nil && keyErr == nil && own == key
}
