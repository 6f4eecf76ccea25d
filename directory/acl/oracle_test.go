package acl_test

import (
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// The oracle makes decisions from the text of docs/access.md alone. Of package acl, it uses
// only the types of rules, rights and identities, and Reserved.

var core = schema.Core()

// optionSets are the options in the rules, entries and questions of the oracle tests.
var optionSets = []string{"", ";lang-de", ";lang-en", ";lang-de;lang-en"}

// reads are the rights that reveal a value.
const reads = acl.Show | acl.Search | acl.Compare

// A node is an entry of the tree, with its name and its parent.
type node struct {
	name   dn.DN
	entry  *entry.Entry
	parent *entry.Entry // nil: the entry has no parent
	tree   []*node      // the tree that the entry is in
}

func (n *node) source() *filter.EntrySource {
	return &filter.EntrySource{Schema: core, Entry: n.entry, Name: n.name}
}

// An oracle makes decisions for one identity by rules and naming contexts.
type oracle struct {
	rules    []acl.Placed
	contexts []dn.DN
	id       *acl.Identity
	byName   bool // a rule allows something only on entries that the rule names
}

// A judge is an oracle for one entry or for the server. Its rules are the rules that
// apply to the identity and to the entry or the server.
type judge struct {
	*oracle
	entry *node // nil: the questions are about the server
	rules []*acl.Rule
}

func (o *oracle) at(n *node) *judge {
	j := &judge{oracle: o, entry: n}
	for _, p := range o.rules {
		if o.applies(p, n) {
			j.rules = append(j.rules, p.Rule)
		}
	}
	return j
}

// entryRight reports whether the identity has a right on the entry.
func (j *judge) entryRight(r acl.Rights) bool {
	if j.manages() {
		return true
	}
	return r != acl.Manage && j.some(false, func(p *acl.Part) bool {
		return p.Rights&r != 0 || r == acl.See && p.Rights&acl.AttributeRights != 0
	}) && !j.some(true, func(p *acl.Part) bool {
		return p.Rights&r != 0 && (r != acl.See || len(p.Attributes) == 0)
	})
}

func (j *judge) manages() bool {
	manage := func(p *acl.Part) bool { return p.Rights&acl.Manage != 0 }
	return j.some(false, manage) && !j.some(true, manage)
}

// valueRight reports whether the identity has a right on a value.
func (j *judge) valueRight(r acl.Rights, v value) bool {
	given := func(p *acl.Part) bool { return p.Rights&r != 0 && j.covers(p, v) }
	if j.manages() {
		return r&(acl.Show|acl.Search) == 0 || !v.of.Secret() || j.some(false, given)
	}
	return j.some(false, given) && !j.some(true, given)
}

// surely reports whether the text of the rules alone grants a right on all values of a
// description. If anyOptions is set, it reports whether the text grants the right on all
// values of the type. To an identity that is not an administrator, the text grants the
// right under two conditions: a part that does not select values allows the right, and no
// part that may be about one of these values denies the right.
func (j *judge) surely(r acl.Rights, t *schema.AttributeType, options string, anyOptions bool) bool {
	whole := func(p *acl.Part) bool {
		return p.Rights&r != 0 && slices.ContainsFunc(listed(p), func(a acl.Attribute) bool {
			return !chooses(a) && j.describes(a, t, options) && (!anyOptions || !strings.Contains(a.Description, ";"))
		}) && !slices.ContainsFunc(p.Except, func(a acl.Attribute) bool { return j.touches(a, t, options, anyOptions) })
	}
	touched := func(p *acl.Part) bool {
		return p.Rights&r != 0 && slices.ContainsFunc(listed(p), func(a acl.Attribute) bool { return j.touches(a, t, options, anyOptions) })
	}
	if j.manages() {
		return r&(acl.Show|acl.Search) == 0 || !t.Secret() || j.some(false, whole)
	}
	return j.some(false, whole) && !j.some(true, touched)
}

// mentioned reports whether a rule may allow a right on a value of the type t.
func (j *judge) mentioned(r acl.Rights, t *schema.AttributeType) bool {
	return j.manages() || j.some(false, func(p *acl.Part) bool {
		return p.Rights&r != 0 && slices.ContainsFunc(listed(p), func(a acl.Attribute) bool { return j.touches(a, t, "", true) })
	})
}

// mayUse reports whether the identity may use something that has the given names.
func (j *judge) mayUse(names []string) bool {
	named := func(a acl.Attribute) bool {
		return a.Description == "*" || slices.ContainsFunc(names, func(s string) bool { return strings.EqualFold(s, a.Description) })
	}
	given := func(p *acl.Part) bool {
		return p.Rights&acl.Use != 0 && slices.ContainsFunc(listed(p), named) && !slices.ContainsFunc(p.Except, named)
	}
	return j.some(false, given) && !j.some(true, given)
}

// The method "some" reports whether a part of the judge's rules passes the test. If deny is set,
// it considers the deny rules, and otherwise the allow rules.
func (j *judge) some(deny bool, test func(*acl.Part) bool) bool {
	return slices.ContainsFunc(j.rules, func(r *acl.Rule) bool {
		return r.Deny == deny && slices.ContainsFunc(r.Parts, func(p acl.Part) bool { return test(&p) })
	})
}

// applies reports whether a rule is for the identity and applies to an entry. If n is
// nil, it reports whether the rule is for the identity and applies to the server.
func (o *oracle) applies(p acl.Placed, n *node) bool {
	for _, c := range p.Rule.If {
		if !o.meets(c) {
			return false
		}
	}
	return slices.ContainsFunc(o.bindings(p.Rule), func(b binding) bool {
		return o.isWho(p.Rule.Who, n, b) && (n == nil || o.isWhat(p, n, b))
	})
}

// A value is one value of an attribute description.
type value struct {
	of      *schema.AttributeType
	options string
	bytes   []byte
}

// listed returns the attributes of a part. A part without attributes is about "*".
func listed(p *acl.Part) []acl.Attribute {
	if len(p.Attributes) == 0 {
		return []acl.Attribute{{Description: "*"}}
	}
	return p.Attributes
}

func (o *oracle) covers(p *acl.Part, v value) bool {
	one := func(a acl.Attribute) bool { return o.describes(a, v.of, v.options) && o.chosen(a, v) }
	return slices.ContainsFunc(listed(p), one) && !slices.ContainsFunc(p.Except, one)
}

func chooses(a acl.Attribute) bool { return a.Self || a.Value != nil || a.Filter != nil }

// touches reports whether an attribute of a rule may be about values of the description that
// consists of t and options. If anyOptions is set, touches ignores the options of the rule's
// attribute.
func (o *oracle) touches(a acl.Attribute, t *schema.AttributeType, options string, anyOptions bool) bool {
	if anyOptions {
		a.Description, _, _ = strings.Cut(a.Description, ";")
	}
	return o.describes(a, t, options)
}

// describes reports whether an attribute of a rule is about the attribute description.
func (o *oracle) describes(a acl.Attribute, t *schema.AttributeType, options string) bool {
	reserved := acl.Reserved(t)
	switch {
	case a.Description == "*":
		return !t.Operational() && !reserved
	case a.Description == "+":
		return t.Operational() && !reserved
	case a.Description[0] == '@':
		return !reserved && inClass(core.Class(a.Description[1:]), t)
	}
	name, wanted, _ := strings.Cut(a.Description, ";")
	for _, w := range strings.Split(wanted, ";") {
		if w != "" && !slices.Contains(strings.Split(options, ";"), strings.ToLower(w)) {
			return false
		}
	}
	return t.Is(core.Attribute(name))
}

func inClass(c *schema.ObjectClass, t *schema.AttributeType) bool {
	is := func(of *schema.AttributeType) bool { return t.Is(of) }
	return slices.ContainsFunc(c.Must, is) || slices.ContainsFunc(c.May, is) ||
		slices.ContainsFunc(c.Sup, func(s *schema.ObjectClass) bool { return inClass(s, t) })
}

// chosen reports whether an attribute of a rule selects the value.
func (o *oracle) chosen(a acl.Attribute, v value) bool {
	switch {
	case a.Self:
		d, err := dn.Parse(string(v.bytes))
		return err == nil && len(o.id.Name) > 0 && sameName(d, o.id.Name)
	case a.Value != nil:
		return v.of.SameValue(v.bytes, []byte(*a.Value))
	case a.Filter != nil:
		alone := &entry.Entry{Attributes: []entry.Attribute{{Type: v.of, Options: v.options, Values: [][]byte{v.bytes}}}}
		return meetsFilter(a.Filter, &node{entry: alone})
	}
	return true
}

func meetsFilter(f filter.Filter, n *node) bool {
	return f == nil || filter.Resolve(f, core).Match(n.source()) == filter.True
}

// meetsTarget evaluates the filter of a target on an entry. It evaluates memberOf and
// isMemberOf by the members of the groups in the tree.
func meetsTarget(f filter.Filter, n *node) filter.Tri {
	switch f := f.(type) {
	case nil:
		return filter.True
	case filter.And:
		least := filter.True
		for _, p := range f {
			least = min(least, meetsTarget(p, n))
		}
		return least
	case filter.Or:
		most := filter.False
		for _, p := range f {
			most = max(most, meetsTarget(p, n))
		}
		return most
	case *filter.Not:
		return -meetsTarget(f.Filter, n)
	case *filter.Equal:
		if strings.HasSuffix(f.Attribute, "emberOf") {
			return isMember(n, string(f.Value), f.Attribute == "isMemberOf")
		}
	case *filter.Present:
		if strings.HasSuffix(f.Attribute, "emberOf") {
			return isMember(n, "", f.Attribute == "isMemberOf")
		}
	}
	return filter.Resolve(f, core).Match(n.source())
}

// isMember reports whether an entry is a member of the group with a name. If the name is "",
// isMember reports whether the entry is a member of any group. The search goes down from the
// group to its members.
func isMember(n *node, group string, nested bool) filter.Tri {
	for _, g := range n.tree {
		if group == "" && g.has(n.name, nested, nil) || group != "" && sameName(g.name, mustName(group)) && g.has(n.name, nested, nil) {
			return filter.True
		}
	}
	return filter.False
}

// The method "has" reports whether the group n has a member. If nested is set, members of groups
// in n count too. The list seen contains the groups that have already been searched, which are
// not searched again.
func (n *node) has(member dn.DN, nested bool, seen []*node) bool {
	if slices.Contains(seen, n) {
		return false
	}
	seen = append(seen, n)
	for _, v := range append(n.entry.Values(core.Attribute("member")), n.entry.Values(core.Attribute("uniqueMember"))...) {
		d, err := dn.Parse(string(v))
		if err != nil {
			continue
		}
		if sameName(d, member) {
			return true
		}
		for _, g := range n.tree {
			if nested && sameName(g.name, d) && g.has(member, true, seen) {
				return true
			}
		}
	}
	return false
}
