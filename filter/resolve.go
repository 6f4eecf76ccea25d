package filter

import (
	"slices"

	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/schema"
)

// Resolve resolves a filter by a schema. Assertions become Undefined if they are on
// unknown types or rules, on types without the requested rule, or on secret types, or if
// their values break the syntax. So do member-in-chain tests, which only a directory can
// answer. Constants are folded, and nested And and Or are flattened.
func Resolve(f Filter, s *schema.Schema) Resolved {
	switch f := f.(type) {
	case And:
		return MakeAnd(resolveAll(f, s)...)
	case Or:
		return MakeOr(resolveAll(f, s)...)
	case *Not:
		return MakeNot(Resolve(f.Filter, s))
	}
	t, ok := resolver{s}.assertion(f)
	if !ok {
		return Const(Undefined)
	}
	t.asked = f
	if t.Op == TestPresent && t.Options == "" && t.Types[0].OID == objectClass {
		return Const(True) // every entry has one (RFC 4512, 2.4)
	}
	t.test = t.Holds
	return t
}

const objectClass = "2.5.4.0"

func resolveAll(parts []Filter, s *schema.Schema) []Resolved {
	all := make([]Resolved, len(parts))
	for i, p := range parts {
		all[i] = Resolve(p, s)
	}
	return all
}

// MakeAnd returns the simplified conjunction of the parts. It flattens nested ones, drops
// True, and returns False if a part is False. Undefined is kept, at most once, because
// the conjunction may still be False.
func MakeAnd(parts ...Resolved) Resolved {
	nested := func(r Resolved) []Resolved {
		if n, ok := r.(*AndNode); ok {
			return n.Parts
		}
		return nil
	}
	kept, decided := fold(parts, Const(True), nested)
	switch {
	case decided:
		return Const(False)
	case len(kept) == 0:
		return Const(True)
	case len(kept) == 1:
		return kept[0]
	}
	return &AndNode{kept}
}

// MakeOr returns the disjunction of the parts, simplified as in MakeAnd.
func MakeOr(parts ...Resolved) Resolved {
	nested := func(r Resolved) []Resolved {
		if n, ok := r.(*OrNode); ok {
			return n.Parts
		}
		return nil
	}
	kept, decided := fold(parts, Const(False), nested)
	switch {
	case decided:
		return Const(True)
	case len(kept) == 0:
		return Const(False)
	case len(kept) == 1:
		return kept[0]
	}
	return &OrNode{kept}
}

// MakeNot returns the simplified negation.
func MakeNot(part Resolved) Resolved {
	switch part := part.(type) {
	case Const:
		return -part
	case *NotNode:
		return part.Part
	}
	return &NotNode{part}
}

// fold collects the parts and those nested in them, without the neutral constant and with
// Undefined at most once. Decided reports whether the opposite of neutral is among them.
func fold(parts []Resolved, neutral Const, nested func(Resolved) []Resolved) (kept []Resolved, decided bool) {
	add := func(r Resolved) {
		c, ok := r.(Const)
		switch {
		case !ok || Tri(c) == Undefined && !slices.Contains(kept, r):
			kept = append(kept, r)
		case c == -neutral:
			decided = true
		}
	}
	for _, p := range parts {
		if inner := nested(p); inner != nil {
			for _, r := range inner {
				add(r)
			}
		} else {
			add(p)
		}
	}
	return kept, decided
}

// Definite returns a filter that is True for the same entries as f and False for all
// others. It is never Undefined. A search needs no more.
func Definite(f Resolved) Resolved { return definite(f, True) }

// definite returns a filter that is True where f has the value want.
func definite(f Resolved, want Tri) Resolved {
	switch f := f.(type) {
	case Const:
		return Const(tri(Tri(f) == want))
	case *NotNode:
		return definite(f.Part, -want)
	case *AndNode:
		return combine(f.Parts, want, want == True)
	case *OrNode:
		return combine(f.Parts, want, want == False)
	}
	if want == False {
		return MakeNot(f)
	}
	return f
}

// combine returns a filter that is True where all parts, or at least one, have the value
// want.
func combine(parts []Resolved, want Tri, all bool) Resolved {
	out := make([]Resolved, len(parts))
	for i, p := range parts {
		out[i] = definite(p, want)
	}
	if all {
		return MakeAnd(out...)
	}
	return MakeOr(out...)
}

// Map replaces every Test of a filter by the result of change, and simplifies the filter.
func Map(f Resolved, change func(*Test) Resolved) Resolved {
	mapAll := func(parts []Resolved) []Resolved {
		out := make([]Resolved, len(parts))
		for i, p := range parts {
			out[i] = Map(p, change)
		}
		return out
	}
	switch f := f.(type) {
	case *AndNode:
		return MakeAnd(mapAll(f.Parts)...)
	case *OrNode:
		return MakeOr(mapAll(f.Parts)...)
	case *NotNode:
		return MakeNot(Map(f.Part, change))
	case *Test:
		return change(f)
	}
	return f
}

