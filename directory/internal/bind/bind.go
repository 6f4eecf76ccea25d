// Package bind authenticates sessions: simple binds and SASL.
package bind

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/seed-4dac0d86/ldapd/directory/account"
	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/directory/auth"
	"github.com/seed-4dac0d86/ldapd/directory/internal/accountcheck"
	"github.com/seed-4dac0d86/ldapd/directory/internal/identify"
	"github.com/seed-4dac0d86/ldapd/directory/internal/judge"
	"github.com/seed-4dac0d86/ldapd/directory/internal/password"
	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/directory/settings"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/ldap/control"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/state"
)

var errCredentials = accountcheck.ErrCredentials

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
		return op.Errorf(op.ProtocolError, "LDAP version %d is not supported: use version 3", r.Version)
	}
	var who *settings.Identity
	if r.SASL {
		who, err = sasl(ctx, req, r, x)
	} else {
		who, err = simple(ctx, req, r)
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

// refuseBind returns the error for wrong credentials if an identity may not bind on this
// connection.
func refuseBind(ctx context.Context, req *request.Request, who *settings.Identity) error {
	may, err := MayBind(ctx, req, who)
	if err == nil && !may {
		err = accountcheck.AsWrong(ctx, req)
	}
	return err
}

// MayBind reports whether the access rules let an identity bind on this connection. Rules
// apply to entries, so an identity without an entry may bind.
func MayBind(ctx context.Context, req *request.Request, who *settings.Identity) (bool, error) {
	if who.IsAdmin() || !who.HasEntry() {
		return true, nil
	}
	newest := state.Newest(req.Server.Part)
	defer newest.Close()
	if all, err := req.Everyone(ctx, newest); err != nil || all&acl.Bind != 0 {
		return err == nil, err
	}
	p, err := req.ProgramOf(ctx, newest, who)
	if err != nil || p.Always().Entry(acl.Bind) {
		return err == nil, err
	}
	d, err := judgeBy(p, newest).DecideAt(ctx, partition.Located{ID: who.ID, Name: who.Name})
	return d != nil && d.Entry(acl.Bind), err
}

// judgeBy returns a Judge that decides about the newest state by a program.
func judgeBy(p *acl.Program, newest *partition.Snapshot) *judge.Judge {
	j := &judge.Judge{}
	j.Read(newest, newest.Schema())
	j.By(p)
	return j
}

// sendAuthzID adds the authorization identity control to the response, if the bind succeeded
// and the client requested this control.
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
		// RFC 4513, 5.1.2 recommends the refusal: some programs take the success of
		// a bind without a password as a proof of the name.
		return nil, op.Errorf(op.UnwillingToPerform, "a bind with a name needs a password")
	case password.InClear(req):
		return nil, password.ErrClear
	}
	s := req.Now()
	defer s.Close()
	who, err := entryOrAdmin(ctx, req, r.Name)
	if err != nil && !errors.Is(err, identify.ErrNobody) {
		return nil, err
	}
	return verify(ctx, req, who, "simple", r.Name, r.Password)
}

// entryOrAdmin returns the identity that a name stands for in a simple bind.
func entryOrAdmin(ctx context.Context, req *request.Request, text string) (*settings.Identity, error) {
	use := req.Server.Settings().BoundNames
	if at, ok := state.RecallBelow(ctx, req.Snapshot, use, text); ok {
		return &settings.Identity{Name: at.Name, ID: at.ID}, nil
	}
	name, err := dn.Parse(text)
	if err != nil {
		return nil, op.Errorf(op.InvalidDNSyntax, "%v", err)
	}
	who, err := identify.Reach(ctx, req, auth.Target{Name: name})
	if err == nil && !who.Admin {
		state.RememberBelow(req.Snapshot, use, text, partition.Located{ID: who.ID, Name: who.Name})
	}
	return who, err
}

// verify returns the given identity if the given password is the identity's password. Three
// cases have the same answer after the same amount of work: the identity does not exist, the
// password is missing or wrong, or the account may not be used. The password of an unusable
// account is not verified. The parameter asked is the name that the client sent.
func verify(ctx context.Context, req *request.Request, who *settings.Identity, mechanism, asked string, password []byte) (*settings.Identity, error) {
	a, err := accountcheck.Open(ctx, req, who, asked)
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
	if err := admitted(ctx, req, a, mechanism, v); err != nil {
		return nil, err
	}
	if !a.NeedsCode() {
		upgrade(req, who, a.Secrets, stored, password)
	}
	return who, nil
}

// admitted turns the verdict on an attempt into the result of the bind. If the credentials are
// right but the identity may not bind on this connection, admitted refuses the bind as if the
// credentials were wrong.
func admitted(ctx context.Context, req *request.Request, a *accountcheck.Account, mechanism string, v account.Verdict) error {
	switch v {
	case account.Right:
		a.Who.Bound = mechanism
		may, err := MayBind(ctx, req, a.Who)
		switch {
		case err != nil:
			return err
		case !may:
			return a.AsWrong(ctx)
		}
		return a.Enter(ctx)
	case account.Locked:
		return a.Locked()
	}
	return accountcheck.ErrCredentials
}
