package olc

import (
	"fmt"
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/tools/aclimport/draft"
)

// emit makes the rules that grant the rights in t.granted.
func (t *translation) emit() {
	slices.SortStableFunc(t.granted, func(a, b *granted) int { return a.origin - b.origin })
	for _, x := range t.granted {
		parts := t.parts(x)
		if len(parts) == 0 {
			continue
		}
		out := &t.out[x.origin]
		like := acl.Rule{Name: fmt.Sprintf("access-%d", x.origin), Parts: parts}
		var some bool
		if like.In, some = x.region.what(t.o.Schema, t.place); !some {
			continue
		}
		rules, notes, _ := draft.Build(x.who, like)
		for _, n := range notes {
			out.Note(draft.Near, "%s", n)
		}
		for _, r := range rules {
			if !draft.BindsVariables(r, marker) {
				out.Note(draft.Near, "$1 and others in a part of its entries where their values are not known")
			}
			out.Rules = append(out.Rules, draft.WithVariables(acl.Placed{Place: t.place, Rule: r}, marker)...)
		}
	}
}

// parts returns the parts of a rule that grants the rights in x.
func (t *translation) parts(x *granted) (parts []acl.Part) {
	rest := x.values[t.groups[0]]
	if rest != 0 {
		parts = append(parts, t.restPart(x, rest))
	}
	parts = append(parts, t.namedParts(x.values, rest, false)...)
	if self := x.self[t.groups[0]]; self != 0 {
		parts = append(parts, acl.Part{Rights: read(self), Attributes: t.selfAttributes()})
	}
	parts = append(parts, t.namedParts(x.self, 0, true)...)
	entry := x.entry
	if len(parts) > 0 {
		entry &^= acl.See
	}
	if entry != 0 {
		parts = append(parts, acl.Part{Rights: entry})
	}
	return parts
}

// restPart returns the part of a rule that grants rights on all attributes. It excepts each
// attribute on which at least one of these rights is not granted.
func (t *translation) restPart(x *granted, rights acl.Rights) acl.Part {
	p := acl.Part{Rights: read(rights), Attributes: []acl.Attribute{{Description: "*"}, {Description: "+"}}}
	for _, g := range t.groups {
		if g.pseudo || g.isRest() {
			continue
		}
		if g.reserved() {
			if x.values[g]&rights == rights {
				p.Attributes = append(p.Attributes, g.attribute())
			}
			continue
		}
		if x.values[g]&rights != rights {
			p.Except = append(p.Except, g.attribute())
		}
	}
	return t.withReserved(p)
}

// withReserved adds the reserved attributes that no directive names, if the option Reserved
// is set.
func (t *translation) withReserved(p acl.Part) acl.Part {
	if !t.o.Reserved {
		return p
	}
	for _, typ := range t.o.Schema.Attributes() {
		named := slices.ContainsFunc(t.groups, func(g *group) bool { return g.typ == typ })
		if acl.Reserved(typ) && typ.SentName() != "accessRule" && !named {
			p.Attributes = append(p.Attributes, acl.Attribute{Description: typ.SentName()})
		}
	}
	return p
}

func (g *group) attribute() acl.Attribute { return acl.Attribute{Description: g.name, Value: g.value} }

// namedParts returns the parts about attributes that directives name. It leaves out
// attributes on which the part made by restPart already grants the same rights.
func (t *translation) namedParts(values map[*group]acl.Rights, rest acl.Rights, self bool) (parts []acl.Part) {
	for _, g := range t.groups {
		rights := values[g]
		if g.pseudo || g.isRest() || rights == 0 || rest != 0 && rights&rest == rest && rights == rest {
			continue
		}
		if rest != 0 && rights&rest == rest {
			rights &^= rest
		}
		a := g.attribute()
		if self {
			if g.typ == nil || g.value != nil || !isName(g) {
				continue
			}
			a.Self = true
		}
		var except []acl.Attribute
		for _, o := range t.groups {
			if o != g && !o.pseudo && !o.isRest() && t.within(o, g) && values[o]&rights != rights {
				except = append(except, o.attribute())
			}
		}
		i := slices.IndexFunc(parts, func(p acl.Part) bool {
			return p.Rights == read(rights) && len(p.Except)+len(except) == 0
		})
		if i < 0 {
			parts = append(parts, acl.Part{Rights: read(rights), Attributes: []acl.Attribute{a}, Except: except})
		} else {
			parts[i].Attributes = append(parts[i].Attributes, a)
		}
	}
	return parts
}

// within reports whether the attribute of g includes the attribute or the value of o.
func (t *translation) within(o, g *group) bool {
	if o.typ == nil || g.typ == nil || g.value != nil || !o.typ.Is(g.typ) {
		return false
	}
	_, options, _ := strings.Cut(g.name, ";")
	_, own, _ := strings.Cut(o.name, ";")
	return options == "" || strings.EqualFold(options, own)
}

func isName(g *group) bool {
	if g.typ.Equality == nil {
		return false
	}
	return g.typ.Equality.Name() == "distinguishedNameMatch"
}

// selfAttributes returns the attributes whose values are DNs and that no directive
// mentions. It leaves out attributes with subtypes, collective attributes and, unless the
// option Reserved is set, reserved attributes. Each result selects only the value that is
// the identity's own name.
func (t *translation) selfAttributes() (all []acl.Attribute) {
	for _, typ := range t.o.Schema.Attributes() {
		g := &group{name: typ.SentName(), typ: typ}
		named := slices.ContainsFunc(t.groups, func(o *group) bool { return o.typ == typ })
		if isName(g) && !named && !typ.Collective && (t.o.Reserved || !acl.Reserved(typ)) && len(t.o.Schema.Subtypes(typ)) <= 1 {
			all = append(all, acl.Attribute{Description: g.name, Self: true})
		}
	}
	return all
}

// read adds the right see to rights that include search and compare. Then the text of the
// rule contains the word "read" or "find" instead of a list of rights.
func read(r acl.Rights) acl.Rights {
	if r&(acl.Search|acl.Compare) == acl.Search|acl.Compare {
		r |= acl.See
	}
	return r
}
