package directory

import (
	"context"

	"github.com/seed-4dac0d86/ldapd/directory/account"
	"github.com/seed-4dac0d86/ldapd/directory/internal/accountcheck"
	"github.com/seed-4dac0d86/ldapd/directory/internal/assertion"
	"github.com/seed-4dac0d86/ldapd/directory/internal/identify"
	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/directory/internal/search"
	"github.com/seed-4dac0d86/ldapd/directory/internal/virtual"
	"github.com/seed-4dac0d86/ldapd/directory/internal/watch"
	"github.com/seed-4dac0d86/ldapd/directory/internal/write"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/ldap/control"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition/state"
)

// run runs a request. The caller turns the returned error into the result. If the error is
// nil, the operation itself has set the response, whose default result is success.
func (d *Directory) run(ctx context.Context, req *request.Request, m *op.Message, sink op.Sink) error {
	b, isBind := m.Request.(*op.Bind)
	var x *request.Exchange
	if isBind {
		x = req.Session.Forget() // a bind makes the session anonymous on receipt (RFC 4513, 4)
	}
	// A bind has no requester yet, so it reads with the server's own rights. For all
	// other requests, admit sets the access rules that apply to the requester.
	req.Judge.Unrestrict()
	if !isBind {
		if err := admit(ctx, req, readsOnce(m)); err != nil {
			return d.end(req, sink, err)
		}
	}
	if len(m.Controls) > 0 {
		if err := request.TakeControls(req, m); err != nil {
			return err
		}
		if err := d.awaitOthers(ctx, req, isBind); err != nil {
			return d.end(req, sink, err)
		}
		if req.Controls.Proxied != nil && identify.MustChange(req, nil) {
			return accountcheck.Refusal(req, account.ErrMustChange)
		}
		if err := identify.Assume(ctx, req); err != nil {
			return err
		}
	}
	if isBind {
		return d.bindIn(ctx, req, b, x)
	}
	if identify.MustChange(req, m.Request) {
		return accountcheck.Refusal(req, account.ErrMustChange)
	}
	req.Limits = d.server.LimitsOf(req.Who)
	m, err := enter(ctx, req, m)
	if err != nil {
		return err
	}
	return d.end(req, sink, d.perform(ctx, req, m, sink))
}

// readsOnce reports whether a request reads one state, soon after it was admitted.
func readsOnce(m *op.Message) bool {
	switch m.Request.(type) {
	case *op.Search, *op.Compare:
		return len(m.Controls) == 0
	}
	return false
}

// admit returns an error if the session's account may no longer be used. Otherwise it makes
// the request's Judge decide by the access rules that are now in force. For the administrator,
// admit does nothing. If keep is set, the operation may read the state that admit has read.
func admit(ctx context.Context, req *request.Request, keep bool) error {
	if req.Who.IsAdmin() {
		return nil // no rules and no policy apply, so no state is read
	}
	s := req.Now()
	if keep {
		req.Keep(s)
	} else {
		defer s.Close()
	}
	if err := accountcheck.Still(ctx, req); err != nil {
		return err
	}
	return req.Judged(ctx, s)
}

// awaitOthers waits for the commits of other servers that the request must see. The account
// and the access rules may have changed meanwhile, so awaitOthers then calls admit again,
// except for a bind.
func (d *Directory) awaitOthers(ctx context.Context, req *request.Request, isBind bool) error {
	if !req.Awaits() {
		return nil
	}
	if err := req.AwaitOthers(ctx); err != nil || isBind {
		return err
	}
	return admit(ctx, req, false)
}

// end returns err unchanged. If err means that the session's account may no longer be used,
// end first makes the session anonymous, and requests that the connection is closed after
// the answer.
func (d *Directory) end(req *request.Request, sink op.Sink, err error) error {
	if err != accountcheck.ErrEnded {
		return err
	}
	req.Session.Who.Store(nil)
	req.Session.Transactions.Abort()
	if e, ok := sink.(op.Ender); ok {
		e.End(accountcheck.ErrEnded)
	}
	return err
}

// perform runs any request except a bind.
func (d *Directory) perform(ctx context.Context, req *request.Request, m *op.Message, sink op.Sink) error {
	switch r := m.Request.(type) {
	case *op.Search:
		return d.search(ctx, req, r, sink)
	case *op.Compare:
		return assertion.Compare(ctx, req, r)
	case *op.Extended:
		return d.extended(ctx, req, m, r, sink)
	case *op.Add, *op.Modify, *op.Delete, *op.ModifyDN:
		return write.Run(ctx, req, m.Request)
	}
	return op.Errorf(op.ProtocolError, "this server does not answer such an operation")
}

// maxAttributes bounds the attributes that a search may ask for. A schema has about a thousand.
const maxAttributes = 2048

// search passes a search to the package that serves it (RFC 4511, 4.5).
func (d *Directory) search(ctx context.Context, req *request.Request, r *op.Search, sink op.Sink) error {
	if r.Scope > op.Subordinates || r.Deref > op.DerefAlways || r.SizeLimit < 0 || r.TimeLimit < 0 {
		return op.Errorf(op.ProtocolError, "a search's scope, dereferencing or limits are out of range")
	}
	if len(r.Attributes) > maxAttributes {
		return op.Errorf(op.AdminLimitExceeded, "the search asks for %d attributes, and at most %d are served: ask for * or @CLASS", len(r.Attributes), maxAttributes)
	}
	if state.KnowsBase(req.Server.Part, r.Scope, r.Base) && !req.Controls.Waits() {
		return search.Run(ctx, req, d.lists, r, sink)
	}
	name, err := dn.Parse(r.Base)
	if err != nil {
		return op.Errorf(op.InvalidDNSyntax, "base: %v", err)
	}
	waits := req.Controls.Waits() && virtual.HoldsDefinitions(name)
	if source := virtual.Lookup(name, r.Scope); source != nil && !waits {
		if req.Controls.Explain != nil {
			return op.Errorf(op.UnwillingToPerform, "explain control: the entries below %q are not stored, so their searches have no plan", r.Base)
		}
		return source.Search(ctx, req, name, r, sink)
	}
	if req.Controls.Waits() {
		return watch.Run(ctx, req, r, sink)
	}
	return search.Run(ctx, req, d.lists, r, sink)
}

// extended runs an extended operation (RFC 4511, 4.12).
func (d *Directory) extended(ctx context.Context, req *request.Request, m *op.Message, r *op.Extended, sink op.Sink) error {
	if !req.Judge.MayUse(r.OID) {
		return req.Judge.RefuseUse(r.OID, "extended operation "+r.OID)
	}
	switch r.OID {
	case control.OIDWhoAmI:
		if r.Value != nil {
			return op.Errorf(op.ProtocolError, "Who am I takes no value")
		}
		req.Response.Value = req.Who.AuthzID()
		return nil
	case control.OIDPasswordModify:
		return write.PasswordModify(ctx, req, r.Value)
	case control.OIDRestore:
		return write.Restore(ctx, req, r.Value, sink)
	case control.OIDDiff:
		return write.Diff(ctx, req, r.Value, sink)
	case control.OIDStartJob:
		return startJob(req, r.Value)
	case control.OIDCancelJob:
		return cancelJob(req, r.Value)
	case control.OIDStartTransaction:
		return d.startTransaction(req, r, sink)
	case control.OIDEndTransaction:
		return d.endTransaction(ctx, req, m.Received.(*received))
	}
	return op.Errorf(op.ProtocolError, "extended operation %q is not known: see supportedExtension", r.OID)
}
