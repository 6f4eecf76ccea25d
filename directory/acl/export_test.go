package acl

import (
	"slices"

	"github.com/seed-4dac0d86/ldapd/schema"
)

// A Comparer is a comparison whose functions can be evaluated for single entries.
type Comparer struct{ *comparison }

func NewComparer(from, to *Set) Comparer { return Comparer{compareSets(from, to)} }

// Joint reports whether the comparison has atoms that isTrue cannot evaluate.
func (c Comparer) Joint() bool {
	for _, a := range c.all {
		if a.kind == ofJoint || a.kind == ofValues {
			return true
		}
	}
	return false
}

// Found reports whether the comparison finds that the identity of p gains, or loses, a
// right. The parameter part has the form of the field change.what. The result found is
// the answer of the comparison's functions, and the result printed is the answer of the
// conjunctions that Diff prints.
func (c Comparer) Found(p *Program, e *Entry, right Rights, part string, gained bool) (found, printed bool) {
	for _, x := range c.found {
		if x.right != right || x.what != part || x.gained != gained {
			continue
		}
		n := x.where
		for n > trueNode {
			b := c.nodes[n]
			if n = b.low; c.all[b.variable].isTrue(p, e) {
				n = b.high
			}
		}
		found = found || n == trueNode
		possible := c.possible(c.depends(x.where))
		for _, cube := range c.cubes(c.and(x.where, possible), c.or(x.where, c.not(possible))) {
			printed = printed || cube.isTrue(c.all, p, e)
		}
	}
	return found, printed
}

func (x cube) isTrue(all []atom, p *Program, e *Entry) bool {
	for v, is := range x {
		if all[v].isTrue(p, e) != is {
			return false
		}
	}
	return true
}

// isTrue reports whether the atom is true for the identity of p and an entry.
func (a *atom) isTrue(p *Program, e *Entry) bool {
	switch {
	case a.subject != nil:
		q := &evaluation{&Program{set: p.set, who: p.who}, map[string]int{}}
		for _, one := range q.subject(a.subject) {
			met := true
			for _, t := range one.tests {
				met = met && q.tests[t].holds(e)
			}
			if met {
				return true
			}
		}
		return false
	case a.target != nil:
		name, err := e.Name.Normalize(p.set.schema)
		return err == nil && a.target.has(name, e)
	case a.filter != nil:
		return a.filter.holds(e)
	}
	return p.who.holds(a.cond)
}

// Names reports whether the rules name the type t. The comparison treats such a type
// separately.
func (c Comparer) Names(t *schema.AttributeType) bool {
	for i := range c.rules {
		for _, r := range c.rules[i] {
			if slices.Contains((&Set{rules: []*compiled{r}}).namedTypes(), t) {
				return true
			}
		}
	}
	return false
}

func (s *Set) namedTypes() []*schema.AttributeType {
	s.collectNamed()
	return s.named
}
