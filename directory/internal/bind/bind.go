// Package bind authenticates sessions: simple binds and SASL.
package bind

import (
	"context"
	"errors"
	"strings"

	"github.com/seed-4dac0d86/ldapd/acl"
	"github.com/seed-4dac0d86/ldapd/auth"
	"github.com/seed-4dac0d86/ldapd/control"
	"github.com/seed-4dac0d86/ldapd/directory/internal/identify"
	"github.com/seed-4dac0d86/ldapd/directory/internal/judge"
	"github.com/seed-4dac0d86/ldapd/directory/internal/password"
	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/directory/internal/settings"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/partition"
)

// errCredentials is the one answer to a wrong name and to a wrong password.
var errCredentials = &op.Result{Code: op.InvalidCredentials}

// Run authenticates the session (RFC 4511, 4.2; RFC 4513, 5), which is
// anonymous and stays so unless the bind succeeds.
func Run(ctx context.Context, req *request.Request, r *op.Bind, x *request.Exchange) (err error) {
	if r.Version != 3 {
		return op.Errorf(op.ProtocolError, "LDAP version %d is not served, only 3", r.Version)
	}
	var who *settings.Identity
	if r.SASL {
		who, err = sasl(ctx, req, r, x)
	} else {
		who, err = simple(ctx, req, r)
	}
	if err == nil && who != nil {
		who.Bound = boundBy(r)
		if err = mayBind(ctx, req, who); err != nil {
			req.Response.SASLCredentials = refusal(r)
		}
	}
	if err == nil {
		req.Session.Who.Store(who)
		sendAuthzID(req)
	}
	return err
}

func boundBy(r *op.Bind) string {
	if r.SASL {
		return strings.ToLower(r.Mechanism)
	}
	return "simple"
}

// refusal is what a mechanism answers besides the result to a wrong password.
func refusal(r *op.Bind) []byte {
	if r.SASL && auth.IsScram(strings.TrimSuffix(r.Mechanism, auth.Plus)) {
		return []byte("e=invalid-proof")
	}
	return nil
}

// mayBind refuses, as a wrong password, an identity that the access rules do not let
// bind on this connection. One that has no entry has none that they could be about.
func mayBind(ctx context.Context, req *request.Request, who *settings.Identity) error {
	if who.IsAdmin() || !who.HasEntry() {
		return nil
	}
	p, err := req.ProgramOf(ctx, who)
	if err != nil || p.Always().Entry(acl.Bind) {
		return err
	}
	s := req.Now()
	defer s.Close()
	var j judge.Judge
	j.Read(s, s.Schema())
	j.By(p)
	d, err := j.DecideAt(ctx, partition.Located{ID: who.ID, Name: who.Name})
	if err == nil && (d == nil || !d.Entry(acl.Bind)) {
		err = errCredentials
	}
	return err
}

// sendAuthzID answers a bind that succeeded with who is bound now.
func sendAuthzID(req *request.Request) {
	if req.Controls.AuthzID && req.Response.Code == op.Success {
		req.Respond(control.OIDAuthzIDResponse, req.Session.Who.Load().AuthzID())
	}
}

// simple is RFC 4513, 5.1.
func simple(ctx context.Context, req *request.Request, r *op.Bind) (*settings.Identity, error) {
	switch {
	case len(r.Password) == 0 && r.Name == "":
		return nil, nil
	case len(r.Password) == 0:
		// RFC 4513, 5.1.2: programs took an unauthenticated bind for proof of
		// the name.
		return nil, op.Errorf(op.UnwillingToPerform, "a bind with a name needs a password")
	case password.InClear(req):
		return nil, password.ErrClear
	}
	name, err := dn.Parse(r.Name)
	if err != nil {
		return nil, op.Errorf(op.InvalidDNSyntax, "%v", err)
	}
	s := req.Now()
	defer s.Close()
	who, err := identify.Reach(ctx, req, auth.Target{Name: name})
	if err != nil && !errors.Is(err, identify.ErrNobody) {
		return nil, err
	}
	return verify(ctx, req, who, r.Password)
}

// verify returns who if the password is theirs. A nil one, who has no password or
// another one, and whose account is disabled or expired are answered alike, after
// alike work: the password of an account that cannot be used is not verified.
func verify(ctx context.Context, req *request.Request, who *settings.Identity, password []byte) (*settings.Identity, error) {
	stored, err := passwordsOf(ctx, req, who)
	if err != nil {
		return nil, err
	}
	a, err := identify.AccountOf(ctx, req, who)
	if err != nil {
		return nil, err
	}
	if a.Disabled || a.Expired {
		req.Server.Log.Info("an account that cannot be used", "dn", who.Name, "disabled", a.Disabled, "expired", a.Expired)
		stored = nil
	}
	attempt := req.Server.Passwords.Attempt(req.Session.Channel, password)
	for i := range stored {
		if stored[i].Type != req.Known.UserPassword {
			continue
		}
		for _, v := range stored[i].Values {
			ok, err := attempt.Try(ctx, v)
			switch {
			case ok:
				upgrade(req, who, stored, v, password)
				who.Reset.Store(a.Reset)
				return who, nil
			case errors.Is(err, auth.ErrScheme):
				req.Server.Log.Warn("unreadable userPassword", "dn", who.Name, "error", err)
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
func passwordsOf(ctx context.Context, req *request.Request, who *settings.Identity) ([]entry.Attribute, error) {
	switch {
	case who.IsAdmin():
		return []entry.Attribute{{Type: req.Known.UserPassword, Values: [][]byte{[]byte(req.Server.Settings().AdminPassword)}}}, nil
	case !who.HasEntry():
		return nil, nil
	}
	return req.Snapshot.Secrets(ctx, who.ID)
}
