// Package bind authenticates sessions: simple binds and SASL.
package bind

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/seed-4dac0d86/ldapd/account"
	"github.com/seed-4dac0d86/ldapd/acl"
	"github.com/seed-4dac0d86/ldapd/auth"
	"github.com/seed-4dac0d86/ldapd/control"
	"github.com/seed-4dac0d86/ldapd/directory/internal/gate"
	"github.com/seed-4dac0d86/ldapd/directory/internal/identify"
	"github.com/seed-4dac0d86/ldapd/directory/internal/judge"
	"github.com/seed-4dac0d86/ldapd/directory/internal/password"
	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/directory/internal/settings"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/partition"
)

var errCredentials = gate.ErrCredentials

// Run authenticates the session (RFC 4511, 4.2; RFC 4513, 5). The session is anonymous
// when Run begins, and stays anonymous unless the bind succeeds.
func Run(ctx context.Context, req *request.Request, r *op.Bind, x *request.Exchange) error {
	begun := time.Now()
	err := run(ctx, req, r, x)
	if errors.Is(err, errCredentials) {
		if stopped := req.Server.Ledgers.Pace(boundBy(r)).Wait(ctx, begun); stopped != nil {
			return stopped
		}
	}
	return err
}

func run(ctx context.Context, req *request.Request, r *op.Bind, x *request.Exchange) (err error) {
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
		s := req.Now()
		defer s.Close()
		if err = mayBind(ctx, req, who); err != nil {
			req.Response.SASLCredentials, req.Response.Controls = refusal(r), nil
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

// refusal returns the SASL credentials of the response to a bind with a wrong password:
// the error message of SCRAM, or nil for other mechanisms.
func refusal(r *op.Bind) []byte {
	if r.SASL && auth.IsScram(strings.TrimSuffix(r.Mechanism, auth.Plus)) {
		return []byte(auth.InvalidProof)
	}
	return nil
}

// mayBind returns the error of a wrong password if the access rules do not let an
// identity bind on this connection. Rules apply to entries, so an identity without an
// entry may bind.
func mayBind(ctx context.Context, req *request.Request, who *settings.Identity) error {
	if who.IsAdmin() || !who.HasEntry() {
		return nil
	}
	j, err := judgeOf(ctx, req, who)
	if err != nil || j.Always().Entry(acl.Bind) {
		return err
	}
	d, err := j.DecideAt(ctx, partition.Located{ID: who.ID, Name: who.Name})
	if err == nil && (d == nil || !d.Entry(acl.Bind)) {
		err = gate.AsWrong(ctx, req)
	}
	return err
}

// judgeOf returns the Judge for an identity's requests on this connection. The Judge uses
// the rules of the newest state, which the request reads.
func judgeOf(ctx context.Context, req *request.Request, who *settings.Identity) (*judge.Judge, error) {
	p, err := req.ProgramOf(ctx, req.Snapshot, who)
	j := &judge.Judge{}
	j.Read(req.Snapshot, req.Schema)
	j.By(p)
	return j, err
}

// sendAuthzID adds the session's new identity to the response, if the bind succeeded and
// the client requested the identity.
func sendAuthzID(req *request.Request) {
	if req.Controls.AuthzID && req.Response.Code == op.Success {
		req.Respond(control.OIDAuthzIDResponse, req.Session.Who.Load().AuthzID())
	}
}

// simple performs a simple bind (RFC 4513, 5.1).
func simple(ctx context.Context, req *request.Request, r *op.Bind) (*settings.Identity, error) {
	switch {
	case len(r.Password) == 0 && r.Name == "":
		return nil, nil
	case len(r.Password) == 0:
		// RFC 4513, 5.1.2: some programs accepted an unauthenticated bind as a proof of
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
	return verify(ctx, req, who, r.Name, r.Password)
}

// verify returns who if password is the password of this identity. Three cases have the
// same answer after the same amount of work: the identity does not exist, the password is
// missing or wrong, or the account may not be used. The password of an unusable account
// is not verified. The parameter asked is the name that the client sent.
func verify(ctx context.Context, req *request.Request, who *settings.Identity, asked string, password []byte) (*settings.Identity, error) {
	a, err := gate.Open(ctx, req, who, asked)
	if err != nil {
		return nil, err
	}
	if who != nil && !a.Usable() {
		req.Server.Log.Info("an account that cannot be used", "dn", who.Name)
	}
	v, stored, err := a.Verify(ctx, password)
	if err != nil {
		return nil, err
	}
	if err := admitted(ctx, a, v); err != nil {
		return nil, err
	}
	if !a.NeedsCode() {
		upgrade(req, who, a.Secrets, stored, password)
	}
	return who, nil
}

// admitted turns the verdict on an attempt into the result of the bind.
func admitted(ctx context.Context, a *gate.Account, v account.Verdict) error {
	switch v {
	case account.Right:
		return a.Enter(ctx)
	case account.Locked:
		return a.Locked()
	}
	return gate.ErrCredentials
}
