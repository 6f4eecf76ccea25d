// Package assertion evaluates what a client asserts about one entry: the Compare
// operation and the assertion control.
package assertion

import (
	"context"

	"github.com/seed-4dac0d86/ldapd/directory/internal/filterprep"
	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/directory/internal/virtual"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/search"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// Check evaluates the request's assertion, if there is one, on the entry of the operation.
// An Undefined assertion fails like a False assertion (RFC 4528, 3).
func Check(ctx context.Context, req *request.Request, id entry.ID) error {
	if req.Controls.Assertion == nil {
		return nil
	}
	return check(ctx, req, id)
}

func check(ctx context.Context, req *request.Request, id entry.ID) error {
	if id == entry.Root {
		return virtual.RootDSE(ctx, req, nil).Assert(ctx, req)
	}
	f, err := filterprep.Prepare(ctx, req, req.Controls.Assertion, nil)
	if err != nil {
		return err
	}
	for _, err := range search.Search(ctx, req.Snapshot, partition.Query{Base: id, Scope: op.BaseObject, Filter: f, Children: req.Judge.Children(ctx)}) {
		return err // nil: the assertion is true
	}
	if err := req.Judge.Failure(); err != nil {
		return err
	}
	return virtual.ErrAssertion
}
