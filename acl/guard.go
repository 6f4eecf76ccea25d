package acl

import (
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/schema"
)

// A Decider returns what the identity may do with an entry that a filter is tested on.
type Decider func(name dn.DN, e filter.Source) *Decision

// Guard returns a filter that is True for the entries for which f is True, as far as the
// identity may search them, and False for all others. A test is True if a value that may
// be searched matches it. Otherwise it is False if all values of its attribute and of the
// subtypes may be searched, under any options, and else Undefined (RFC 4511, 4.5.1.7).
func (p *Program) Guard(f filter.Resolved, decide Decider) filter.Resolved {
	return p.guard(filter.Definite(f), decide)
}

// guard is Guard for a filter in which Not is applied to tests only.
func (p *Program) guard(f filter.Resolved, decide Decider) filter.Resolved {
	switch f := f.(type) {
	case *filter.AndNode:
		return filter.MakeAnd(p.guardAll(f.Parts, decide)...)
	case *filter.OrNode:
		return filter.MakeOr(p.guardAll(f.Parts, decide)...)
	case *filter.NotNode:
		if t, ok := f.Part.(*filter.Test); ok && !p.searchesAll(t) {
			return filter.MakeAnd(f, p.allowed(t, decide, true))
		}
	case *filter.Test:
		if !p.searchesAll(f) {
			return p.guardTest(f, decide)
		}
	}
	return f
}

func (p *Program) guardAll(parts []filter.Resolved, decide Decider) []filter.Resolved {
	out := make([]filter.Resolved, len(parts))
	for i, f := range parts {
		out[i] = p.guard(f, decide)
	}
	return out
}

// searchesAll reports whether the identity may search everything that a test depends on,
// in every entry.
func (p *Program) searchesAll(t *filter.Test) bool {
	for _, typ := range t.Asks() {
		if !p.always.All(typ, Search) {
			return false
		}
	}
	return !t.DNAttrs || p.always.Entry(See)
}

// guardTest restricts a test to what may be searched, for each subtype by itself. An
// identity that sees an entry may search its name.
func (p *Program) guardTest(t *filter.Test, decide Decider) filter.Resolved {
	var parts []filter.Resolved
	for _, typ := range t.Types {
		one := t.OfType(typ)
		parts = append(parts, filter.MakeAnd(one, p.allowed(one, decide, false)))
	}
	if shared := t.OfShared(); shared != nil {
		parts = append(parts, filter.MakeAnd(shared, p.allowed(shared, decide, true)))
	}
	if t.DNAttrs {
		parts = append(parts, filter.MakeAnd(t.OfName(), Visible(p.Types(), decide)))
	}
	return filter.MakeOr(parts...)
}

// Visible returns the test of whether the identity sees an entry. Types are those that
// decisions need: from an entry with very many values a filter reads no others.
func Visible(types []*schema.AttributeType, decide Decider) filter.Resolved {
	return filter.Place(types, func(name dn.DN, e filter.Source) bool {
		d := decide(name, e)
		return d != nil && d.Entry(See)
	})
}

// allowed returns the test of whether the identity may know the result of t for an entry.
// If that must be False, the identity must be able to search everything that t depends
// on.
func (p *Program) allowed(t *filter.Test, decide Decider, negated bool) filter.Resolved {
	return filter.Place(p.Types(), func(name dn.DN, e filter.Source) bool {
		d := decide(name, e)
		if d == nil || !d.Entry(See) {
			return false
		}
		for _, typ := range t.Asks() {
			if !d.decides(t, typ, e, negated) {
				return false
			}
		}
		return true
	})
}

// decides reports whether the identity may search the values of a type that make the test
// true. If negated, it must be able to search all values that could.
func (d *Decision) decides(t *filter.Test, typ *schema.AttributeType, e filter.Source, negated bool) bool {
	switch {
	case d.All(typ, Search):
		return true
	case negated || !d.Some(typ, Search):
		return false
	}
	return d.matchesOpen(t, typ, e)
}

// matchesOpen reports whether a value that may be searched makes the test true.
func (d *Decision) matchesOpen(t *filter.Test, typ *schema.AttributeType, e filter.Source) bool {
	src, ok := e.(*filter.EntrySource)
	if !ok {
		return false
	}
	for i := range src.Entry.Attributes {
		a := &src.Entry.Attributes[i]
		for _, v := range a.Values {
			if a.Type == typ && t.MatchValue(a, v) && d.Value(typ, a.Options, v, Search) {
				return true
			}
		}
	}
	return false
}
