package directory

import (
	"context"

	"github.com/seed-4dac0d86/ldapd/op"
)

// searchSingle runs a search of an entry that is alone: nothing is below it.
func searchSingle(ctx context.Context, o *operation, r *op.Search, sink op.Sink, entry func(context.Context, *operation) (*virtual, error)) error {
	if o.controls.waits() {
		if err := o.controls.checkWait(); err != nil {
			return err
		}
		return op.Errorf(op.UnwillingToPerform, "the root DSE and the subschema cannot be watched for changes")
	}
	s, err := o.state(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	keys, err := resolveOrder(o)
	if err != nil {
		return err
	}
	v, err := entry(ctx, o)
	if err != nil {
		return err
	}
	if err := v.assert(o); err != nil {
		return err
	}
	if o.controls.paged != nil {
		pagedResponse(o, nil)
	}
	if o.controls.vlv != nil {
		return viewError(o, op.UnwillingToPerform, "this entry is alone and no list")
	}
	below := r.Scope == op.SingleLevel || r.Scope == op.Subordinates
	if below || o.controls.visible.hides(o.known, &v.entry) || !v.matches(o, prepareUnstored(o, r.Filter)) {
		return nil
	}
	if keys != nil {
		sortResponse(o, op.Success, "")
	}
	var out output
	out.open(o, r, nil, sink)
	return out.unstored(v.name, &v.entry)
}
