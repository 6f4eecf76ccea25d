package directory

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"

	"github.com/seed-4dac0d86/ldapd/auth"
	"github.com/seed-4dac0d86/ldapd/control"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/partition"
)

// passwordModify sets a password (RFC 3062): a user's own, or by the
// administrator anyone's. Without a new one it makes one and tells it.
func passwordModify(ctx context.Context, o *operation, value []byte) error {
	p, err := control.ParsePasswordModify(value)
	switch {
	case err != nil:
		return op.Errorf(op.ProtocolError, "Password Modify: %v", err)
	case o.inClear():
		return errClear
	case o.who == nil:
		return op.Errorf(op.UnwillingToPerform, "bind first")
	}
	name, err := passwordTarget(ctx, o, p.Identity)
	if err != nil {
		return err
	}
	generated := p.New == nil
	if generated {
		p.New = []byte(rand.Text())
	}
	if len(p.New) == 0 {
		return errEmptyPassword
	}
	var changes []op.Modification
	u := &update{
		name:  name,
		own:   true,
		check: func() error { return checkOld(ctx, o, name, p.Old) },
		prepare: func() (err error) {
			changes, err = o.newPassword(ctx, p.New)
			return err
		},
		change: func(tx *partition.Tx) error { return modifyIn(ctx, o, tx, name, changes) },
	}
	if err := u.run(ctx, o); err != nil {
		return err
	}
	o.changedPassword()
	if generated {
		o.response.Value = control.PasswordModifyResult{Generated: p.New}.Encode()
	}
	tellToken(o)
	return nil
}

// passwordTarget is whose password is to be set: the requester's, or that of a
// DN, with "dn:" in front or not, or of a name with "u:" in front.
func passwordTarget(ctx context.Context, o *operation, identity *string) (dn.DN, error) {
	s := o.who.name
	if identity != nil {
		s = *identity
	}
	if kind, rest, ok := strings.Cut(s, ":"); ok && identity != nil {
		switch strings.ToLower(kind) {
		case "dn":
			s = rest
		case "u":
			who, err := userNamed(ctx, o, s)
			if err != nil {
				return nil, err
			}
			s = who.name
		}
	}
	name, err := target(s)
	if err == nil && o.server.isAdmin(name) {
		return nil, op.Errorf(op.UnwillingToPerform, "the administrator's password is in the server's configuration")
	}
	return name, err
}

// userNamed returns who has a name, if the requester may know.
func userNamed(ctx context.Context, o *operation, authzID string) (*identity, error) {
	s := o.now()
	defer s.Close()
	who, err := o.identify(ctx, authzID)
	switch {
	case errors.Is(err, errNobody) && o.who.isAdmin():
		return nil, op.Errorf(op.NoSuchObject, "the userIdentity %q is nobody's, or more than one entry's", authzID)
	case errors.Is(err, errNobody):
		return nil, errAccess
	}
	return who, err
}

// checkOld verifies the old password if one is given (RFC 3062, 2), also if the
// requester could do without.
func checkOld(ctx context.Context, o *operation, name dn.DN, old []byte) error {
	if old == nil {
		return nil
	}
	stored, err := o.storedPasswords(ctx, name, "userPassword")
	if err != nil {
		return err
	}
	for _, v := range stored {
		ok, err := o.server.passwords.Verify(ctx, o.session.channel, v, old)
		if ok || err != nil && !errors.Is(err, auth.ErrScheme) {
			return err
		}
	}
	return op.Errorf(op.UnwillingToPerform, "the old password is not right")
}
