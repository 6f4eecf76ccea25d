package directory

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"

	"github.com/seed-4dac0d86/ldapd/auth"
	"github.com/seed-4dac0d86/ldapd/ber"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/partition"
)

// Extended operations that work.
const (
	passwordModify = "1.3.6.1.4.1.4203.1.11.1" // RFC 3062
	whoAmI         = "1.3.6.1.4.1.4203.1.11.3" // RFC 4532
)

var supportedExtensions = []string{passwordModify, whoAmI}

// extended runs an extended operation (RFC 4511, 4.12).
func (o *operation) extended(ctx context.Context, r *op.Extended) error {
	switch r.OID {
	case whoAmI:
		if r.Value != nil {
			return op.Errorf(op.ProtocolError, "Who am I takes no value")
		}
		o.response.Value = o.who.authzID()
		return nil
	case passwordModify:
		return o.passwordModify(ctx, r.Value)
	}
	return op.Errorf(op.ProtocolError, "extended operation %q is not known: see supportedExtension", r.OID)
}

// passwordRequest is the value of a Password Modify. A nil component is absent.
type passwordRequest struct {
	identity *string
	old, new []byte
}

func parsePasswordRequest(value []byte) (p passwordRequest, err error) {
	if value == nil {
		return p, nil
	}
	r := ber.NewReader(value)
	outer := r.Enter(ber.Sequence)
	if r.At(ber.Context(0)) {
		s := string(r.Bytes(ber.Context(0)))
		p.identity = &s
	}
	if r.At(ber.Context(1)) {
		p.old = r.Bytes(ber.Context(1))
	}
	if r.At(ber.Context(2)) {
		p.new = r.Bytes(ber.Context(2))
	}
	r.Leave(outer)
	r.End()
	if r.Err() != nil {
		return p, op.Errorf(op.ProtocolError, "Password Modify: %v", r.Err())
	}
	return p, nil
}

// passwordModify sets a password (RFC 3062): a user's own, or by the
// administrator anyone's. Without a new one it makes one and tells it.
func (o *operation) passwordModify(ctx context.Context, value []byte) error {
	p, err := parsePasswordRequest(value)
	switch {
	case err != nil:
		return err
	case o.inClear():
		return errClear
	case o.who == nil:
		return op.Errorf(op.UnwillingToPerform, "bind first")
	}
	name, err := o.passwordTarget(ctx, p.identity)
	if err != nil {
		return err
	}
	generated := p.new == nil
	if generated {
		p.new = []byte(rand.Text())
	}
	if len(p.new) == 0 {
		return errEmptyPassword
	}
	if err := o.mayWrite(ctx, name); err != nil && !errors.Is(err, errAccess) {
		return err
	}
	changes, err := o.newPassword(ctx, p.new)
	if err != nil {
		return err
	}
	err = o.update(ctx, &update{
		name: name,
		allow: func(tx *partition.Tx) error {
			if err := o.mayModify(ctx, tx, name); err != nil {
				return err
			}
			return o.checkOld(ctx, tx, name, p.old)
		},
		change: func(tx *partition.Tx) error { return o.modifyIn(ctx, tx, name, changes) },
	})
	if err == nil {
		o.changedPassword()
	}
	if err == nil && generated {
		b := ber.Open(nil, ber.Sequence)
		b = ber.AppendString(b, ber.Context(0), p.new)
		o.response.Value = ber.Close(b, 0)
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

// userNamed gives who has a name, if the requester may know.
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
