package acl

import (
	"slices"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/schema"
)

// A Question is about one right on an entry, or on values of an attribute.
type Question struct {
	Right   Rights
	Type    *schema.AttributeType // nil: the question is about the entry itself
	Options string
	Value   []byte // nil: the question is about all values
}

// An Answer reports whether a right is granted, and which rules decide this.
type Answer struct {
	Allowed bool
	// Allow are the labels of the rules that allow the right. If the identity has the right
	// as an administrator of the entry, Allow also contains the rules that allow the right
	// manage.
	// Deny are the labels of the rules that deny the right. If the identity would be an
	// administrator, and so have the right, without the rules that deny the right manage, Deny
	// also contains those rules.
	Allow, Deny []string
	// Near are the labels of rules that would allow the right to another identity, or
	// under another condition.
	Near []string
}

// Explain explains why the identity has, or does not have, a right on an entry.
func (p *Program) Explain(z *Zone, e *Entry, q Question) Answer {
	d := z.Decide(e)
	a := Answer{Allowed: d.answers(q)}
	for _, r := range d.rules {
		for i := range r.parts {
			manages := d.manage && givenToManagers(q) && !r.Rule.Deny && r.parts[i].rights&Manage != 0
			if !manages && !r.parts[i].answers(q, r.Rule.Deny, p) {
				continue
			}
			if r.Rule.Deny {
				a.Deny = addLabel(a.Deny, r)
			} else {
				a.Allow = addLabel(a.Allow, r)
			}
		}
	}
	if !a.Allowed {
		a.Deny = slices.Compact(append(a.Deny, d.notManaged(q)...))
	}
	if !a.Allowed && len(a.Deny) == 0 {
		a.Near = p.near(d, e, q)
	}
	return a
}

// notManaged returns the labels of the deny rules without which the identity would be an
// administrator of the entry. It returns nil if there are no such rules. It also returns nil
// if the question is about the right manage, or if administrators do not automatically have
// the right in the question.
func (d *Decision) notManaged(q Question) (all []string) {
	if d.manage || q.Right == Manage || !givenToManagers(q) {
		return nil
	}
	allowed := false
	for _, r := range d.rules {
		switch {
		case !r.Rule.manages():
		case r.Rule.Deny:
			all = addLabel(all, r)
		default:
			allowed = true
		}
	}
	if !allowed {
		return nil
	}
	return all
}

// givenToManagers reports whether administrators have the right in the question even if no
// rule allows this right.
func givenToManagers(q Question) bool {
	return q.Type == nil || !q.Type.Secret() || q.Right&(Show|Search) == 0
}

func addLabel(all []string, r *compiled) []string {
	if l := r.Label(); len(all) == 0 || all[len(all)-1] != l {
		return append(all, l)
	}
	return all
}

func (d *Decision) answers(q Question) bool {
	switch {
	case q.Type == nil:
		return d.Entry(q.Right)
	case q.Value == nil:
		return d.Description(q.Type, q.Options, q.Right)
	}
	return d.Value(q.Type, q.Options, q.Value, q.Right)
}

// answers reports whether the part grants the right in the question or, if deny is set, denies
// it. It does not consider what the right manage implies.
func (p *part) answers(q Question, deny bool, program *Program) bool {
	if q.Type == nil {
		return p.withSee(deny)&q.Right != 0
	}
	v := &subjectValue{typ: q.Type, options: q.Options, value: q.Value, program: program}
	return p.rights&q.Right != 0 && (deny && p.mayCover(v) || !deny && p.covers(v))
}

// near returns the labels of rules that are about the entry and the right, but are for other
// identities or have a condition that is not met.
func (p *Program) near(d *Decision, e *Entry, q Question) (all []string) {
	name, err := e.Name.Normalize(p.set.schema)
	if err != nil {
		return nil
	}
	for _, r := range p.set.rules {
		if r.Rule.Deny || slices.Contains(d.rules, r) || !r.isAbout(name, e) {
			continue
		}
		for i := range r.parts {
			if r.parts[i].answers(q, false, p) {
				all = addLabel(all, r)
			}
		}
	}
	return all
}

// isAbout reports whether the targets of the rule include an entry, assuming that a
// variable matches any value.
func (c *compiled) isAbout(name []dn.Norm, e *Entry) bool {
	has := func(t target) bool { return t.has(name, e) }
	return slices.ContainsFunc(c.in, has) && !slices.ContainsFunc(c.notIn, has)
}

// The method "has" reports whether the target includes an entry, assuming that a variable matches
// any value.
func (t *target) has(name []dn.Norm, e *Entry) bool {
	below := len(name) - len(t.base)
	if below < 0 || !t.base.match(name[below:], bindings{}) {
		return false
	}
	in := map[Scope]bool{Subtree: true, This: below == 0, Only: below == 0, Children: below == 1, Under: below > 0}[t.scope]
	return in && (t.filter == nil || t.filter.holds(e))
}

// Standing is the relation of a rule to an identity on a connection.
type Standing uint8

const (
	NotFor  Standing = iota // the rule is for other identities
	Unmet                   // the rule is for the identity, but one of its conditions is not met
	ByEntry                 // the rule is for the identity on some entries, such as the identity's own entry
	For                     // the rule is for the identity
)

// Standings returns the standing of each rule of the set, in the order of the rules.
func (p *Program) Standings() []Standing {
	all := make([]Standing, len(p.set.rules))
	c := &evaluation{&Program{set: p.set, who: p.who}, map[string]int{}}
	for i, r := range p.set.rules {
		all[i] = c.standing(r)
	}
	return all
}

func (c *evaluation) standing(r *compiled) Standing {
	who, except := c.formula(r.who).formula(), c.formula(r.except).formula()
	unmet := func(x Condition) bool { return !c.who.holds(&x) }
	switch {
	case len(who) == 0 || isTrue(except):
		return NotFor
	case slices.ContainsFunc(r.Rule.If, unmet):
		return Unmet
	case !isTrue(who) || len(except) > 0:
		return ByEntry
	}
	return For
}

// Denials returns the labels of the rules that deny the right in the question.
func (d *Decision) Denials(q Question) (all []string) {
	if d.also != nil {
		there := q
		if q.Type != nil {
			there.Type = d.also.own(q.Type)
		}
		all = d.also.Denials(there)
	}
	for _, r := range d.rules {
		for i := range r.parts {
			if r.Rule.Deny && r.parts[i].answers(q, true, d.program) {
				all = addLabel(all, r)
			}
		}
	}
	return slices.Compact(append(all, d.notManaged(q)...))
}

// DenyUse returns the labels of the rules that deny the use of the control or extended
// operation with the given name.
func (p *Program) DenyUse(name string) (all []string) {
	for i := range p.clauses {
		r := p.clauses[i].rule
		for j := range r.parts {
			if r.Rule.Deny && r.parts[j].use([]string{name}) {
				all = addLabel(all, r)
			}
		}
	}
	return all
}

// String returns the right and, if the question is about values, the attribute description.
func (q Question) String() string {
	if q.Type == nil {
		return q.Right.String()
	}
	s := q.Right.String() + " " + q.Type.Name()
	if q.Options != "" {
		s += ";" + q.Options
	}
	return s
}
