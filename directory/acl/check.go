package acl

import (
	"fmt"
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/schema"
)

// A Finding is a property of a rule that the author of the rule may not have intended.
type Finding struct {
	Rule Placed
	Text string
}

// Check returns findings about the rules. The call members(group) must return the members
// of the group and of the groups in it.
func (s *Set) Check(members func(group string) ([]dn.DN, error)) (all []Finding, err error) {
	for i, r := range s.rules {
		found := func(format string, args ...any) {
			all = append(all, Finding{r.Placed, fmt.Sprintf(format, args...)})
		}
		if r.namesNobody() {
			found("names nobody: somebody whose entry was deleted")
		}
		if why := r.neverHolds(); why != "" {
			found("never holds: %s", why)
			continue
		}
		if o := s.impliedBy(i); o != nil {
			found("changes nothing: %s says as much", o.Label())
		}
		if o := s.deniedBy(r); o != nil && o.deniesSee(r) {
			found("changes nothing: %s denies all of it", o.Label())
		} else if o != nil {
			found("lets nobody do more than see the entries: %s denies the rest", o.Label())
		}
	}
	for _, r := range s.rules {
		if text := r.showsSecrets(); text != "" {
			all = append(all, Finding{r.Placed, text})
		}
	}
	lifts, err := s.lifts(members)
	return append(all, lifts...), err
}

// Useless returns rules without which the others allow the same. The first rules, as many as the
// parameter fixed says, are not among them.
func (s *Set) Useless(fixed int) (all []Placed) {
	rest := Set{rules: slices.Clone(s.rules)}
	for i := fixed; i < len(rest.rules); {
		r := rest.rules[i]
		denied := rest.deniedBy(r)
		if r.neverHolds() == "" && rest.impliedBy(i) == nil && (denied == nil || !denied.deniesSee(r)) {
			i++
			continue
		}
		all = append(all, r.Placed)
		rest.rules = slices.Delete(rest.rules, i, i+1)
	}
	return all
}

// showsSecrets returns a text about the secrets that the rule lets its subjects show, search or
// compare, or "" if there are none.
func (c *compiled) showsSecrets() string {
	if c.Rule.Deny || c.secrets&(Show|Search|Compare) == 0 {
		return ""
	}
	var names []string
	for i := range c.parts {
		if p := &c.parts[i]; p.rights&(Show|Search|Compare) != 0 {
			for _, t := range p.secrets() {
				names = append(names, t.Name())
			}
		}
	}
	slices.Sort(names)
	rights := c.secrets & (Show | Search | Compare)
	return fmt.Sprintf("lets %s %s the secrets %s", c.Rule.Who, rights, strings.Join(slices.Compact(names), ", "))
}

func (c *compiled) namesNobody() bool {
	is := func(t term) bool { return slices.ContainsFunc(t, func(s subject) bool { return s.Kind == Nobody }) }
	gone := func(t Target) bool { return t.Filter != nil && namesGone(t.Filter) }
	in := c.Rule.In
	return slices.ContainsFunc(c.who, is) || slices.ContainsFunc(c.except, is) ||
		in != nil && (slices.ContainsFunc(in.Any, gone) || slices.ContainsFunc(in.Except, gone))
}

// neverHolds returns the reason why a rule applies to no identity, to no entry, or on no
// connection. It returns "" if the rule may apply.
func (c *compiled) neverHolds() string {
	excepted := func(t term) bool { return slices.ContainsFunc(c.except, t.within) }
	left := func(t target) bool {
		return !slices.ContainsFunc(c.notIn, func(o target) bool { return t.covered(&o) })
	}
	switch {
	case !slices.ContainsFunc(c.who, func(t term) bool { return !t.isEmpty() && !excepted(t) }):
		return "it is for nobody"
	case !slices.ContainsFunc(c.in, left):
		return "it is about no entries"
	}
	for i := range c.Rule.If {
		for j := range c.Rule.If {
			if a, b := c.Rule.If[i], c.Rule.If[j]; a.excludes(&b) {
				return fmt.Sprintf("no connection is %s and %s", a, b)
			}
		}
	}
	return ""
}

// isEmpty returns true only if no identity can match all subjects of the term.
func (t term) isEmpty() bool {
	anonymous, bound := false, false
	for _, s := range t {
		switch s.Kind {
		case Nobody:
			return true
		case Anonymous:
			anonymous = true
		case Everyone:
		default:
			bound = true
		}
	}
	return anonymous && bound
}

// within returns true only if every identity that matches t also matches o.
func (t term) within(o term) bool {
	for i := range o {
		if !slices.ContainsFunc(t, func(s subject) bool { return s.within(&o[i]) }) {
			return false
		}
	}
	return true
}

func (s *subject) within(o *subject) bool {
	switch {
	case o.Kind == Everyone || s.String() == o.String():
		return true
	case o.Kind == Users:
		return s.Kind != Everyone && s.Kind != Anonymous
	case o.Kind == Below && o.filter == nil && (s.Kind == Named || s.Kind == Below):
		return s.place().within(o.place())
	}
	return false
}

// place returns the target that includes exactly the entries that a Named or Below
// subject names. It ignores the filter of the subject.
func (s *subject) place() *target {
	return &target{scope: map[SubjectKind]Scope{Named: Only, Below: Under}[s.Kind], base: s.name}
}

