package directory

import (
	"context"
	"errors"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/partition"
)

// errCredentials is the one answer to a wrong name and to a wrong password.
var errCredentials = &op.Result{Code: op.InvalidCredentials}

// bind authenticates the session (RFC 4511, 4.2; RFC 4513, 5), which is
// anonymous and stays so unless the bind succeeds.
func (o *operation) bind(ctx context.Context, r *op.Bind) error {
	switch {
	case r.Version != 3:
		return op.Errorf(op.ProtocolError, "LDAP version %d is not served, only 3", r.Version)
	case r.SASL:
		return op.Errorf(op.AuthMethodNotSupported, "SASL mechanism %q is not served: see supportedSASLMechanisms", r.Mechanism)
	case len(r.Password) == 0 && r.Name == "":
		return nil
	case len(r.Password) == 0:
		// RFC 4513, 5.1.2: programs took an unauthenticated bind for proof of
		// the name.
		return op.Errorf(op.UnwillingToPerform, "a bind with a name needs a password")
	}
	who, err := o.authenticate(ctx, r)
	if err != nil {
		return err
	}
	o.session.who.Store(who)
	return nil
}

func (o *operation) authenticate(ctx context.Context, r *op.Bind) (*identity, error) {
	name, err := dn.Parse(r.Name)
	if err != nil {
		return nil, op.Errorf(op.InvalidDNSyntax, "%v", err)
	}
	if o.d.isAdmin(name) {
		ok, err := o.d.passwords.Verify(ctx, []byte(o.d.o.AdminPassword), r.Password)
		if err != nil || !ok {
			return nil, o.refuse(ctx, err)
		}
		return &identity{name: o.d.o.Admin, admin: true}, nil
	}
	return o.authenticateUser(ctx, name, r.Password)
}

func (d *Directory) isAdmin(name dn.DN) bool {
	if d.adminKey == "" || len(name) != len(d.admin) {
		return false // without the cost of a normalised name
	}
	key, err := d.key(name)
	return err == nil && key == d.adminKey
}

func (o *operation) authenticateUser(ctx context.Context, name dn.DN, password []byte) (*identity, error) {
	s := o.d.part.Snapshot()
	defer s.Close()
	at, err := s.Find(ctx, name)
	if err != nil {
		return nil, o.burn(ctx, err, password)
	}
	secrets, err := s.Secrets(ctx, at.ID)
	if err != nil {
		return nil, o.burn(ctx, err, password)
	}
	tried := false
	for i := range secrets {
		if secrets[i].Type != o.known.userPassword {
			continue
		}
		for _, stored := range secrets[i].Values {
			tried = true
			ok, err := o.d.passwords.Verify(ctx, stored, password)
			if ok {
				return &identity{name: at.Name, id: at.ID}, nil
			}
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			if err != nil {
				o.d.log.Warn("unreadable userPassword", "dn", at.Name, "error", err)
			}
		}
	}
	if !tried {
		return nil, o.burn(ctx, nil, password)
	}
	return nil, errCredentials
}

// burn answers a bind as a name that does not exist, after the work that a wrong
// password takes. Failures of the store stay what they are.
func (o *operation) burn(ctx context.Context, cause error, password []byte) error {
	var missing *partition.Error
	if cause != nil && !errors.As(cause, &missing) {
		return cause
	}
	if err := o.d.passwords.Burn(ctx, password); err != nil {
		return err
	}
	return errCredentials
}

func (o *operation) refuse(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		o.d.log.Error("the administrator's stored password cannot be used", "error", err)
	}
	return errCredentials
}
