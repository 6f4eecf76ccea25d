package acl

import (
	"github.com/seed-4dac0d86/ldapd/schema"
)

// A Question is one right on an entry, or on values of an attribute.
type Question struct {
	Right   Rights
	Type    *schema.AttributeType // nil: the entry itself
	Options string
	Value   []byte // nil: all values
}

// An Answer is why a right is there or not.
type Answer struct {
	Allowed bool
	// Allow and Deny are the labels of the rules that decided: those that allow it,
	// and those that deny it.
	Allow, Deny []string
	// Near are rules that would allow it to someone else, or on another condition.
	Near []string
}

// Explain says why the identity has a right on an entry or not.
func (p *Program) Explain(z *Zone, e *Entry, q Question) Answer {
	d := z.Decide(e)
	a := Answer{Allowed: d.answers(q)}
	for _, r := range d.rules {
		for i := range r.parts {
			if !r.parts[i].answers(q, r.Rule.Deny, p) {
				continue
			}
			if r.Rule.Deny {
				a.Deny = addLabel(a.Deny, r)
			} else {
				a.Allow = addLabel(a.Allow, r)
			}
		}
	}
	if !a.Allowed && len(a.Deny) == 0 {
		a.Near = p.near(d, q)
	}
	return a
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

// answers reports whether the part has a say in the question.
func (p *part) answers(q Question, deny bool, program *Program) bool {
	if q.Type == nil {
		rights := p.rights
		switch {
		case !deny && rights&onAttributes != 0:
			rights |= See
		case deny && p.named:
			rights &^= See
		}
		return rights&q.Right != 0
	}
	v := &subjectValue{q.Type, q.Options, q.Value, program}
	return p.rights&q.Right != 0 && (deny && p.mayCover(v) || !deny && p.covers(v))
}

// near lists the rules that allow what is asked, and are not among those that hold.
func (p *Program) near(d *Decision, q Question) (all []string) {
	for _, r := range p.set.rules {
		if r.Rule.Deny || holds(d.rules, r) {
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

func holds(rules []*compiled, r *compiled) bool {
	for _, o := range rules {
		if o == r {
			return true
		}
	}
	return false
}
