package filter

import (
	"slices"

	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/schema"
)

// Resolve looks a filter up in a schema. Assertions on unknown types or rules,
// on types without the rule asked for, on secret types, and values that break
// their syntax become Undefined, and so do member-in-chain tests, which take a
// directory to answer; constants are folded, nested And and Or flattened.
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

// MakeAnd is the conjunction of the parts, simplified: nested ones are taken in,
// True is dropped, False decides. Undefined stays, at most once: with it the
// conjunction may still be False.
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

// MakeOr is the disjunction of the parts, simplified as in MakeAnd.
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

// MakeNot is the negation, simplified.
func MakeNot(part Resolved) Resolved {
	switch part := part.(type) {
	case Const:
		return -part
	case *NotNode:
		return part.Part
	}
	return &NotNode{part}
}

// fold collects parts and those nested in them, without the neutral constant and
// with Undefined once. decided says that the neutral one's opposite is among
// them.
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

// Definite returns a filter that is True of the same entries as f and False of all
// others: Undefined is gone. A search wants no more.
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

// combine is definite for And and Or; a conjunction is False where one of its
// parts is.
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

// Map replaces every Test of a filter by what change gives for it and
// simplifies the result.
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

// assertion makes a Test; false means Undefined.
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

// on begins a Test of a recognized, not secret attribute description.
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

// assert returns the Test its rule and key.
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

// pieces returns the Test its substrings. An empty one breaks the syntax of
// substring assertions (RFC 4517, 3.3.30); one that preparation leaves nothing
// of stands everywhere.
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

// typed resolves an extensible match of a type, by the rule named or by
// equality.
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

// ruleOnly resolves an extensible match without a type: of all attributes that
// the rule takes.
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
