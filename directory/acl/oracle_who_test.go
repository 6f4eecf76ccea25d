package acl_test

import (
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

func sameName(a, b dn.DN) bool {
	x, err1 := a.Normalize(core)
	y, err2 := b.Normalize(core)
	return err1 == nil && err2 == nil && slices.Equal(x, y)
}

// isBelow reports whether the name d is below the name superior. A name is not below
// itself.
func isBelow(d, superior dn.DN) bool {
	return len(d) > len(superior) && sameName(d[len(d)-len(superior):], superior)
}

func (o *oracle) meets(c acl.Condition) bool {
	id, met := o.id, false
	switch c.Kind {
	case acl.Secure:
		met = id.Secure || id.Local
	case acl.Local:
		met = id.Local
	case acl.Proxied:
		met = id.Proxied
	case acl.SSF:
		met = id.SSF >= c.SSF
	case acl.Address:
		met = id.Address.IsValid() && c.Network.Contains(id.Address)
	case acl.Mechanism:
		met = id.Mechanism == c.Mechanism
	case acl.TimeOfDay:
		for m := c.From; m != c.To; m = (m + 1) % (24 * 60) {
			at := id.Time.In(c.Zone)
			met = met || at.Hour()*60+at.Minute() == m
			if m == 24*60-1 && c.To == 24*60 {
				break
			}
		}
	case acl.Weekday:
		for d := c.From; ; d = (d + 1) % 7 {
			met = met || int(id.Time.Weekday()) == d
			if d == c.To {
				break
			}
		}
	}
	return met != c.Not
}

func (o *oracle) isWho(w acl.Who, n *node, b binding) bool {
	is := func(t acl.Term) bool {
		return !slices.ContainsFunc(t, func(s acl.Subject) bool { return !o.isSubject(s, n, b) })
	}
	return slices.ContainsFunc(w.Any, is) && !slices.ContainsFunc(w.Except, is)
}

func (o *oracle) isSubject(s acl.Subject, n *node, b binding) bool {
	id := o.id
	bound := len(id.Name) > 0
	switch s.Kind {
	case acl.Everyone:
		return true
	case acl.Anonymous:
		return !bound
	case acl.Users:
		return bound
	case acl.Named:
		return bound && matchesName(s.Name, id.Name, b)
	case acl.Below:
		return bound && o.isBelowSubject(s, b)
	case acl.Group:
		return slices.ContainsFunc(id.Groups, func(g dn.DN) bool { return matchesName(s.Name, g, b) })
	}
	return n != nil && bound && o.isOfEntry(s, n)
}

func (o *oracle) isBelowSubject(s acl.Subject, b binding) bool {
	own := &node{name: o.id.Name, entry: o.id.Entry}
	if s.Filter != nil && (own.entry == nil || !meetsFilter(s.Filter, own)) {
		return false
	}
	size := len(parsePattern(s.Name))
	return len(own.name) > size && matchesName(s.Name, own.name[len(own.name)-size:], b)
}

// isOfEntry reports whether the identity matches a subject that depends on the entry.
func (o *oracle) isOfEntry(s acl.Subject, n *node) bool {
	switch s.Kind {
	case acl.Self:
		return sameName(o.id.Name, n.name)
	case acl.ItsSuperior:
		return isBelow(n.name, o.id.Name)
	case acl.Same:
		return o.shares(s.Attribute, n)
	case acl.ItsParent:
		return o.isMeant(n.name.Parent(), s.Group)
	case acl.Its:
		return o.isNamedBy(n.entry, s)
	case acl.ItsParents:
		return o.isNamedBy(n.parent, s)
	}
	panic("a subject that the oracle does not know")
}

// isMeant reports whether d is the name of the identity. If group is set, it reports instead
// whether d is the name of a group of the identity.
func (o *oracle) isMeant(d dn.DN, group bool) bool {
	if !group {
		return sameName(d, o.id.Name)
	}
	return slices.ContainsFunc(o.id.Groups, func(g dn.DN) bool { return sameName(g, d) })
}

func (o *oracle) isNamedBy(e *entry.Entry, s acl.Subject) bool {
	return slices.ContainsFunc(valuesOf(e, s.Attribute), func(v value) bool {
		d, err := dn.Parse(string(v.bytes))
		return err == nil && o.isMeant(d, s.Group)
	})
}

// shares reports whether the identity's entry and the entry of n have a value of the
// attribute in common.
func (o *oracle) shares(description string, n *node) bool {
	for _, mine := range valuesOf(o.id.Entry, description) {
		for _, v := range valuesOf(n.entry, description) {
			if v.of.SameValue(mine.bytes, v.bytes) {
				return true
			}
		}
	}
	return false
}

// valuesOf returns the values of an attribute description, including values of subtypes
// and values with further options.
func valuesOf(e *entry.Entry, description string) (all []value) {
	if e == nil {
		return nil
	}
	t, options := core.Describe(description)
	for _, a := range e.Attributes {
		for _, v := range a.Values {
			if a.Type.Is(t) && entry.HasOptions(a.Options, entry.SortOptions(options)) {
				all = append(all, value{a.Type, a.Options, v})
			}
		}
	}
	return all
}

// A binding maps the variables of a rule to values. A variable is a name in braces.
type binding map[string][]byte

// bindings returns all possible bindings of the variables of a rule. The possible values
// are the values in the names of the identity and of its groups.
func (o *oracle) bindings(r *acl.Rule) []binding {
	var values [][]byte
	for _, d := range append([]dn.DN{o.id.Name}, o.id.Groups...) {
		for _, rdn := range d {
			for _, ava := range rdn {
				values = append(values, ava.Value)
			}
		}
	}
	all := []binding{{}}
	for _, name := range braces(r) {
		var more []binding
		for _, b := range all {
			for _, v := range values {
				with := binding{name: v}
				for k, w := range b {
					with[k] = w
				}
				more = append(more, with)
			}
		}
		all = more
	}
	return all
}

// braces returns the variables in the subjects of a rule. The subjects determine the
// values of the variables in the targets.
func braces(r *acl.Rule) (names []string) {
	for _, t := range append(r.Who.Any[:len(r.Who.Any):len(r.Who.Any)], r.Who.Except...) {
		for _, s := range t {
			for _, p := range strings.Split(s.Name, "={")[1:] {
				if name, _, _ := strings.Cut(p, "}"); !slices.Contains(names, name) {
					names = append(names, name)
				}
			}
		}
	}
	return names
}

func (o *oracle) isWhat(p acl.Placed, n *node, b binding) bool {
	what := p.Rule.In
	if what == nil {
		what = &acl.What{Any: []acl.Target{{}}}
	}
	is := func(t acl.Target) bool { return o.isTarget(p.Place, t, n, b) }
	named := func(t acl.Target) bool {
		// A target with the scope Children always names entries. Without a place and a pattern, it
		// names the naming contexts.
		return p.Rule.Deny || !o.byName || len(p.Place) > 0 || t.Pattern != "" || t.Scope == acl.Children
	}
	return slices.ContainsFunc(what.Any, func(t acl.Target) bool { return named(t) && is(t) }) && !slices.ContainsFunc(what.Except, is)
}

// isTarget reports whether a target includes an entry. The base of the target has as many
// RDNs as the place and the pattern together.
func (o *oracle) isTarget(place dn.DN, t acl.Target, n *node, b binding) bool {
	if meetsTarget(t.Filter, n) != filter.True {
		return false
	}
	pattern := parsePattern(t.Pattern)
	below := len(n.name) - len(place) - len(pattern)
	if below < 0 {
		return false
	}
	base := n.name[below:]
	if !sameName(base[len(pattern):], place) || !matchesRDNs(pattern, base[:len(pattern)], b) {
		return false
	}
	switch t.Scope {
	case acl.This, acl.Only:
		return below == 0
	case acl.Children:
		if len(base) == 0 {
			return slices.ContainsFunc(o.contexts, func(c dn.DN) bool { return sameName(c, n.name) })
		}
		return below == 1
	case acl.Under:
		return below > 0
	}
	return true
}

// A pattern is a parsed quoted name: for each RDN, the type and the value of each AVA as
// text.
type pattern [][][2]string

func parsePattern(s string) (p pattern) {
	if s == "" {
		return nil
	}
	for _, rdn := range strings.Split(s, ",") {
		var avas [][2]string
		for _, ava := range strings.Split(rdn, "+") {
			t, v, _ := strings.Cut(ava, "=")
			avas = append(avas, [2]string{t, v})
		}
		p = append(p, avas)
	}
	return p
}

func matchesName(s string, d dn.DN, b binding) bool { return matchesRDNs(parsePattern(s), d, b) }

func matchesRDNs(p pattern, d dn.DN, b binding) bool {
	if len(p) != len(d) {
		return false
	}
	for i := range p {
		if len(p[i]) != len(d[i]) {
			return false
		}
		for _, want := range p[i] {
			if !slices.ContainsFunc(d[i], func(a dn.AVA) bool { return matchesAVA(want, a, b) }) {
				return false
			}
		}
	}
	return true
}

func matchesAVA(want [2]string, a dn.AVA, b binding) bool {
	t, text := core.Attribute(want[0]), want[1]
	if t != core.Attribute(a.Type) {
		return false
	}
	if strings.HasPrefix(text, "{") {
		return t.SameValue(b[text[1:len(text)-1]], a.Value)
	}
	if strings.Contains(text, "*") {
		return matchesStars(strings.ToLower(text), strings.ToLower(string(a.Value)))
	}
	return t.SameValue([]byte(text), a.Value)
}

// matchesStars reports whether text matches a pattern in which a star matches any text.
func matchesStars(p, text string) bool {
	if p == "" {
		return text == ""
	}
	if p[0] != '*' {
		return text != "" && text[0] == p[0] && matchesStars(p[1:], text[1:])
	}
	return matchesStars(p[1:], text) || text != "" && matchesStars(p, text[1:])
}
