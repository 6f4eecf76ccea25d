package access

import (
	"context"
	"fmt"
	"iter"
	"net/url"
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/search"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// dynamicClass is the class of dynamic groups. The values of acl.MemberURL in a dynamic
// group are the URLs of searches (RFC 4516). The members of the group are the entries that
// at least one of these searches finds.
const dynamicClass = "groupOfURLs"

// DynamicGroups are all dynamic groups of a state.
type DynamicGroups struct {
	schema  *schema.Schema
	asOf    uint64      // the ordinal of the state
	class   sameEntries // reports whether the set of groups is unchanged; nil: the schema has no dynamic groups
	groups  []DynamicGroup
	types   []*schema.AttributeType // the types that the filters test
	demands demands
	checked checked
}

// A DynamicGroup is a dynamic group. URLs contains those of its URLs that parseURL accepts.
type DynamicGroup struct {
	partition.Located
	URLs []MemberURL
}

// A MemberURL is a parsed URL of a search in this directory.
type MemberURL struct {
	Text   []byte // the value of the attribute
	Name   dn.DN
	Scope  op.Scope
	Filter filter.Resolved
	base   []dn.Norm
}

// Dynamic returns the dynamic groups of a state. It caches the groups of the last state.
func (r *Rules) Dynamic(ctx context.Context, s *partition.Snapshot) (*DynamicGroups, error) {
	if d := r.dynamic.Load(); d.isOf(s) {
		return d, nil
	}
	d, err := readDynamic(ctx, s)
	if err == nil && d.asOf != 0 {
		r.dynamic.Store(d)
	}
	return d, err
}

// isOf reports whether the dynamic groups of the state s are those in d.
func (d *DynamicGroups) isOf(s *partition.Snapshot) bool {
	switch {
	case d == nil || d.asOf == 0 || d.schema != s.Schema():
		return false
	case d.class == nil:
		return true
	}
	return d.checked.holds(s, func() bool {
		return d.class(s, d.asOf) && (len(d.groups) == 0 || s.SameNames(d.asOf)) &&
			!slices.ContainsFunc(d.groups, func(g DynamicGroup) bool { return !s.Unchanged(g.ID, d.asOf) })
	})
}

func readDynamic(ctx context.Context, s *partition.Snapshot) (*DynamicGroups, error) {
	sch := s.Schema()
	d := &DynamicGroups{schema: sch, asOf: s.Ordinal()}
	t := sch.Attribute(acl.MemberURL)
	test, ok := filter.Resolve(filter.EqualTo("objectClass", dynamicClass), sch).(*filter.Test)
	if t == nil || !ok || sch.Class(dynamicClass) == nil {
		return d, nil
	}
	d.class = state.SameEntries(sch.Attribute("objectClass"), test.Key)
	q := partition.Query{Base: entry.Root, Scope: op.WholeSubtree, Filter: test, Only: []*schema.AttributeType{t}}
	for found, err := range search.Search(ctx, s, q) {
		if err != nil {
			return nil, err
		}
		g := DynamicGroup{Located: found.Located}
		for _, v := range found.Entry.Values(t) {
			if u, ok := parseURL(string(v), sch); ok {
				g.URLs = append(g.URLs, u)
				d.addTypes(u.Filter)
			}
		}
		d.demands.add(len(d.groups), &g)
		d.groups = append(d.groups, g)
	}
	return d, nil
}

// parseURL parses the URL of a search. It returns false if the URL is malformed, names
// another server, or has a critical extension.
func parseURL(text string, sch *schema.Schema) (m MemberURL, ok bool) {
	u, err := url.Parse(text)
	if err != nil || !strings.EqualFold(u.Scheme, "ldap") || u.Host != "" || u.Opaque != "" {
		return m, false
	}
	m.Text = []byte(text)
	parts := append(strings.SplitN(u.RawQuery, "?", 4), "", "", "", "")
	for i := range parts {
		if parts[i], err = url.PathUnescape(parts[i]); err != nil {
			return m, false
		}
	}
	if m.Name, err = dn.Parse(strings.TrimPrefix(u.Path, "/")); err != nil || strings.Contains(parts[3], "!") {
		return m, false // the name is malformed, or the URL has a critical extension
	}
	if m.base, err = m.Name.Normalize(sch); err != nil {
		return m, false
	}
	scopes := map[string]op.Scope{"": op.BaseObject, "base": op.BaseObject, "one": op.SingleLevel, "sub": op.WholeSubtree}
	if m.Scope, ok = scopes[strings.ToLower(parts[1])]; !ok {
		return m, false
	}
	if parts[2] == "" {
		m.Filter = filter.Const(filter.True)
		return m, true
	}
	f, err := filter.Parse(parts[2])
	if err != nil {
		return m, false
	}
	m.Filter = filter.Resolve(f, sch)
	return m, true
}

// addTypes adds the types that a filter tests.
func (d *DynamicGroups) addTypes(f filter.Resolved) {
	for t := range filter.Tests(f) {
		for _, typ := range t.Types {
			if !slices.Contains(d.types, typ) {
				d.types = append(d.types, typ)
			}
		}
	}
}

// Types returns the types that the filters of the groups test.
func (d *DynamicGroups) Types() []*schema.AttributeType { return d.types }

// None reports whether there are no dynamic groups.
func (d *DynamicGroups) None() bool { return len(d.groups) == 0 }

// Group returns the dynamic group with an id. It returns nil if there is no such group.
func (d *DynamicGroups) Group(id entry.ID) *DynamicGroup {
	for i := range d.groups {
		if d.groups[i].ID == id {
			return &d.groups[i]
		}
	}
	return nil
}

// With yields each URL whose search finds the entry, with the URL's group. The source src
// must provide the values of all types in [DynamicGroups.Types].
func (d *DynamicGroups) With(src *filter.EntrySource) (iter.Seq2[*DynamicGroup, *MemberURL], error) {
	norms, err := src.Name.Normalize(d.schema)
	return func(yield func(*DynamicGroup, *MemberURL) bool) {
		for _, i := range d.demands.candidates(src) {
			g := &d.groups[i]
			for k := range g.URLs {
				if u := &g.URLs[k]; u.has(norms, src) && !yield(g, u) {
					return
				}
			}
		}
	}, err
}

// The method "has" reports whether the search finds an entry.
func (m *MemberURL) has(name []dn.Norm, e filter.Source) bool {
	below := len(name) - len(m.base)
	if below < 0 || !slices.Equal(name[below:], m.base) {
		return false
	}
	switch m.Scope {
	case op.BaseObject:
		return below == 0 && m.Filter.Match(e) == filter.True
	case op.SingleLevel:
		return below == 1 && m.Filter.Match(e) == filter.True
	}
	return m.Filter.Match(e) == filter.True
}

// The method "with" returns the dynamic groups that an entry is a member of.
func (d *DynamicGroups) with(name dn.DN, e *entry.Entry) (groups []partition.Located, err error) {
	if d.None() {
		return nil, nil
	}
	all, err := d.With(&filter.EntrySource{Schema: d.schema, Entry: e, Name: name})
	if err != nil {
		return nil, err
	}
	for g := range all {
		if n := len(groups); n == 0 || groups[n-1].ID != g.ID {
			groups = append(groups, g.Located)
		}
	}
	return groups, nil
}

// dynamicMembers streams the names of the members of a dynamic group.
func dynamicMembers(ctx context.Context, s *partition.Snapshot, group *entry.Entry) iter.Seq2[dn.DN, error] {
	return func(yield func(dn.DN, error) bool) {
		t := s.Schema().Attribute(acl.MemberURL)
		if t == nil {
			return
		}
		for _, v := range group.Values(t) {
			m, ok := parseURL(string(v), s.Schema())
			if !ok {
				continue
			}
			at, err := s.Find(ctx, m.Name)
			if partition.Is(err, partition.NoSuchEntry) {
				continue
			}
			if err != nil {
				yield(nil, fmt.Errorf("%s: %w", v, err))
				return
			}
			for found, err := range search.Search(ctx, s, partition.Query{Base: at.ID, Scope: m.Scope, Filter: m.Filter, Only: []*schema.AttributeType{}}) {
				var name dn.DN
				if err == nil {
					name, err = found.Name.DN()
				}
				if !yield(name, err) || err != nil {
					return
				}
			}
		}
	}
}
