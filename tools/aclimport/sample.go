package foreign

import (
	"slices"
	"strings"
	"time"

	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/tools/aclimport/draft"
)

// The limits of a check: the maximum number of identities, and the maximum number of
// entries whose rights are compared.
const (
	maxIdentities = 30
	maxEntries    = 1000
)

// Check compares what the originals and the drafts let some identities do with some of the
// entries of a directory. The identities are the anonymous identity, identities that rules
// name, members of groups that rules name, and some others.
func (im *Import) Check(items []Item) (*Comparison, error) {
	d := newDirectory(im.Schema, items)
	rules, err := im.Rules()
	if err != nil {
		return nil, err
	}
	set, err := acl.NewSet(im.Schema, im.Contexts, rules)
	if err != nil {
		return nil, err
	}
	c := &Comparison{Judge: im.judge(d), Set: set, Reserved: im.Options.Reserved, Types: d.types(rules), Values: d.values}
	asked := every(items, maxEntries)
	for _, name := range d.identities(rules) {
		for _, conn := range connections(rules) {
			id := &acl.Identity{Name: name, Connection: conn}
			if len(name) > 0 {
				id.Entry, id.Groups = d.find(name), d.groups(name)
			} else {
				id.Mechanism = ""
			}
			for _, x := range asked {
				if err := c.Compare(id, d.entry(x)); err != nil {
					return nil, err
				}
			}
		}
	}
	return c, nil
}

// ExistIn sets Exists to a function that knows only the items, as if they were all entries
// of the directory.
func (im *Import) ExistIn(items []Item) {
	d := newDirectory(im.Schema, items)
	im.Exists = func(name dn.DN) (bool, error) { return d.find(name) != nil, nil }
}

// The function "every" returns at most n of the items, evenly spread.
func every(items []Item, n int) []Item {
	step := (len(items) + n - 1) / n
	var out []Item
	for i := 0; i < len(items); i += max(step, 1) {
		out = append(out, items[i])
	}
	return out
}

// A directory contains the entries of a check.
type directory struct {
	schema *schema.Schema
	items  []Item
	byName map[string]*entry.Entry
	above  map[string][]dn.DN // the groups that have a member, by the member's name
}

func newDirectory(sch *schema.Schema, items []Item) *directory {
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

// identities returns the names of the identities that a check asks about.
func (d *directory) identities(rules []acl.Placed) []dn.DN {
	all := []dn.DN{nil}
	add := func(name dn.DN) {
		if len(all) < maxIdentities && d.find(name) != nil && !slices.ContainsFunc(all, func(o dn.DN) bool { return draft.Same(d.schema, o, name) }) {
			all = append(all, name)
		}
	}
	for _, r := range rules {
		for _, t := range slices.Concat(r.Rule.Who.Any, r.Rule.Who.Except) {
			for _, s := range t {
				if name, err := dn.Parse(s.Name); err == nil && s.Kind == acl.Named {
					add(name)
				} else if g := d.find(name); err == nil && s.Kind == acl.Group && g != nil {
					members := membersOf(d.schema, g)
					for _, m := range members[:min(2, len(members))] {
						add(m)
					}
				}
			}
		}
	}
	uid := d.schema.Attribute("uid")
	var users []Item
	for _, x := range d.items {
		if uid != nil && x.Entry.Find(uid, "") != nil {
			users = append(users, x)
		}
	}
	for _, x := range every(users, maxIdentities/2) {
		add(x.Name)
	}
	return all
}

// connections returns a plain connection, and connections that meet some conditions of the
// rules.
func connections(rules []acl.Placed) []acl.Connection {
	now := time.Now()
	plain := acl.Connection{Mechanism: "simple", Time: now}
	all := []acl.Connection{plain}
	asks := func(kinds ...acl.ConditionKind) bool {
		return slices.ContainsFunc(rules, func(r acl.Placed) bool {
			return slices.ContainsFunc(r.Rule.If, func(c acl.Condition) bool { return slices.Contains(kinds, c.Kind) })
		})
	}
	if asks(acl.Secure, acl.SSF, acl.Mechanism, acl.Local) {
		all = append(all, acl.Connection{Mechanism: "external", Secure: true, SSF: 256, Time: now})
	}
	for _, r := range rules {
		for _, c := range r.Rule.If {
			if c.Kind == acl.Address && len(all) < 4 {
				from := plain
				from.Address = c.Network.Addr()
				all = append(all, from)
			}
		}
	}
	return all
}

// types returns the attribute types that rules name.
func (d *directory) types(rules []acl.Placed) (all []*schema.AttributeType) {
	for _, r := range rules {
		for _, p := range r.Rule.Parts {
			for _, a := range slices.Concat(p.Attributes, p.Except) {
				if t, _ := d.schema.Describe(a.Description); t != nil && p.Rights&acl.Use == 0 && !slices.Contains(all, t) {
					all = append(all, t)
				}
			}
		}
	}
	return all
}

// values returns one value of the type from one of the first entries, or nil if it finds none.
func (d *directory) values(t *schema.AttributeType) [][]byte {
	for _, x := range d.items[:min(len(d.items), 200)] {
		if a := x.Entry.Find(t, ""); a != nil {
			return a.Values[:1]
		}
	}
	return nil
}
