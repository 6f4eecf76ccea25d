package foreign

import (
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/tools/aclimport/draft"
)

// An item is an entry with its name.
type item struct {
	Name  dn.DN
	Entry *entry.Entry
}

// A directory contains entries and their groups.
type directory struct {
	schema *schema.Schema
	items  []item
	byName map[string]*entry.Entry
	above  map[string][]dn.DN // the groups that have a member, by the member's name
}

func newDirectory(sch *schema.Schema, items []item) *directory {
	d := &directory{schema: sch, items: items, byName: map[string]*entry.Entry{}, above: map[string][]dn.DN{}}
	for _, x := range items {
		d.byName[d.key(x.Name)] = x.Entry
		for _, v := range membersOf(sch, x.Entry) {
			d.above[d.key(v)] = append(d.above[d.key(v)], x.Name)
		}
	}
	return d
}

func (d *directory) key(name dn.DN) string {
	n, err := name.Normalize(d.schema)
	if err != nil {
		return strings.ToLower(name.String())
	}
	return string(dn.Key(n))
}

func (d *directory) find(name dn.DN) *entry.Entry { return d.byName[d.key(name)] }

// membersOf returns the members that an entry names.
func membersOf(sch *schema.Schema, e *entry.Entry) (members []dn.DN) {
	for _, n := range []string{"member", "uniqueMember"} {
		for _, a := range e.Attributes {
			if a.Type != sch.Attribute(n) {
				continue
			}
			for _, v := range a.Values {
				if m, err := dn.Parse(string(v)); err == nil {
					members = append(members, m)
				}
			}
		}
	}
	return members
}

// groups returns the groups that the entry with a name is in, directly or through other
// groups.
func (d *directory) groups(name dn.DN) (groups []dn.DN) {
	seen := map[string]bool{}
	for next := []dn.DN{name}; len(next) > 0; next = next[1:] {
		for _, g := range d.above[d.key(next[0])] {
			if k := d.key(g); !seen[k] {
				seen[k] = true
				groups, next = append(groups, g), append(next, g)
			}
		}
	}
	return groups
}

// entry returns the item as an acl.Entry, about which rules can decide.
func (d *directory) entry(x item) *acl.Entry {
	return &acl.Entry{Name: x.Name, Entry: x.Entry, Source: &filter.EntrySource{Schema: d.schema, Entry: x.Entry, Name: x.Name}, Others: &others{d, x.Name}}
}

// byDN returns the entry with the given name as an acl.Entry, or nil if there is none.
func (d *directory) byDN(name dn.DN) *acl.Entry {
	e := d.find(name)
	if e == nil {
		return nil
	}
	return d.entry(item{name, e})
}

// others answers questions about the parent and the groups of an entry. name is the name
// of this entry.
type others struct {
	*directory
	name dn.DN
}

// Parent implements acl.Others.
func (o *others) Parent() *entry.Entry { return o.find(o.name.Parent()) }

// InGroup implements acl.Others.
func (o *others) InGroup(group dn.DN, nested bool) bool {
	in := o.above[o.key(o.name)]
	if nested {
		in = o.groups(o.name)
	}
	return len(in) > 0 && (group == nil || slices.ContainsFunc(in, func(g dn.DN) bool { return draft.Same(o.schema, g, group) }))
}

// meets evaluates a filter of an original on an entry. The old server stores memberOf in
// the entry. Here, the values of memberOf are the groups that the entry is in, including
// groups of groups if nested is set.
func meets(sch *schema.Schema, f filter.Filter, e *acl.Entry, nested bool) filter.Tri {
	switch f := f.(type) {
	case filter.And:
		least := filter.True
		for _, p := range f {
			least = min(least, meets(sch, p, e, nested))
		}
		return least
	case filter.Or:
		most := filter.False
		for _, p := range f {
			most = max(most, meets(sch, p, e, nested))
		}
		return most
	case *filter.Not:
		return -meets(sch, f.Filter, e, nested)
	case *filter.Equal:
		if isMemberOf(f.Attribute) {
			d, err := dn.Parse(string(f.Value))
			return truth(err == nil && len(d) > 0 && e.Others.InGroup(d, nested))
		}
	case *filter.Present:
		if isMemberOf(f.Attribute) {
			return truth(e.Others.InGroup(nil, nested))
		}
	}
	return filter.Resolve(f, sch).Match(e.Source)
}

func truth(b bool) filter.Tri {
	if b {
		return filter.True
	}
	return filter.False
}

func isMemberOf(attribute string) bool {
	return strings.EqualFold(attribute, "memberOf") || strings.EqualFold(attribute, "isMemberOf")
}
