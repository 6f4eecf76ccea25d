package directory

import (
	"context"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/wire"
)

// readEntry responds with the entry as a base search for these attributes shows
// it; nil attributes: nobody asks.
func readEntry(ctx context.Context, o *operation, name dn.DN, id entry.ID, oid string, attributes []string) error {
	if attributes == nil {
		return nil
	}
	var v view
	v.open(o, attributes, false)
	e, err := seen(ctx, o, &v, name, id)
	if e != nil {
		o.respond(oid, wire.AppendSearchEntry(nil, e))
	}
	return err
}

// seen returns an entry as a view shows it.
func seen(ctx context.Context, o *operation, v *view, name dn.DN, id entry.ID) (_ *op.SearchEntry, err error) {
	if partition.IsSubschema(name) {
		s, err := subschema(ctx, o)
		if err != nil {
			return nil, err
		}
		return v.unstored(s.name, &s.entry), nil
	}
	if v.shared, err = collect(ctx, o); err != nil {
		return nil, err
	}
	q := v.query(nil)
	q.Base, q.Scope, q.Filter = id, op.BaseObject, filter.Const(filter.True)
	for found, err := range o.s.Search(ctx, q) {
		if err != nil {
			return nil, err
		}
		return v.entry(ctx, found, nil)
	}
	return nil, nil
}