type resolver struct{ schema *schema.Schema }

// assertion returns the Test for an assertion. False means Undefined.
func (r resolver) assertion(f Filter) (*Test, bool) {
	switch f := f.(type) {
	case *Present:
		t, _, ok := r.on(TestPresent, f.Attribute)
		return t, ok
	case *Equal:
		t, typ, ok := r.on(TestEqual, f.Attribute)
		return t, ok && t.assert(typ.Equality, f.Value)
	case *Approx:
		t, typ, ok := r.on(TestApprox, f.Attribute)
		return t, ok && t.assert(typ.Approx(), f.Value)
	case *GreaterOrEqual:
		t, typ, ok := r.on(TestGreaterOrEqual, f.Attribute)
		return t, ok && t.assert(typ.Ordering, f.Value)
	case *LessOrEqual:
		t, typ, ok := r.on(TestLessOrEqual, f.Attribute)
		return t, ok && t.assert(typ.Ordering, f.Value)
	case *Substrings:
		t, typ, ok := r.on(TestSubstrings, f.Attribute)
		return t, ok && t.pieces(typ.Substr, f)
	case *Extensible:
		if f.Attribute == "" {
			return r.ruleOnly(f)
		}
		return r.typed(f)
	}
	return nil, false
}

// on begins a Test of an attribute description. It returns false if that is unknown or
// secret.
func (r resolver) on(op TestOp, description string) (*Test, *schema.AttributeType, bool) {
	typ, options := r.schema.Describe(description)
	if typ == nil || typ.Secret() {
		return nil, nil, false
	}
	types := typ.Stored()
	if slices.ContainsFunc(types, (*schema.AttributeType).Secret) {
		types = slices.DeleteFunc(slices.Clone(types), (*schema.AttributeType).Secret)
	}
	return &Test{Op: op, Types: types, Options: entry.SortOptions(options), shared: typ.Shared()}, typ, true
}

// assert sets the Test's rule and key.
func (t *Test) assert(rule *schema.MatchingRule, value []byte) bool {
	if rule == nil {
		return false
	}
	key, err := rule.Assertion(value)
	if err != nil {
		return false
	}
	t.Key = key
	t.rule(rule)
	return true
}

func (t *Test) rule(rule *schema.MatchingRule) {
	t.Rule = rule
	t.ByKey = t.sharesAll()
}

// sharesAll reports whether the keys of all the types are keys of the rule.
func (t *Test) sharesAll() bool {
	for _, typ := range t.Types {
		if !sharesKeys(t.Rule, typ) {
			return false
		}
	}
	return true
}

// pieces sets the Test's substrings. An empty one breaks the syntax of substring
// assertions (RFC 4517, 3.3.30). One that is empty after preparation matches everywhere.
func (t *Test) pieces(rule *schema.MatchingRule, f *Substrings) bool {
	if rule == nil {
		return false
	}
	piece := func(k schema.Piece, v []byte) ([]byte, bool) {
		p, err := rule.Piece(k, v)
		return p, err == nil && len(v) > 0
	}
	ok := true
	if f.Initial != nil {
		if t.Initial, ok = piece(schema.Initial, f.Initial); !ok {
			return false
		}
	}
	for _, v := range f.Any {
		p, ok := piece(schema.Any, v)
		if !ok {
			return false
		}
		t.Any = append(t.Any, p)
	}
	if f.Final != nil {
		if t.Final, ok = piece(schema.Final, f.Final); !ok {
			return false
		}
	}
	t.rule(rule)
	return true
}

// typed resolves an extensible match on a type, by the rule named or by the type's
// equality rule.
func (r resolver) typed(f *Extensible) (*Test, bool) {
	t, typ, ok := r.on(TestExtensible, f.Attribute)
	if !ok {
		return nil, false
	}
	t.DNAttrs = f.DNAttrs
	rule := typ.Equality
	if f.Rule != "" {
		rule = r.schema.Rule(f.Rule)
		if rule == nil || rule.InChain() || !rule.AppliesTo(typ) {
			return nil, false
		}
	}
	return t, t.assert(rule, f.Value)
}

// ruleOnly resolves an extensible match without a type: on all attributes that the rule
// applies to.
func (r resolver) ruleOnly(f *Extensible) (*Test, bool) {
	rule := r.schema.Rule(f.Rule)
	if rule == nil || rule.InChain() {
		return nil, false
	}
	t := &Test{Op: TestExtensible, DNAttrs: f.DNAttrs}
	for _, typ := range r.schema.Attributes() {
		switch {
		case typ.Secret() || !rule.AppliesTo(typ):
		case typ.Collective:
			t.shared = append(t.shared, typ)
		default:
			t.Types = append(t.Types, typ)
		}
	}
	return t, len(t.Types) > 0 && t.assert(rule, f.Value)
}
