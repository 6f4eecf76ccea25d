// Package virtual serves the entries that are not in the tree: the root DSE, the
// subschema, cn=config, the branches, the changelog, the monitor and the records of views.
package virtual

import (
	"context"
	"slices"

	"github.com/seed-4dac0d86/ldapd/directory/internal/filterprep"
	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// A Source serves entries that are not in the tree. It builds the entries when a client
// requests them.
type Source interface {
	// holds reports whether a name is the name of one of the source's entries, or is
	// below such a name.
	holds(name dn.DN) bool
	// serves reports whether the source runs searches with the given base and scope.
	serves(base dn.DN, scope op.Scope) bool
	// Search runs a search.
	Search(ctx context.Context, req *request.Request, base dn.DN, r *op.Search, sink op.Sink) error
	// find returns the entry with a name, for operations on a single entry. If it returns
	// nil, the operation looks in the tree.
	find(ctx context.Context, req *request.Request, name dn.DN) (*Entry, error)
	// refusal returns the diagnostic for a refused change of one of the source's entries.
	refusal() string
}

var sources = []Source{theRootDSE{}, theSubschema{}, theConfig{}, theChangelog{}, theMonitor{}, theBranches{}, theViews{}}

// Lookup returns the source for searches with the given base and scope, or nil if such
// searches run in the tree.
func Lookup(base dn.DN, scope op.Scope) Source {
	for _, s := range sources {
		if s.serves(base, scope) {
			return s
		}
	}
	return nil
}

// Named returns the entry with a name if a source has the entry. If Named returns nil, the
// entry may still be in the tree.
func Named(ctx context.Context, req *request.Request, name dn.DN) (*Entry, error) {
	if s := Lookup(name, op.BaseObject); s != nil {
		return s.find(ctx, req, name)
	}
	return nil, nil
}

// holder returns the source that a name belongs to, or nil if it belongs to no source.
func holder(name dn.DN) Source {
	for _, s := range sources {
		if s.holds(name) {
			return s
		}
	}
	return nil
}

// Holds reports whether a name belongs to a source.
func Holds(name dn.DN) bool { return holder(name) != nil }

// RefuseWrite returns an error if a name belongs to a source.
func RefuseWrite(name dn.DN) error {
	if s := holder(name); s != nil {
		return op.Errorf(op.UnwillingToPerform, "%s", s.refusal())
	}
	return nil
}

// RefuseBelow returns an error if an entry must not be moved below superior, because a
// source serves the entries below superior.
func RefuseBelow(superior dn.DN) error {
	if Lookup(superior, op.SingleLevel) == nil {
		return nil
	}
	return op.Errorf(op.UnwillingToPerform, "there cannot be entries below %s", superior)
}

// endsIn reports whether a name is cn=VALUE or below it.
func endsIn(name dn.DN, value string) bool {
	return len(name) > 0 && name[len(name)-1].IsCN(value)
}

// An Entry is an entry that is not stored.
type Entry struct {
	Name   *dn.Name
	Entry  entry.Entry
	judged bool // access rules decide which parts the requester may search and read
}

// newEntry returns an entry of a class. The parameter pairs contains attribute names, each
// followed by a value. newEntry leaves out empty values.
func newEntry(req *request.Request, name, class string, pairs ...string) *Entry {
	v := &Entry{Name: dn.NewName(name)}
	v.add(req.Schema, "objectClass", "top", class)
	for p := range slices.Chunk(pairs, 2) {
		if p[1] != "" {
			v.add(req.Schema, p[0], p[1])
		}
	}
	v.add(req.Schema, "structuralObjectClass", class)
	v.add(req.Schema, "entryDN", name)
	v.add(req.Schema, "subschemaSubentry", catalog.SubschemaName)
	return v
}

// add adds an attribute to the entry, unless the schema lacks the attribute.
func (v *Entry) add(s *schema.Schema, name string, values ...string) {
	t := s.Attribute(name)
	if t == nil || len(values) == 0 {
		return
	}
	a := entry.Attribute{Type: t}
	for _, x := range values {
		a.Values = append(a.Values, []byte(x))
	}
	v.Entry.Attributes = append(v.Entry.Attributes, a)
}

// Source returns the entry in the form that filters test.
func (v *Entry) Source(s *schema.Schema) *filter.EntrySource {
	name, _ := v.Name.DN() // the server itself has made the name
	return &filter.EntrySource{Schema: s, Entry: &v.Entry, Name: name}
}

// prepare turns a client's filter into a filter that can be tested on the entry.
func (v *Entry) prepare(ctx context.Context, req *request.Request, f filter.Filter) filter.Resolved {
	r := filterprep.PrepareUnstored(req, f)
	if v.judged {
		r = req.Judge.Guard(ctx, r)
	}
	return r
}

// Shown returns the part of the entry that the requester may be shown.
func (v *Entry) Shown(ctx context.Context, req *request.Request) (*entry.Entry, error) {
	if !v.judged {
		return &v.Entry, nil
	}
	attributes, err := req.Judge.Case(v.Name, &v.Entry).Shown(ctx, slices.Clone(v.Entry.Attributes))
	return &entry.Entry{Attributes: attributes}, err
}

// matches reports whether a filter matches the entry.
func (v *Entry) matches(req *request.Request, f filter.Resolved) bool {
	return f.Match(v.Source(req.Schema)) == filter.True
}

func (v *Entry) norms(s *schema.Schema) ([]dn.Norm, error) {
	name, err := v.Name.DN()
	if err != nil {
		return nil, err
	}
	return name.Normalize(s)
}

// ErrAssertion is the result if the assertion is not true. The result reveals no more than a
// search that finds nothing.
var ErrAssertion = op.Errorf(op.AssertionFailed, "the assertion is not true of the entry")

// Assert evaluates the assertion of a request, if there is one, on the entry.
func (v *Entry) Assert(ctx context.Context, req *request.Request) error {
	if req.Controls.Assertion == nil {
		return nil
	}
	if !v.matches(req, v.prepare(ctx, req, req.Controls.Assertion)) {
		return ErrAssertion
	}
	return nil
}
