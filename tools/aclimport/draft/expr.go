package draft

import (
	"fmt"
	"slices"

	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/filter"
)

// An Expr is a condition under which an original applies: an All, Any, *Negation or *Leaf.
type Expr interface{ isExpr() }

type (
	All      []Expr // every part; the empty All is true
	Any      []Expr // at least one part; the empty Any is false
	Negation struct{ Expr }
	// A Leaf is a condition of an original, with the nearest conditions that rules have
	// words for. Under holds only where the original's condition holds. Over holds wherever
	// the original's condition holds. If rules have a word that means the same as the
	// original's condition, Under and Over are the same Atom. Under or Over is nil if rules
	// have no word for it.
	Leaf struct {
		Under, Over *Atom
		Why         string // what differs if Under and Over are not the same
		// UnderIs means that Under means the same as the original's condition. Rules lack a
		// word only for the negation.
		UnderIs bool
		// Undefined means that neither the condition nor its negation ever holds.
		Undefined bool
	}
)

func (All) isExpr()       {}
func (Any) isExpr()       {}
func (*Negation) isExpr() {}
func (*Leaf) isExpr()     {}

// An Atom is a subject, a condition on the connection, or a filter of entries.
type Atom struct {
	Subject *acl.Subject
	If      *acl.Condition
	Filter  filter.Filter
}

// Is returns the expression of an atom that means the same as the original.
func Is(a Atom) Expr { return &Leaf{Under: &a, Over: &a} }

// Who returns the expression of a subject that means the same as the original.
func Who(s acl.Subject) Expr { return Is(Atom{Subject: &s}) }

// If returns the expression of a condition that means the same as the original.
func If(c acl.Condition) Expr { return Is(Atom{If: &c}) }

// Unknown returns the expression of a condition that rules have no words for.
func Unknown(format string, args ...any) Expr { return &Leaf{Why: fmt.Sprintf(format, args...)} }

// A literal is an atom or the negation of an atom.
type literal struct {
	not bool
	*Atom
}

func (l literal) String() string {
	var s string
	switch {
	case l.Subject != nil:
		s = l.Subject.String()
	case l.If != nil:
		s = l.If.String()
	default:
		s = l.Filter.String()
	}
	if l.not {
		return "not " + s
	}
	return s
}

// A conjunction is a list of literals.
type conjunction []literal

// maxConjunctions is the largest number of conjunctions that an All can become.
const maxConjunctions = 64

// A normalizer turns an expression into conjunctions. If rules have no words for a
// condition, the normalizer replaces the condition by another one. The new condition
// holds in fewer cases. If over is set, it holds in more cases instead.
type normalizer struct {
	over  bool
	notes []string
	// tooMany means that there are more than maxConjunctions.
	tooMany bool
}

func (n *normalizer) note(why string) {
	if why != "" && !slices.Contains(n.notes, why) {
		n.notes = append(n.notes, why)
	}
}

// conjunctions returns the disjunctive normal form of an expression.
func (n *normalizer) conjunctions(e Expr, not bool) []conjunction {
	switch e := e.(type) {
	case *Negation:
		return n.conjunctions(e.Expr, !not)
	case *Leaf:
		return n.leaf(e, not)
	case All:
		if not {
			return n.any(e, not)
		}
		return n.all(e, not)
	case Any:
		if not {
			return n.all(e, not)
		}
		return n.any(e, not)
	}
	panic(fmt.Sprintf("an expression of type %T", e))
}

func (n *normalizer) leaf(l *Leaf, not bool) []conjunction {
	if l.Undefined {
		return nil
	}
	atom := l.Under
	if n.over != not {
		atom = l.Over
	}
	if atom == nil || l.Under != l.Over && !(l.UnderIs && atom == l.Under) {
		n.note(l.Why)
	}
	switch {
	case atom != nil:
		return []conjunction{{{not, atom}}}
	case n.over:
		return []conjunction{{}} // true
	}
	return nil // false
}

func (n *normalizer) any(parts []Expr, not bool) (all []conjunction) {
	for _, p := range parts {
		all = append(all, n.conjunctions(p, not)...)
	}
	return all
}

func (n *normalizer) all(parts []Expr, not bool) []conjunction {
	all := []conjunction{{}}
	for _, p := range parts {
		var next []conjunction
		for _, a := range all {
			for _, b := range n.conjunctions(p, not) {
				next = append(next, slices.Concat(a, b))
			}
		}
		if len(next) > maxConjunctions {
			n.tooMany = true
			return nil
		}
		all = next
	}
	return all
}
