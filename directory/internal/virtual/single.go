package virtual

import (
	"context"

	"github.com/seed-4dac0d86/ldapd/directory/internal/delivery"
	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
)

// searchSingle runs a search whose base is a single entry without entries below it.
func searchSingle(ctx context.Context, req *request.Request, r *op.Search, sink op.Sink, entry func(context.Context, *request.Request) (*Entry, error)) error {
	if req.Controls.Waits() {
		return op.Errorf(op.UnwillingToPerform, "the root DSE, the subschema and cn=config cannot be watched for changes")
	}
	if req.Controls.Rights != nil {
		return op.Errorf(op.UnwillingToPerform, "the root DSE, the subschema and cn=config have no effective rights to read")
	}
	s, err := req.State(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	keys, err := delivery.ResolveOrder(req)
	if err != nil {
		return err
	}
	v, err := entry(ctx, req)
	if err != nil {
		return err
	}
	if err := v.Assert(ctx, req); err != nil {
		return err
	}
	if req.Controls.Paged != nil {
		delivery.PagedResponse(req, nil)
	}
	if req.Controls.Vlv != nil {
		return delivery.VLVError(req, op.UnwillingToPerform, "this entry is alone and no list")
	}
	below := r.Scope == op.SingleLevel || r.Scope == op.Subordinates
	if below || req.Controls.Visible.Hides(req.Known, &v.Entry) || !v.matches(req, v.prepare(ctx, req, r.Filter)) {
		return nil
	}
	if keys != nil {
		delivery.SortResponse(req, op.Success, "")
	}
	var out delivery.Output
	out.Open(req, r, nil, sink)
	e, err := v.Shown(ctx, req)
	if err != nil {
		return err
	}
	return out.Unstored(v.Name, e)
}
