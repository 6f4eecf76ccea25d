package directory

import (
	"context"
	"errors"

	"github.com/seed-4dac0d86/ldapd/auth"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/entry"
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
	s := o.d.part.Snapshot()
	defer s.Close()
	return o.verify(ctx, s, name, r.Password)
}

func (d *Directory) isAdmin(name dn.DN) bool {
	if d.adminKey == "" || len(name) != len(d.admin) {
		return false // without the cost of a normalised name
	}
	key, err := d.key(name)
	return err == nil && key == d.adminKey
}

// verify gives who has a name and a password. Names that do not exist, have no
// password or another one are answered alike, after alike work.
func (o *operation) verify(ctx context.Context, s *partition.Snapshot, name dn.DN, password []byte) (*identity, error) {
	who, stored, err := o.stored(ctx, s, name)
	if err != nil {
		return nil, err
	}
	attempt := o.d.passwords.Attempt(o.session.channel, password)
	for i := range stored {
		if stored[i].Type != o.known.userPassword {
			continue
		}
		for _, v := range stored[i].Values {
			ok, err := attempt.Try(ctx, v)
			switch {
			case ok:
				return who, nil
			case errors.Is(err, auth.ErrScheme):
				o.d.log.Warn("unreadable userPassword", "dn", who.name, "error", err)
			case err != nil:
				return nil, err
			}
		}
	}
	if err := attempt.Fail(ctx); err != nil {
		return nil, err
	}
	return nil, errCredentials
}

// stored gives who has a name and their secrets; nobody, with none, if nobody
// has.
func (o *operation) stored(ctx context.Context, s *partition.Snapshot, name dn.DN) (*identity, []entry.Attribute, error) {
	if o.d.isAdmin(name) {
		return &identity{name: o.d.o.Admin, admin: true},
			[]entry.Attribute{{Type: o.known.userPassword, Values: [][]byte{[]byte(o.d.o.AdminPassword)}}}, nil
	}
	at, err := s.Find(ctx, name)
	var missing *partition.Error
	if errors.As(err, &missing) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	secrets, err := s.Secrets(ctx, at.ID)
	if err != nil {
		return nil, nil, err
	}
	return &identity{name: at.Name, id: at.ID}, secrets, nil
}
