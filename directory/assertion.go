package directory

import (
	"context"

	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/partition"
)

// assert tests the request's assertion, if there is one, on the entry that the
// operation is about. False and Undefined are alike (RFC 4528, 3).
func assert(ctx context.Context, o *operation, id entry.ID) error {
	if o.controls.assertion == nil {
		return nil
	}
	if id == entry.Root {
		return rootDSE(o).assert(o)
	}
	f, err := prepareFilter(ctx, o, o.controls.assertion, nil)
	if err != nil {
		return err
	}
	for _, err := range o.s.Search(ctx, partition.Query{Base: id, Scope: op.BaseObject, Filter: f}) {
		return err // the one result says that it is true
	}
	return errAssertion
}
