package directory

import (
	"context"

	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/schema"
)

// A view is what the client of a search is shown of the entries of a state. It is the
// only place where an entry that was found becomes what the client sees.
type view struct {
	o           *operation
	typesOnly   bool
	stored      bool // leaves out what is computed or shared
	selector    selector
	shared      *collectives // nil if there are none
	matched     matched
	dereference []derefSpec

	// Buffers that are used again: sinks encode before they return.
	found    op.SearchEntry
	selected []entry.Attribute
	types    []*schema.AttributeType
}

// open looks up what the client asks to see, under the schema of the state that the
// request reads.
func (v *view) open(o *operation, attributes []string, typesOnly bool) {
	v.o, v.typesOnly = o, typesOnly
	v.selector.resolve(attributes, o.schema)
	v.matched = newMatched(o)
	v.dereference = describeAll(o.controls.dereference, o.schema)
}

// release lets go of all but the buffers.
func (v *view) release() {
	clear(v.selected[:cap(v.selected)])
	v.selector.reset()
	*v = view{selector: v.selector, selected: v.selected[:0], types: v.types[:0]}
}

// query returns a query that reads of entries what the view shows of them, and by which
// it puts them in order.
func (v *view) query(keys []partition.SortKey) partition.Query {
	o := v.o
	q := partition.Query{
		Secrets: o.who.isAdmin() && !o.isPast() && v.selector.wantsSecret(),
		Only:    v.only(keys),
		Most:    o.limits.Candidates,
	}
	if o.trace.on {
		q.Cost = &o.trace.cost
	}
	return q
}

// only lists the types that are needed of an entry with very many values; nil is all of
// them.
func (v *view) only(keys []partition.SortKey) []*schema.AttributeType {
	if v.selector.user || v.selector.operational {
		return nil
	}
	k := v.o.known
	v.types = append(v.types[:0], k.objectClass, k.ref, k.aliasedObjectName)
	if v.shared != nil {
		v.types = append(v.types, k.collectiveExclusions)
	}
	for _, n := range v.selector.named {
		v.types = append(v.types, v.o.schema.Subtypes(n.Type)...)
	}
	for _, k := range keys {
		v.types = append(v.types, v.o.schema.Subtypes(k.Type)...)
	}
	for i := range v.dereference {
		v.types = append(v.types, v.dereference[i].attribute.typ)
	}
	return v.types
}

// entry returns what the client sees of an entry, with controls. It is good until the
// next one.
func (v *view) entry(ctx context.Context, found *partition.Result, controls []op.Control) (_ *op.SearchEntry, err error) {
	own := found.Entry.Attributes
	if v.shared != nil && !v.stored {
		if own, err = v.shared.attributes(ctx, found); err != nil {
			return nil, err
		}
	}
	attributes := v.selector.apply(v.selected[:0], own)
	if !v.stored {
		if attributes, err = v.appendComputed(ctx, attributes, found); err != nil {
			return nil, err
		}
		if attributes, err = v.appendRanges(ctx, attributes, found); err != nil {
			return nil, err
		}
	}
	if v.dereference != nil {
		more, err := v.dereferenced(ctx, found.Entry)
		if err != nil {
			return nil, err
		}
		controls = append(more, controls...)
	}
	return v.show(found.Name, attributes, controls), nil
}

// unstored returns what the client sees of an entry that no store has.
func (v *view) unstored(name string, e *entry.Entry) *op.SearchEntry {
	return v.show(name, v.selector.apply(v.selected[:0], e.Attributes), nil)
}

func (v *view) show(name string, attributes []entry.Attribute, controls []op.Control) *op.SearchEntry {
	v.selected = attributes
	if !v.typesOnly {
		v.matched.apply(attributes)
	}
	v.found = op.SearchEntry{Name: name, Attributes: attributes, TypesOnly: v.typesOnly, Controls: controls}
	return &v.found
}
