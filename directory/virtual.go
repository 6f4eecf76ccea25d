package directory

import (
	"context"
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/schema"
)

// A source serves entries that are in no tree: they are made as they are asked for.
type source interface {
	// holds reports whether a name is that of one of its entries, or of what would be
	// below them.
	holds(name dn.DN) bool
	// serves reports whether a search from a base goes to it.
	serves(base dn.DN, scope op.Scope) bool
	// search runs a search.
	search(ctx context.Context, o *operation, base dn.DN, r *op.Search, sink op.Sink) error
	// entry returns the entry of a name for what is asked of one entry; nil: it is as if
	// there were none.
	entry(ctx context.Context, o *operation, name dn.DN) (*virtual, error)
	// refusal says why nothing can be written there.
	refusal() string
}

var sources = []source{theRootDSE{}, theSubschema{}, theChangelog{}, theMonitor{}}

// virtualSource returns the source that a search from a base goes to; nil: it goes to
// the tree.
func virtualSource(base dn.DN, scope op.Scope) source {
	for _, s := range sources {
		if s.serves(base, scope) {
			return s
		}
	}
	return nil
}

// virtualNamed returns the entry of a name that is in no tree; nil: it is looked for in
// the tree.
func virtualNamed(ctx context.Context, o *operation, name dn.DN) (*virtual, error) {
	if s := virtualSource(name, op.BaseObject); s != nil {
		return s.entry(ctx, o, name)
	}
	return nil, nil
}

// holder returns the source that a name belongs to; nil: it belongs to the tree.
func holder(name dn.DN) source {
	for _, s := range sources {
		if s.holds(name) {
			return s
		}
	}
	return nil
}

// refuseVirtual keeps writes off names that are not the tree's.
func refuseVirtual(name dn.DN) error {
	if s := holder(name); s != nil {
		return op.Errorf(op.UnwillingToPerform, "%s", s.refusal())
	}
	return nil
}

// refuseBelow keeps entries from being moved below one that is in no tree.
func refuseBelow(superior dn.DN) error {
	if virtualSource(superior, op.SingleLevel) == nil {
		return nil
	}
	return op.Errorf(op.UnwillingToPerform, "nothing can stand below %s", superior)
}

// endsIn reports whether a name is cn=VALUE or of an entry below it.
func endsIn(name dn.DN, value string) bool {
	if len(name) == 0 || len(name[len(name)-1]) != 1 {
		return false
	}
	a := name[len(name)-1][0]
	return strings.EqualFold(string(a.Value), value) &&
		(strings.EqualFold(a.Type, "cn") || strings.EqualFold(a.Type, "commonName") || a.Type == "2.5.4.3")
}

// A virtual is an entry that no store has.
type virtual struct {
	name  string
	entry entry.Entry
}

// virtualEntry makes an entry of a class from pairs of an attribute and its value;
// what is empty is left out.
func virtualEntry(o *operation, name, class string, pairs ...string) *virtual {
	v := &virtual{name: name}
	v.add(o.schema, "objectClass", "top", class)
	for p := range slices.Chunk(pairs, 2) {
		if p[1] != "" {
			v.add(o.schema, p[0], p[1])
		}
	}
	v.add(o.schema, "structuralObjectClass", class)
	v.add(o.schema, "entryDN", name)
	v.add(o.schema, "subschemaSubentry", partition.SubschemaName)
	return v
}

// add returns the entry values of an attribute. One that the schema does not have
// is left out.
func (v *virtual) add(s *schema.Schema, name string, values ...string) {
	t := s.Attribute(name)
	if t == nil || len(values) == 0 {
		return
	}
	a := entry.Attribute{Type: t}
	for _, x := range values {
		a.Values = append(a.Values, []byte(x))
	}
	v.entry.Attributes = append(v.entry.Attributes, a)
}

// source is the entry as filters see it.
func (v *virtual) source(s *schema.Schema) *filter.EntrySource {
	name, _ := dn.Parse(v.name) // a constant
	return &filter.EntrySource{Schema: s, Entry: &v.entry, Name: name}
}

// matches reports whether a filter is true of the entry.
func (v *virtual) matches(o *operation, f filter.Resolved) bool {
	return f.Match(v.source(o.schema)) == filter.True
}

func (v *virtual) norms(s *schema.Schema) ([]dn.Norm, error) {
	name, err := dn.Parse(v.name)
	if err != nil {
		return nil, err
	}
	return name.Normalize(s)
}

// errAssertion says as little as a search that finds nothing.
var errAssertion = op.Errorf(op.AssertionFailed, "the assertion is not true of the entry")

// assert tests the assertion of a request, if there is one, on the entry.
func (v *virtual) assert(o *operation) error {
	if o.controls.assertion == nil {
		return nil
	}
	if !v.matches(o, prepareUnstored(o, o.controls.assertion)) {
		return errAssertion
	}
	return nil
}
