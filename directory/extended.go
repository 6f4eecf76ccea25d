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

var supportedExtensions = []string{control.OIDPasswordModify, control.OIDWhoAmI}

// extended runs an extended operation (RFC 4511, 4.12).
func (o *operation) extended(ctx context.Context, r *op.Extended) error {
	switch r.OID {
	case control.OIDWhoAmI:
		if r.Value != nil {
			return op.Errorf(op.ProtocolError, "Who am I takes no value")
		}
		o.response.Value = o.who.authzID()
		return nil
	case control.OIDPasswordModify:
		return o.passwordModify(ctx, r.Value)
	}
	return op.Errorf(op.ProtocolError, "extended operation %q is not known: see supportedExtension", r.OID)
}

// passwordModify sets a password (RFC 3062): a user's own, or by the
// administrator anyone's. Without a new one it makes one and tells it.
func (o *operation) passwordModify(ctx context.Context, value []byte) error {
	p, err := control.ParsePasswordModify(value)
	switch {
	case err != nil:
		return op.Errorf(op.ProtocolError, "Password Modify: %v", err)
	case o.inClear():
		return errClear
	case o.who == nil:
		return op.Errorf(op.UnwillingToPerform, "bind first")
	}
	name, err := o.passwordTarget(ctx, p.Identity)
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
	if err := o.mayWrite(ctx, name); err != nil && !errors.Is(err, errAccess) {
		return err
	}
	changes, err := o.newPassword(ctx, p.New)
	if err != nil {
		return err
	}
	err = o.update(ctx, &update{
		name: name,
		allow: func(tx *partition.Tx) error {
			if err := o.mayModify(ctx, tx, name); err != nil {
				return err
			}
			return o.checkOld(ctx, tx, name, p.Old)
		},
		change: func(tx *partition.Tx) error { return o.modifyIn(ctx, tx, name, changes) },
	})
	if err == nil {
		o.changedPassword()
	}
	if err == nil && generated {
		o.response.Value = control.PasswordModifyResult{Generated: p.New}.Encode()
	}
	return err
}

// passwordTarget is whose password is to be set: the requester's, or that of a
// DN, with "dn:" in front or not, or of a name with "u:" in front.
func (o *operation) passwordTarget(ctx context.Context, identity *string) (dn.DN, error) {
	s := o.who.name
	if identity != nil {
		s = *identity
	}
	if kind, rest, ok := strings.Cut(s, ":"); ok && identity != nil {
		switch strings.ToLower(kind) {
		case "dn":
			s = rest
		case "u":
			who, err := o.userNamed(ctx, s)
			if err != nil {
				return nil, err
			}
			s = who.name
		}
	}
	name, err := target(s)
	if err == nil && o.d.isAdmin(name) {
		return nil, op.Errorf(op.UnwillingToPerform, "the administrator's password is in the server's configuration")
	}
	return name, err
}

// userNamed returns who has a name, if the requester may know.
func (o *operation) userNamed(ctx context.Context, authzID string) (*identity, error) {
	s := o.now()
	defer s.Close()
	who, err := o.identify(ctx, s, authzID)
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
func (o *operation) checkOld(ctx context.Context, tx *partition.Tx, name dn.DN, old []byte) error {
	if old == nil {
		return nil
	}
	stored, err := o.storedPasswords(ctx, &tx.Snapshot, name, "userPassword")
	if err != nil {
		return err
	}
	for _, v := range stored {
		ok, err := o.d.passwords.Verify(ctx, o.session.channel, v, old)
		if ok || err != nil && !errors.Is(err, auth.ErrScheme) {
			return err
		}
	}
	return op.Errorf(op.UnwillingToPerform, "the old password is not right")
}
