package acl

import "slices"

// This file compares targets without looking at entries. If two patterns of RDNs both have
// open values, mayEqual assumes that one RDN can match both.

// hasBase reports whether the scope includes the base.
func (s Scope) hasBase() bool { return s == Subtree || s == This || s == Only }

// within returns true only if target o includes every entry that t includes. It ignores
// filters.
func (t *target) within(o *target) bool {
	below := len(t.base) - len(o.base)
	if below < 0 || !t.base[below:].equal(o.base) {
		return false
	}
	nearest := below // distance from the base of o to the nearest entry of t
	if !t.scope.hasBase() {
		nearest++
	}
	deep := t.scope == Subtree || t.scope == Under
	switch o.scope {
	case Subtree:
		return true
	case This, Only:
		return nearest == 0 && !deep && t.scope.hasBase()
	case Children:
		return nearest == 1 && !deep
	}
	return nearest > 0 // the scope is Under
}

// apart returns true only if no entry can be in both targets. It ignores filters.
func (t *target) apart(o *target) bool {
	if len(t.base) < len(o.base) {
		t, o = o, t
	}
	below := len(t.base) - len(o.base)
	if !t.base[below:].mayEqual(o.base) {
		return true
	}
	least, most := below, below // smallest and greatest depth of t's entries below o.base
	switch t.scope {
	case Children:
		least, most = below+1, below+1
	case Under:
		least, most = below+1, deepest
	case Subtree:
		most = deepest
	}
	switch o.scope {
	case This, Only:
		return least > 0
	case Children:
		return least > 1 || most < 1
	case Under:
		return most < 1
	}
	return false
}

const deepest = 1 << 30

// equal returns true only if two patterns match the same names.
func (p pattern) equal(o pattern) bool {
	return slices.EqualFunc(p, o, func(a, b rdnPattern) bool { return a.text() == b.text() })
}

// mayEqual returns false only if no name can match both patterns.
func (p pattern) mayEqual(o pattern) bool {
	return slices.EqualFunc(p, o, func(a, b rdnPattern) bool { return a.mayEqual(&b) })
}

func (r *rdnPattern) mayEqual(o *rdnPattern) bool {
	switch {
	case r.open == nil && o.open == nil:
		return r.norm == o.norm
	case r.open == nil:
		return o.match(r.norm, bindings{})
	case o.open == nil:
		return r.match(o.norm, bindings{})
	}
	return true
}
