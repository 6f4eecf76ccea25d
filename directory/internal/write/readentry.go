package write

import (
	"context"

	"github.com/seed-4dac0d86/ldapd/directory/internal/collective"
	"github.com/seed-4dac0d86/ldapd/directory/internal/render"
	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/ldap/wire"
	"github.com/seed-4dac0d86/ldapd/partition/search"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// readEntry adds a pre-read or post-read control to the response. The control contains what
// a base search for the given attributes would return of the entry. If attributes is nil,
// the client has not requested the control, and readEntry does nothing.
func readEntry(ctx context.Context, req *request.Request, name dn.DN, id entry.ID, oid string, attributes []string) error {
	if attributes == nil {
		return nil
	}
	var v render.Presenter
	v.Open(req, attributes, false)
	e, err := seen(ctx, req, &v, name, id)
	if e != nil {
		req.Respond(oid, wire.AppendSearchEntry(nil, e))
	}
	return err
}

// seen returns an entry as a view shows it.
func seen(ctx context.Context, req *request.Request, v *render.Presenter, name dn.DN, id entry.ID) (_ *op.SearchEntry, err error) {
	if s, err := unstored(ctx, req, name); s != nil || err != nil {
		if err != nil {
			return nil, err
		}
		e, err := s.Shown(ctx, req)
		return v.Unstored(s.Name, e), err
	}
	if v.Shared, err = collective.Collect(ctx, req); err != nil {
		return nil, err
	}
	q := v.Query(nil)
	q.Base, q.Scope, q.Filter = id, op.BaseObject, req.Judge.OnlySeen(ctx, filter.Const(filter.True))
	for found, err := range search.Search(ctx, req.Snapshot, q) {
		if err != nil {
			return nil, err
		}
		return v.Entry(ctx, found, nil)
	}
	return nil, nil
}
