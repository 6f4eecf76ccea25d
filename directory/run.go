package directory

import (
	"context"

	"github.com/seed-4dac0d86/ldapd/control"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/op"
)

// run runs a request. What it returns becomes the result; nil leaves the response as
// the operation has made it, success by default.
func (d *Directory) run(ctx context.Context, o *operation, m *op.Message, sink op.Sink) error {
	b, isBind := m.Request.(*op.Bind)
	var x *exchange
	if isBind {
		x = o.session.forget() // anonymous from receipt on (RFC 4513, 4)
	}
	if len(m.Controls) > 0 {
		if err := takeControls(o, m); err != nil {
			return err
		}
		if err := assume(ctx, o); err != nil {
			return err
		}
		if err := o.awaitOthers(ctx); err != nil {
			return err
		}
	}
	if isBind {
		return runBind(ctx, o, b, x)
	}
	if mustChange(o, m.Request) {
		return errMustChange
	}
	o.limits = d.server.limitsOf(o.who)
	return d.perform(ctx, o, m, sink)
}

// perform runs what is no bind.
func (d *Directory) perform(ctx context.Context, o *operation, m *op.Message, sink op.Sink) error {
	switch r := m.Request.(type) {
	case *op.Search:
		return d.search(ctx, o, r, sink)
	case *op.Compare:
		return compare(ctx, o, r)
	case *op.Extended:
		return d.extended(ctx, o, r)
	case *op.Add, *op.Modify, *op.Delete, *op.ModifyDN:
		return runWrite(ctx, o, m.Request)
	}
	return op.Errorf(op.ProtocolError, "not an operation that is answered")
}

// search hands a search to what serves it (RFC 4511, 4.5).
func (d *Directory) search(ctx context.Context, o *operation, r *op.Search, sink op.Sink) error {
	name, err := dn.Parse(r.Base)
	if err != nil {
		return op.Errorf(op.InvalidDNSyntax, "base: %v", err)
	}
	if r.Scope > op.Subordinates || r.Deref > op.DerefAlways || r.SizeLimit < 0 || r.TimeLimit < 0 {
		return op.Errorf(op.ProtocolError, "a search's scope, dereferencing or limits are out of range")
	}
	if source := virtualSource(name, r.Scope); source != nil {
		return source.search(ctx, o, name, r, sink)
	}
	if o.controls.waits() {
		return runWatch(ctx, o, name, r, sink)
	}
	return runSearch(ctx, o, d.lists, name, r, sink)
}

// extended runs an extended operation (RFC 4511, 4.12).
func (d *Directory) extended(ctx context.Context, o *operation, r *op.Extended) error {
	switch r.OID {
	case control.OIDWhoAmI:
		if r.Value != nil {
			return op.Errorf(op.ProtocolError, "Who am I takes no value")
		}
		o.response.Value = o.who.authzID()
		return nil
	case control.OIDPasswordModify:
		return passwordModify(ctx, o, r.Value)
	}
	return op.Errorf(op.ProtocolError, "extended operation %q is not known: see supportedExtension", r.OID)
}
