package directory

import (
	"context"
	"errors"

	"github.com/seed-4dac0d86/ldapd/auth"
	"github.com/seed-4dac0d86/ldapd/control"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/op"
)

// errCredentials is the one answer to a wrong name and to a wrong password.
var errCredentials = &op.Result{Code: op.InvalidCredentials}

// runBind authenticates the session (RFC 4511, 4.2; RFC 4513, 5), which is
// anonymous and stays so unless the bind succeeds.
func runBind(ctx context.Context, o *operation, r *op.Bind, x *exchange) (err error) {
	if r.Version != 3 {
		return op.Errorf(op.ProtocolError, "LDAP version %d is not served, only 3", r.Version)
	}
	var who *identity
	if r.SASL {
		who, err = o.sasl(ctx, r, x)
	} else {
		who, err = o.simple(ctx, r)
	}
	if err == nil {
		o.session.who.Store(who)
		o.tellAuthzID()
	}
	return err
}

// tellAuthzID answers a bind that succeeded with who is bound now.
func (o *operation) tellAuthzID() {
	if o.controls.authzID && o.response.Code == op.Success {
		o.respond(control.OIDAuthzIDResponse, o.session.who.Load().authzID())
	}
}

// simple is RFC 4513, 5.1.
func (o *operation) simple(ctx context.Context, r *op.Bind) (*identity, error) {
	switch {
	case len(r.Password) == 0 && r.Name == "":
		return nil, nil
	case len(r.Password) == 0:
		// RFC 4513, 5.1.2: programs took an unauthenticated bind for proof of
		// the name.
		return nil, op.Errorf(op.UnwillingToPerform, "a bind with a name needs a password")
	case o.inClear():
		return nil, errClear
	}
	name, err := dn.Parse(r.Name)
	if err != nil {
		return nil, op.Errorf(op.InvalidDNSyntax, "%v", err)
	}
	s := o.now()
	defer s.Close()
	who, err := o.reach(ctx, auth.Target{Name: name})
	if err != nil && !errors.Is(err, errNobody) {
		return nil, err
	}
	return o.verify(ctx, who, r.Password)
}

// verify returns who if the password is theirs. A nil one, who has no password or
// another one, and whose account is disabled or expired are answered alike, after
// alike work: the password of an account that cannot be used is not verified.
func (o *operation) verify(ctx context.Context, who *identity, password []byte) (*identity, error) {
	stored, err := o.passwordsOf(ctx, who)
	if err != nil {
		return nil, err
	}
	a, err := o.accountOf(ctx, who)
	if err != nil {
		return nil, err
	}
	if a.disabled || a.expired {
		o.server.log.Info("an account that cannot be used", "dn", who.name, "disabled", a.disabled, "expired", a.expired)
		stored = nil
	}
	attempt := o.server.passwords.Attempt(o.session.channel, password)
	for i := range stored {
		if stored[i].Type != o.known.userPassword {
			continue
		}
		for _, v := range stored[i].Values {
			ok, err := attempt.Try(ctx, v)
			switch {
			case ok:
				o.upgrade(who, stored, v, password)
				who.reset.Store(a.reset)
				return who, nil
			case errors.Is(err, auth.ErrScheme):
				o.server.log.Warn("unreadable userPassword", "dn", who.name, "error", err)
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

// passwordsOf returns what is secret of somebody, userPassword among it.
func (o *operation) passwordsOf(ctx context.Context, who *identity) ([]entry.Attribute, error) {
	switch {
	case who.isAdmin():
		return []entry.Attribute{{Type: o.known.userPassword, Values: [][]byte{[]byte(o.server.settings().AdminPassword)}}}, nil
	case !who.hasEntry():
		return nil, nil
	}
	return o.s.Secrets(ctx, who.id)
}
