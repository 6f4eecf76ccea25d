package draft

import (
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/directory/acl"
)

// Text returns a text by which expressions are compared. Expressions of the same structure,
// with the same leaves in the same order, have the same text.
func Text(e Expr) string {
	parts := func(all []Expr, between string) string {
		texts := make([]string, len(all))
		for i, p := range all {
			texts[i] = Text(p)
		}
		return "(" + strings.Join(texts, between) + ")"
	}
	switch e := e.(type) {
	case All:
		return "all" + parts(e, " and ")
	case Any:
		return "any" + parts(e, " or ")
	case *Negation:
		return "not " + Text(e.Expr)
	}
	l := e.(*Leaf)
	text := l.Why
	for _, a := range []*Atom{l.Under, l.Over} {
		if a != nil {
			text += "|" + literal{false, a}.String()
		}
	}
	return text
}

// IsTrue reports whether an expression is the subject everyone, or a conjunction that
// consists only of such expressions.
func IsTrue(e Expr) bool {
	switch e := e.(type) {
	case All:
		for _, p := range e {
			if !IsTrue(p) {
				return false
			}
		}
		return true
	case *Leaf:
		return e.Under != nil && e.Under == e.Over && e.Under.Subject != nil && e.Under.Subject.Kind == acl.Everyone
	}
	return false
}

// IsBound reports whether an expression certainly holds only for bound identities.
func IsBound(e Expr) bool {
	switch e := e.(type) {
	case All:
		return slices.ContainsFunc(e, IsBound)
	case Any:
		return !slices.ContainsFunc(e, func(p Expr) bool { return !IsBound(p) })
	case *Leaf:
		return e.Over != nil && e.Over.Subject != nil && e.Over.Subject.Kind != acl.Everyone && e.Over.Subject.Kind != acl.Anonymous
	}
	return false
}

// IsFalse reports whether an expression is an empty Any.
func IsFalse(e Expr) bool {
	any, ok := e.(Any)
	return ok && len(any) == 0
}

// Rewrite returns the expression e with each leaf l replaced by to(l).
func Rewrite(e Expr, to func(*Leaf) Expr) Expr {
	switch e := e.(type) {
	case All:
		out := make(All, len(e))
		for i, p := range e {
			out[i] = Rewrite(p, to)
		}
		return out
	case Any:
		out := make(Any, len(e))
		for i, p := range e {
			out[i] = Rewrite(p, to)
		}
		return out
	case *Negation:
		return &Negation{Rewrite(e.Expr, to)}
	}
	return to(e.(*Leaf))
}

// ForAnonymous returns the conditions on the connection under which an expression holds
// for the anonymous identity. If the expression never holds for the anonymous identity,
// the result is an empty Any.
func ForAnonymous(e Expr) Expr {
	switch e := e.(type) {
	case All:
		var all All
		for _, p := range e {
			p = ForAnonymous(p)
			if IsFalse(p) {
				return Any{}
			}
			if !IsTrue(p) {
				all = append(all, p)
			}
		}
		return all
	case Any:
		var all Any
		for _, p := range e {
			p = ForAnonymous(p)
			if IsTrue(p) {
				return All{}
			}
			if !IsFalse(p) {
				all = append(all, p)
			}
		}
		return all
	case *Negation:
		p := ForAnonymous(e.Expr)
		switch {
		case IsFalse(p):
			return All{}
		case IsTrue(p):
			return Any{}
		}
		return &Negation{p}
	}
	l := e.(*Leaf)
	for _, a := range []*Atom{l.Under, l.Over} {
		if a != nil && a.Subject != nil {
			if a.Subject.Kind == acl.Everyone || a.Subject.Kind == acl.Anonymous {
				return All{}
			}
			return Any{}
		}
	}
	return l
}