// covered returns true only if target o includes every entry that t includes.
func (t *target) covered(o *target) bool {
	return t.within(o) && (o.filter == nil || t.filter != nil && t.filter.String() == o.filter.String())
}

// excludes returns true only if no connection can meet both conditions. It may return false
// although no connection can meet both.
func (c *Condition) excludes(o *Condition) bool {
	bare := *o
	bare.Not = !o.Not
	return c.String() == bare.String() ||
		c.Kind == Local && !c.Not && o.Kind == Secure && o.Not ||
		c.Kind == Mechanism && o.Kind == Mechanism && !c.Not && !o.Not && c.Mechanism != o.Mechanism
}

// impliedBy returns a rule that makes rule i redundant, or nil if it finds none. If rule i is
// an allow rule, the returned rule is an allow rule for at least the same rights. If rule i is
// a deny rule, the returned rule is a deny rule for at least the same rights. Of two equal
// rules, only the second is redundant.
func (s *Set) impliedBy(i int) *compiled {
	r := s.rules[i]
	for j, o := range s.rules {
		if i != j && r.Rule.Deny == o.Rule.Deny && o.covers(r) && (j < i || !r.covers(o)) {
			return o
		}
	}
	return nil
}

// deniedBy returns a deny rule that covers the allow rule r. It returns nil if there is no
// such rule, or if r is a deny rule.
func (s *Set) deniedBy(r *compiled) *compiled {
	for _, o := range s.rules {
		if !r.Rule.Deny && o.Rule.Deny && o.covers(r) {
			return o
		}
	}
	return nil
}

// deniesSee reports whether the deny rule c, which covers the allow rule r, also denies the right
// to see the entry, or r does not allow it. A rule that allows a right on attributes allows it.
func (c *compiled) deniesSee(r *compiled) bool {
	var allowed, denied Rights
	for i := range r.parts {
		allowed |= r.parts[i].withSee(false)
	}
	for i := range c.parts {
		denied |= c.parts[i].withSee(true)
	}
	return allowed&See == 0 || denied&See != 0
}

// covers reports whether the rule c applies wherever the rule o applies, and contains all
// rights that o contains. It compares the rules part by part, so a result of false may be
// wrong.
func (c *compiled) covers(o *compiled) bool {
	who := func(t term) bool { return slices.ContainsFunc(c.who, t.within) }
	in := func(t target) bool {
		return slices.ContainsFunc(c.in, func(x target) bool { return t.covered(&x) })
	}
	exceptWho := func(t term) bool { return slices.ContainsFunc(o.except, t.within) }
	exceptIn := func(t target) bool {
		return slices.ContainsFunc(o.notIn, func(x target) bool { return t.covered(&x) })
	}
	met := func(x Condition) bool {
		return slices.ContainsFunc(o.Rule.If, func(y Condition) bool { return x.String() == y.String() })
	}
	return all(o.who, who) && all(c.except, exceptWho) && all(o.in, in) && all(c.notIn, exceptIn) &&
		all(c.Rule.If, met) && c.coversParts(o)
}

func all[T any](list []T, is func(T) bool) bool {
	return !slices.ContainsFunc(list, func(v T) bool { return !is(v) })
}

func (c *compiled) coversParts(o *compiled) bool {
	for i := range o.parts {
		for _, right := range o.parts[i].rights.Each() {
			if !slices.ContainsFunc(c.parts, func(p part) bool { return p.coversRight(&o.parts[i], right, c.Rule.Deny) }) {
				return false
			}
		}
	}
	return true
}

// coversRight returns true only if part p contains the right for every value for which part
// o contains the right.
func (p *part) coversRight(o *part, right Rights, deny bool) bool {
	if p.withSee(deny)&right == 0 {
		return false
	}
	if right == Use {
		return all(o.uses, func(u string) bool { return listsUse(p.uses, []string{u}) }) &&
			all(p.usesNot, func(u string) bool { return listsUse(o.usesNot, []string{u}) })
	}
	return right&onAttributes == 0 ||
		all(o.in, func(a attribute) bool { return slices.ContainsFunc(p.in, a.within) }) &&
			all(p.except, func(a attribute) bool { return slices.ContainsFunc(o.except, a.within) })
}

// within returns true only if the attribute o includes all values that the attribute a
// includes.
func (a attribute) within(o attribute) bool {
	switch {
	case o.values != nil && !a.values.equal(o.values):
		return false
	case a.types == nil:
		return o.types == nil && (!a.user || o.user) && (!a.operational || o.operational)
	case o.types != nil && o.options != "" && a.options != o.options:
		return false
	}
	for t, meant := range a.types {
		if meant && !o.about(t) {
			return false
		}
	}
	return true
}

func (w *values) equal(o *values) bool {
	if w == nil || o == nil {
		return w == o
	}
	text := func(f filter.Resolved) string {
		if f == nil {
			return ""
		}
		return f.String()
	}
	return w.self == o.self && string(w.key) == string(o.key) && text(w.filter) == text(o.filter)
}

// writes reports whether the rule allows identities to write values of any of the types.
func (c *compiled) writes(types []*schema.AttributeType) bool {
	if c.Rule.Deny {
		return false
	}
	for i := range c.parts {
		p := &c.parts[i]
		if p.rights&Manage != 0 {
			return true
		}
		for _, t := range types {
			if _, some := p.extent(t); some && p.rights&Write != 0 {
				return true
			}
		}
	}
	return false
}
