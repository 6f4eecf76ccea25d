package acl

import (
	"fmt"
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/schema"
)

// Equal returns true only if two programs make the same decisions about every entry. It may
// return false although the decisions are the same.
func (p *Program) Equal(o *Program) bool {
	return p == o || p.set.schema == o.set.schema && p.fingerprint() == o.fingerprint()
}

// fingerprint returns a text of everything that determines the decisions of the program,
// except the entries and the schema.
func (p *Program) fingerprint() string {
	p.once.Do(func() {
		var b strings.Builder
		b.Write(dn.Key(p.who.name))
		if p.who.Entry != nil {
			b.Write(p.who.Entry.ID[:])
		}
		if p.set.asksGroupsOfEntries() {
			var groups []string
			for _, g := range p.who.groups {
				groups = append(groups, string(dn.Key(g)))
			}
			slices.Sort(groups)
			fmt.Fprintf(&b, "\n%q", groups)
		}
		for i := range p.clauses {
			c := &p.clauses[i]
			fmt.Fprintf(&b, "\n%s\n%q%q", c.rule.Placed, p.testTexts(c.who), p.testTexts(c.except))
			for _, t := range slices.Concat(c.in, c.notIn) {
				b.WriteString(t.base.text())
			}
		}
		p.print = b.String()
	})
	return p.print
}

// testTexts returns a copy of the formula f that contains the texts of tests instead of their
// numbers.
func (p *Program) testTexts(f formula) [][]string {
	out := make([][]string, len(f))
	for i, tests := range f {
		for _, t := range tests {
			out[i] = append(out[i], p.text[t])
		}
	}
	return out
}

// asksGroupsOfEntries reports whether a rule has a subject such as "group its owner". A
// test for such a subject depends on the groups of the identity.
func (s *Set) asksGroupsOfEntries() bool {
	return s.anySubject(func(sub *subject) bool { return sub.Group })
}

// AsksOthers reports whether decisions about an entry may depend on the attributes of the
// entry's parent, or on the groups that the entry is in.
func (p *Program) AsksOthers() bool {
	asks := func(t bound) bool { return t.filter != nil && t.filter.asksGroups }
	return p.set.anySubject(func(sub *subject) bool { return sub.Kind == ItsParents }) ||
		slices.ContainsFunc(p.clauses, func(c clause) bool {
			return slices.ContainsFunc(c.in, asks) || slices.ContainsFunc(c.notIn, asks)
		})
}

// anySubject reports whether a subject of the rules passes a test.
func (s *Set) anySubject(is func(*subject) bool) bool {
	return slices.ContainsFunc(s.rules, func(c *compiled) bool {
		return slices.ContainsFunc(slices.Concat(c.who, c.except), func(t term) bool {
			return slices.ContainsFunc(t, func(s subject) bool { return is(&s) })
		})
	})
}

// Somewhere returns false only if there is certainly no entry on which the identity has
// the right.
func (p *Program) Somewhere(right Rights) bool {
	return slices.ContainsFunc(p.clauses, func(c clause) bool {
		return !c.rule.Rule.Deny && slices.ContainsFunc(c.rule.parts, func(x part) bool { return x.withSee(false)&(right|Manage) != 0 })
	})
}

// Identity returns the identity of the program.
func (p *Program) Identity() Identity { return *p.who.Identity }

// Known returns a rule without the attributes that a schema does not define, or nil if no
// part of the rule is left. For entries with this schema, the result means the same as the
// rule.
func (r *Rule) Known(sch *schema.Schema) *Rule {
	out := *r
	out.Parts = nil
	unknown := func(a Attribute) bool {
		return isDescription(a.Description) && sch.Attribute(a.Description) == nil
	}
	for _, p := range r.Parts {
		if p.Rights&onAttributes == 0 || len(p.Attributes) == 0 {
			out.Parts = append(out.Parts, p)
			continue
		}
		p.Attributes = slices.DeleteFunc(slices.Clone(p.Attributes), unknown)
		p.Except = slices.DeleteFunc(slices.Clone(p.Except), unknown)
		if len(p.Attributes) > 0 {
			out.Parts = append(out.Parts, p)
		}
	}
	if len(out.Parts) == 0 {
		return nil
	}
	return &out
}
