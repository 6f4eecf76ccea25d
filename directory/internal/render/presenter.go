// Package render turns a found entry into what its client sees. It selects the requested
// attributes, adds computed attributes, collective attributes and attributes of other
// entries, and drops values that must not be sent.
package render

import (
	"context"

	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/directory/internal/collective"
	"github.com/seed-4dac0d86/ldapd/directory/internal/membership"
	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/search"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// A Presenter turns the found entries of a state into the entries that the client of a search
// receives.
type Presenter struct {
	asked
	// The buffers below are reused. This is possible because sinks encode an entry before
	// they return.
	selector selector
	found    op.SearchEntry
	selected []entry.Attribute
	types    []*schema.AttributeType
}

// asked contains what a client requests to see, except the requested attributes, which are
// in the selector.
type asked struct {
	Req         *request.Request
	typesOnly   bool
	Stored      bool            // leave out computed and collective attributes
	Shared      *collective.Set // nil if there are none
	matched     matched
	dereference []derefSpec
	names       int          // names that were dereferenced
	drawn       int64        // memory drawn for the entries that were dereferenced last
	rights      *rights      // nil: not asked for
	groups      search.Names // of the groups that were shown as memberships
}

// Open resolves what the client requests to see, by the schema of the state that the
// request reads.
func (v *Presenter) Open(req *request.Request, attributes []string, typesOnly bool) {
	v.Req, v.typesOnly = req, typesOnly
	v.selector.resolve(attributes, req.Schema)
	v.matched = newMatched(req)
	v.dereference = describeAll(req, req.Controls.Dereference)
}

// Release drops all references, but keeps the buffers.
func (v *Presenter) Release() {
	clear(v.selected[:cap(v.selected)])
	v.selector.reset()
	v.asked, v.found = asked{}, op.SearchEntry{}
	v.selected, v.types = v.selected[:0], v.types[:0]
}

// Query returns a query that reads the attributes that the view shows, and the attributes
// that the results are sorted by.
func (v *Presenter) Query(keys []partition.SortKey) partition.Query {
	req := v.Req
	q := partition.Query{
		Secrets: v.selector.wantsSecret() && !req.IsPast() && req.Judge.Secrets(acl.Show),
		Only:    v.only(keys),
		Most:    req.Limits.Candidates,
	}
	if !v.Stored && v.showsGroups() {
		q.Ahead = func(ctx context.Context, names []*dn.Name) error {
			return membership.Ahead(ctx, v.Req, names, &v.groups)
		}
	}
	if req.Watched || req.Controls.Explain != nil {
		q.Cost = req.Cost
	}
	return q
}

// The result of only is the list of attribute types that the search needs, or nil for all
// types. From an entry with very many values, the search reads no other types.
func (v *Presenter) only(keys []partition.SortKey) []*schema.AttributeType {
	if v.selector.user || v.selector.operational {
		return nil
	}
	k := v.Req.Known
	v.types = append(v.types[:0], k.ObjectClass, k.Ref, k.AliasedObjectName)
	if v.Shared != nil {
		v.types = append(v.types, k.CollectiveExclusions)
	}
	for _, n := range v.selector.named {
		v.types = append(v.types, v.Req.Schema.Subtypes(n.Type)...)
	}
	for _, k := range keys {
		v.types = append(v.types, v.Req.Schema.Subtypes(k.Type)...)
	}
	for i := range v.dereference {
		v.types = append(v.types, v.dereference[i].attribute.typ)
	}
	v.types = append(v.types, v.Req.Judge.NeededTypes()...)
	return v.types
}

// Entry returns what the client sees of an entry, with controls. The result is valid
// until the next call.
func (v *Presenter) Entry(ctx context.Context, found *partition.Result, controls []op.Control) (_ *op.SearchEntry, err error) {
	own := found.Entry.Attributes
	if v.Shared != nil && !v.Stored {
		if own, err = v.Shared.Attributes(ctx, found); err != nil {
			return nil, err
		}
	}
	attributes := v.selector.apply(v.selected[:0], own)
	if !v.Stored {
		if attributes, err = v.appendComputed(ctx, attributes, found); err != nil {
			return nil, err
		}
		if attributes, err = v.appendAccount(ctx, attributes, found); err != nil {
			return nil, err
		}
		if attributes, err = v.appendRanges(ctx, attributes, found); err != nil {
			return nil, err
		}
	}
	if attributes, err = v.Req.Judge.Case(found.Name, found.Entry).Shown(ctx, attributes); err != nil {
		return nil, err
	}
	if v.dereference != nil {
		more, err := v.dereferenced(ctx, found)
		if err != nil {
			return nil, err
		}
		controls = append(more, controls...)
	}
	if controls, err = v.appendUsable(ctx, controls, found); err != nil {
		return nil, err
	}
	e := v.show(found.Name, attributes, controls)
	if v.rights != nil {
		if e.Attributes, err = v.appendRights(ctx, e.Attributes, found); err != nil {
			return nil, err
		}
		v.selected = e.Attributes
	}
	return e, nil
}

// Unstored returns what the client sees of an entry that is not stored.
func (v *Presenter) Unstored(name *dn.Name, e *entry.Entry) *op.SearchEntry {
	return v.show(name, v.selector.apply(v.selected[:0], e.Attributes), nil)
}

func (v *Presenter) show(name *dn.Name, attributes []entry.Attribute, controls []op.Control) *op.SearchEntry {
	v.selected = attributes
	if !v.typesOnly {
		v.matched.apply(attributes)
	}
	v.found = op.SearchEntry{Name: v.Req.Named(name.String()), Attributes: attributes, TypesOnly: v.typesOnly, Controls: controls}
	return &v.found
}
