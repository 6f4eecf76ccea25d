package acl

import "strings"

// An atom is a condition in rules: a subject, a part of the tree, a filter, a condition on
// the connection, or a selection of values of an attribute. Each atom is one variable of a
// diagram.
type atom struct {
	text    string
	subject *subject
	target  *target
	filter  *entryFilter
	cond    *Condition
	kind    atomKind
}

type atomKind uint8

const (
	ofWho atomKind = iota
	ofPlace
	ofFilter
	ofValues
	ofConnection
	ofJoint // the subjects and targets of a rule that has a variable such as {t}
)

// The type atoms assigns numbers to atoms in the order in which rules first use the atoms. The
// atoms of one rule therefore mostly have neighbouring numbers, which keeps diagrams small.
type atoms struct {
	*diagram
	all    []atom
	number map[string]int
}

func newAtoms() *atoms { return &atoms{diagram: newDiagram(), number: map[string]int{}} }

// atom returns the function that is true where the given atom is true. If an atom with
// the same key already exists, atom returns the function of that atom.
func (as *atoms) atom(key string, a atom) node {
	n, ok := as.number[key]
	if !ok {
		n = len(as.all)
		as.all = append(as.all, a)
		as.number[key] = n
	}
	return as.is(n)
}

func (as *atoms) any(n int, f func(int) node) node {
	all := falseNode
	for i := range n {
		all = as.or(all, f(i))
	}
	return all
}

// holds returns the function that is true where the rule applies.
func (as *atoms) holds(c *compiled) node {
	f := trueNode
	for i := range c.Rule.If {
		f = as.and(f, as.condition(&c.Rule.If[i]))
	}
	if c.hasVariables() {
		text := c.Rule.Who.String()
		if c.Rule.In != nil {
			text += " in " + lists(c.Rule.In.Any, c.Rule.In.Except, Target.String)
		}
		if len(c.Place) > 0 {
			text += " of " + quote(c.Place.String())
		}
		return as.and(f, as.atom("joint "+text, atom{text: text, kind: ofJoint}))
	}
	who := as.butNot(as.terms(c.who), as.terms(c.except))
	in := as.butNot(as.targets(c.in), as.targets(c.notIn))
	return as.and(f, as.and(who, in))
}

// hasVariables reports whether a target of the rule has a variable. A variable has the
// same value in the targets and in the subjects of a rule, so the targets and subjects of
// such a rule cannot be separate atoms.
func (c *compiled) hasVariables() bool {
	for _, t := range c.in {
		if len(t.base.variables()) > 0 {
			return true
		}
	}
	for _, t := range c.notIn {
		if len(t.base.variables()) > 0 {
			return true
		}
	}
	return false
}

func (as *atoms) terms(all []term) node {
	return as.any(len(all), func(i int) node {
		f := trueNode
		for j := range all[i] {
			f = as.and(f, as.subject(&all[i][j]))
		}
		return f
	})
}

func (as *atoms) subject(s *subject) node {
	switch s.Kind {
	case Everyone:
		return trueNode
	case Nobody:
		return falseNode
	case Users:
		return as.not(as.subject(&subject{Subject: Subject{Kind: Anonymous}}))
	}
	key := s.String()
	if s.Name != "" { // the key does not depend on the spelling of the name
		bare := s.Subject
		bare.Name = ""
		key = bare.String() + " " + s.name.text()
	}
	return as.atom("who "+key, atom{text: s.String(), subject: s, kind: ofWho})
}

func (as *atoms) targets(all []target) node {
	return as.any(len(all), func(i int) node {
		t := &all[i]
		f := as.place(t)
		if t.filter != nil {
			text := t.filter.String()
			f = as.and(f, as.atom("filter "+text, atom{text: text, filter: t.filter, kind: ofFilter}))
		}
		return f
	})
}

// place returns the function that is true for the entries of a target. It ignores the
// filter of the target.
func (as *atoms) place(t *target) node {
	switch t.scope {
	case Subtree:
		return as.subtree(t, Subtree)
	case Under:
		return as.butNot(as.subtree(t, Subtree), as.subtree(t, Only))
	case Children:
		return as.subtree(t, Children)
	}
	return as.subtree(t, Only)
}

