package directory

import (
	"context"

	"github.com/seed-4dac0d86/ldapd/control"
	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/partition"
)

// takeAssertion reads an assertion control, whose value is a filter.
func takeAssertion(o *operation, _ *op.Message, c *op.Control) error {
	a, err := control.ParseAssertion(c.Value)
	if err != nil {
		return malformed("assertion", err)
	}
	o.controls.assertion = a.Filter
	return nil
}

// errAssertion says as little as a search that finds nothing.
var errAssertion = op.Errorf(op.AssertionFailed, "the assertion is not true of the entry")

// assert tests the request's assertion, if there is one, on the entry that the
// operation is about. False and Undefined are alike (RFC 4528, 3).
func (o *operation) assert(ctx context.Context, s *partition.Snapshot, id entry.ID) error {
	if o.controls.assertion == nil {
		return nil
	}
	if id == entry.Root {
		return o.assertVirtual(o.rootDSE())
	}
	f, err := o.resolve(ctx, s, o.controls.assertion)
	if err != nil {
		return err
	}
	for _, err := range s.Search(ctx, partition.Query{Base: id, Scope: op.BaseObject, Filter: f}) {
		return err // the one result says that it is true
	}
	return errAssertion
}

// assertVirtual tests it on an entry that no store has.
func (o *operation) assertVirtual(v *virtual) error {
	if o.controls.assertion == nil {
		return nil
	}
	if filter.Resolve(o.controls.assertion, o.schema).Match(v.source(o.schema)) != filter.True {
		return errAssertion
	}
	return nil
}
