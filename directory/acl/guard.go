package acl

import (
	"slices"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/schema"
)

// A Decider returns the decision about an entry that a filter is tested on.
type Decider func(name dn.DN, e filter.Source) *Decision

// Guard returns a filter that evaluates f only on the values that the identity may
// search. The filter is True for an entry if this evaluation of f results in True, and
// otherwise False. In this evaluation, a test is True if a value that the identity may
// search matches the test. If no such value matches, the result depends on whether the
// identity may search all values of the attribute and its subtypes, under any options. If
// it may, the test is False, and otherwise the test is Undefined (RFC 4511, 4.5.1.7). For an
// entry that the identity may not see, the filter may be False although the evaluation of f
// results in True.
func (p *Program) Guard(f filter.Resolved, decide Decider) filter.Resolved {
	return Guard(f, &p.always, p.Types(), decide)
}

// Guard is like Program.Guard, for decisions that more than one program makes. The
// parameter always is a decision that contains only rights that the identity has on every
// entry. The parameter types lists the attribute types that decisions depend on.
func Guard(f filter.Resolved, always *Decision, types []*schema.AttributeType, decide Decider) filter.Resolved {
	g := guard{always: always, types: types, decide: decide}
	return g.filter(filter.Definite(f))
}

// A guard restricts filters to what an identity may search.
type guard struct {
	always *Decision
	types  []*schema.AttributeType
	decide Decider
	seen   filter.Resolved // what Visible returns; nil: not made yet
}

// visible returns the filter that is True for the entries that the identity may see.
func (g *guard) visible() filter.Resolved {
	if g.seen == nil {
		g.seen = Visible(g.types, g.decide)
	}
	return g.seen
}

// filter does the work of Guard. In the filter f, a Not may contain only a single test.
func (g *guard) filter(f filter.Resolved) filter.Resolved {
	switch f := f.(type) {
	case *filter.AndNode:
		return filter.MakeAnd(g.all(f.Parts)...)
	case *filter.OrNode:
		return filter.MakeOr(g.all(f.Parts)...)
	case *filter.NotNode:
		if t, ok := f.Part.(*filter.Test); ok && !g.searchesAll(t) {
			return filter.MakeAnd(f, g.allowed(t, true))
		}
	case *filter.Test:
		if !g.searchesAll(f) {
			return g.test(f)
		}
	}
	return f
}

func (g *guard) all(parts []filter.Resolved) []filter.Resolved {
	out := make([]filter.Resolved, len(parts))
	for i, f := range parts {
		out[i] = g.filter(f)
	}
	return out
}

// searchesAll returns true only if the identity may, in every entry, search everything that
// the test depends on.
func (g *guard) searchesAll(t *filter.Test) bool {
	for _, typ := range t.Asks() {
		if !g.always.All(typ, Search) {
			return false
		}
	}
	return !t.DNAttrs || g.always.Entry(See)
}

// test restricts a test to the values that the identity may search, separately for each
// subtype. An identity that may see an entry may search the name of the entry.
func (g *guard) test(t *filter.Test) filter.Resolved {
	if len(t.Asks()) == 1 && len(t.Types) == 1 && !t.DNAttrs {
		return filter.MakeAnd(t, g.allowed(t, false))
	}
	var parts []filter.Resolved
	types := t.Types
	if t.Whole() {
		parts, types = append(parts, g.whole(t)), nil
	}
	for _, typ := range types {
		one := t.OfType(typ)
		parts = append(parts, filter.MakeAnd(one, g.allowed(one, false)))
	}
	if shared := t.OfShared(); shared != nil {
		parts = append(parts, filter.MakeAnd(shared, g.allowed(shared, true)))
	}
	if t.DNAttrs {
		parts = append(parts, filter.MakeAnd(t.OfName(), g.visible()))
	}
	return filter.MakeOr(parts...)
}

// whole restricts a test of very many types, with one test for all of them.
func (g *guard) whole(t *filter.Test) filter.Resolved {
	return filter.MakeAnd(g.visible(), t.Computed(func(e filter.Source) bool {
		named, ok := e.(interface{ EntryName() dn.DN })
		if !ok {
			return false
		}
		d := g.decide(named.EntryName(), e)
		return d != nil && slices.ContainsFunc(t.Types, func(typ *schema.AttributeType) bool {
			return t.MatchType(e, typ) && d.decides(t, typ, e, false)
		})
	}))
}

// Visible returns a filter that is True for the entries that the identity may see. types
// are the attribute types that decisions depend on. If an entry has very many values, the
// filter reads only the values of these types.
func Visible(types []*schema.AttributeType, decide Decider) filter.Resolved {
	return filter.Place(types, func(name dn.DN, e filter.Source) bool {
		d := decide(name, e)
		return d != nil && d.Entry(See)
	})
}

// allowed returns a filter that is True for the entries for which the identity may know
// the result of t. If negated is set, the filter is part of a Not, so the identity must
// be allowed to search everything that t depends on.
func (g *guard) allowed(t *filter.Test, negated bool) filter.Resolved {
	return filter.Place(g.types, func(name dn.DN, e filter.Source) bool {
		d := g.decide(name, e)
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

// decides reports whether the identity may search a value of typ that makes the test
// true. If negated is set, the identity must be allowed to search all values of typ.
func (d *Decision) decides(t *filter.Test, typ *schema.AttributeType, e filter.Source, negated bool) bool {
	switch {
	case d.All(typ, Search):
		return true
	case negated || !d.Some(typ, Search):
		return false
	}
	return d.matchesOpen(t, typ, e)
}

// matchesOpen reports whether a value that the identity may search makes the test true.
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