func (as *atoms) subtree(t *target, s Scope) node {
	if len(t.base) == 0 {
		return map[Scope]node{Subtree: trueNode, Only: falseNode, Children: trueNode}[s]
	}
	text := quote(t.name)
	if word := scopeWords[s]; word != "" {
		text = word + " " + text
	}
	return as.atom("place "+scopeWords[s]+" "+t.base.text(), atom{text: text, target: &target{scope: s, base: t.base, name: t.name}, kind: ofPlace})
}

func (as *atoms) condition(c *Condition) node {
	bare := *c
	bare.Not = false
	f := as.atom("if "+bare.String(), atom{text: bare.String(), cond: &bare, kind: ofConnection})
	if c.Not {
		return as.not(f)
	}
	return f
}

// values returns the function that is true for those values of the type t to which the
// part applies.
func (as *atoms) values(p *part, t *typePiece) node {
	any := func(list []attribute, written []Attribute) node {
		return as.any(len(list), func(i int) node {
			a := &list[i]
			switch {
			case !a.about(t.typ):
				return falseNode
			case !a.partly(t.typ):
				return trueNode
			}
			text := written[i].String()
			return as.atom("values "+strings.ToLower(text), atom{text: text, kind: ofValues})
		})
	}
	return as.butNot(any(p.in, p.written.Attributes), any(p.except, p.written.Except))
}

// possible returns a function that is false for combinations of atoms that cannot occur.
// It compares the selected atoms in pairs, and looks only at the rules, not at entries.
// The function is true for all combinations that this comparison does not exclude.
func (as *atoms) possible(selected map[int]bool) node {
	f := trueNode
	for i := range as.all {
		for j := range as.all {
			if i != j && selected[i] && selected[j] {
				f = as.and(f, as.pair(i, j))
			}
		}
	}
	return f
}

func (as *atoms) pair(i, j int) node {
	a, b := &as.all[i], &as.all[j]
	x, y := as.is(i), as.is(j)
	switch {
	case a.implies(b):
		return as.implies(x, y)
	case i < j && (a.excludes(b) || b.excludes(a)):
		return as.excludes(x, y)
	}
	return trueNode
}

func (a *atom) implies(b *atom) bool {
	switch {
	case a.subject != nil && b.subject != nil:
		return a.subject.within(b.subject)
	case a.target != nil && b.target != nil:
		return a.target.within(b.target)
	case a.cond != nil && b.cond != nil:
		return a.cond.implies(b.cond)
	}
	return false
}

func (a *atom) excludes(b *atom) bool {
	switch {
	case a.subject != nil && b.subject != nil:
		return a.subject.excludes(b.subject)
	case a.target != nil && b.target != nil:
		return a.target.apart(b.target)
	case a.cond != nil && b.cond != nil:
		return a.cond.excludes(b.cond) || a.cond.Kind == Address && b.cond.Kind == Address && !a.cond.Network.Overlaps(b.cond.Network)
	}
	return false
}

// implies returns true only if every connection that meets c also meets o. It ignores the
// field Not of both conditions.
func (c *Condition) implies(o *Condition) bool {
	switch {
	case c.Kind == Local && o.Kind == Secure:
		return true
	case c.Kind == SSF && o.Kind == SSF:
		return c.SSF >= o.SSF
	}
	return c.Kind == Address && o.Kind == Address && c.Network.Bits() >= o.Network.Bits() && o.Network.Contains(c.Network.Addr())
}

// excludes returns true only if no identity can match both subjects. It may return false
// although no identity can match both.
func (s *subject) excludes(o *subject) bool {
	switch {
	case s.Kind == Anonymous:
		return o.Kind != Everyone && o.Kind != Anonymous
	case s.name.isOpen() || o.name.isOpen():
		return false
	case s.Kind == Named && o.Kind == Named:
		return !s.name.equal(o.name)
	case (s.Kind == Named || s.Kind == Below) && o.Kind == Below:
		return s.place().apart(o.place())
	}
	return false
}
