package filter

import (
	"slices"

	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// Resolve resolves a filter by a schema. An assertion becomes Undefined if its type or
// rule is unknown, if its type does not have the requested rule, if its type is secret,
// or if its value breaks the syntax. A member-in-chain assertion becomes Undefined too,
// because only a directory can evaluate it. Resolve folds constants, and flattens nested
// And and Or.
func Resolve(f Filter, s *schema.Schema) Resolved { return (&resolver{schema: s}).filter(f) }

// ResolveSome is Resolve, but does not make assertions Undefined because their types are secret if
// the types are among some.
func ResolveSome(f Filter, s *schema.Schema, some []*schema.AttributeType) Resolved {
	return (&resolver{schema: s, some: some}).filter(f)
}

// ResolveSecrets is Resolve, but does not make assertions Undefined because their types are secret.
func ResolveSecrets(f Filter, s *schema.Schema) Resolved {
	return (&resolver{schema: s, secrets: true}).filter(f)
}

func (r *resolver) filter(f Filter) Resolved {
	switch f := f.(type) {
	case And:
		return MakeAnd(r.all(f)...)
	case Or:
		return MakeOr(r.all(f)...)
	case *Not:
		return MakeNot(r.filter(f.Filter))
	}
	t := r.item(f)
	if t == nil {
		return Const(Undefined)
	}
	if t.Op == TestPresent && t.Options == "" && t.Types[0].OID == objectClass {
		return Const(True) // every entry has an objectClass (RFC 4512, 2.4)
	}
	return t
}

// ResolveItem resolves an assertion that selects values (RFC 3876). It returns nil if Resolve
// would return Undefined.
func ResolveItem(f Filter, s *schema.Schema) *Test { return (&resolver{schema: s}).item(f) }

// ResolveSecretItem is ResolveItem, but accepts secret types.
func ResolveSecretItem(f Filter, s *schema.Schema) *Test {
	return (&resolver{schema: s, secrets: true}).item(f)
}

func (r *resolver) item(f Filter) *Test {
	t, ok := r.assertion(f)
	if !ok {
		return nil
	}
	t.asked, t.test = f, t.Holds
	return t
}

const objectClass = "2.5.4.0"

func (r *resolver) all(parts []Filter) []Resolved {
	all := make([]Resolved, len(parts))
	for i, p := range parts {
		all[i] = r.filter(p)
	}
	return all
}

// MakeAnd returns the simplified conjunction of the parts. It flattens nested conjunctions and
// drops parts that are True. It returns False if a part is False. If there are Undefined
// parts, MakeAnd keeps one of them, because the conjunction may still be False for an entry.
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

// MakeOr returns the simplified disjunction of the parts. It flattens nested disjunctions and
// drops parts that are False. It returns True if a part is True. If there are Undefined parts,
// MakeOr keeps one of them, because the disjunction may still be True for an entry.
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

// MakeNot returns the simplified negation of the part.
func MakeNot(part Resolved) Resolved {
	switch part := part.(type) {
	case Const:
		return -part
	case *NotNode:
		return part.Part
	}
	return &NotNode{part}
}

// fold returns the parts, with nested parts in place of the nodes that contain them. It drops
// the constant neutral and keeps Undefined at most once. The result decided is true if one of
// the parts is the opposite of neutral.
func fold(parts []Resolved, neutral Const, nested func(Resolved) []Resolved) (kept []Resolved, decided bool) {
	n := 0
	for _, p := range parts {
		n += max(1, len(nested(p)))
	}
	kept = make([]Resolved, 0, n)
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

// Definite returns a filter that is True for the entries for which f is True, and False
// for all other entries. It is never Undefined. A search needs only the entries for which
// a filter is True.
func Definite(f Resolved) Resolved { return definite(f, True) }

// definite returns a filter that is True for the entries for which f has the value want.
func definite(f Resolved, want Tri) Resolved {
	switch f := f.(type) {
	case Const:
		return Const(tri(Tri(f) == want))
	case *NotNode:
		return definite(f.Part, -want)
	case *AndNode:
		parts, changed := definiteParts(f.Parts, want)
		switch {
		case want == False:
			return MakeOr(parts...)
		case changed:
			return MakeAnd(parts...)
		}
	case *OrNode:
		parts, changed := definiteParts(f.Parts, want)
		switch {
		case want == False:
			return MakeAnd(parts...)
		case changed:
			return MakeOr(parts...)
		}
	}
	if want == False {
		return MakeNot(f)
	}
	return f
}

// definiteParts returns filters that are True for the entries for which the parts have the
// value want. If changed is false, the result is parts itself.
func definiteParts(parts []Resolved, want Tri) (out []Resolved, changed bool) {
	out = parts
	for i, p := range parts {
		d := definite(p, want)
		if d == p {
			continue
		}
		if !changed {
			out, changed = slices.Clone(parts), true
		}
		out[i] = d
	}
	return out, changed
}

// Map replaces every Test t of a filter by change(t), and simplifies the filter.
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

// A resolver resolves one filter.
type resolver struct {
	schema  *schema.Schema
	secrets bool                    // tests of secret types are not Undefined
	some    []*schema.AttributeType // nor are tests of these secret types
	// covered has what each rule of an extensible match without a type applies to. The tests of a
	// filter share it, because it may be most of the schema.
	covered map[*schema.MatchingRule]*covered
}

type covered struct {
	types, shared []*schema.AttributeType // shared: the collective ones
	byKey         bool
}

// assertion returns the Test for an assertion. It returns false if the assertion is
// Undefined.
func (r *resolver) assertion(f Filter) (*Test, bool) {
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

// hides reports whether a type is secret and its tests are Undefined.
func (r *resolver) hides(t *schema.AttributeType) bool {
	return t.Secret() && !r.secrets && !slices.Contains(r.some, t)
}

// The method "on" returns a Test of the attributes that a description covers. The Test has no
// rule and no key yet. The result is false if the type is unknown or hidden.
func (r *resolver) on(op TestOp, description string) (*Test, *schema.AttributeType, bool) {
	typ, options := r.schema.Describe(description)
	if typ == nil || r.hides(typ) {
		return nil, nil, false
	}
	types := typ.Stored()
	if slices.ContainsFunc(types, r.hides) {
		types = slices.DeleteFunc(slices.Clone(types), (*schema.AttributeType).Secret)
	}
	return &Test{Op: op, Types: types, Options: entry.SortOptions(options), shared: typ.Shared()}, typ, true
}

// assert sets the rule and the key of the Test. It returns false if the assertion is
// Undefined.
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

// sharesAll reports whether, for all types of the Test, the stored keys are keys of the
// Test's rule.
func (t *Test) sharesAll() bool {
	for _, typ := range t.Types {
		if !sharesKeys(t.Rule, typ) {
			return false
		}
	}
	return true
}

// pieces sets the substrings of the Test. An empty substring breaks the syntax of
// substring assertions (RFC 4517, 3.3.30). A substring that is empty only after
// preparation matches at every position.
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

// typed resolves an extensible match that names a type. The rule is the rule that the
// filter names, or else the equality rule of the type.
func (r *resolver) typed(f *Extensible) (*Test, bool) {
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

// ruleOnly resolves an extensible match that names no type. Such a match tests all
// attributes that the rule applies to.
func (r *resolver) ruleOnly(f *Extensible) (*Test, bool) {
	rule := r.schema.Rule(f.Rule)
	if rule == nil || rule.InChain() {
		return nil, false
	}
	c := r.covered[rule]
	if c == nil {
		c = r.cover(rule)
	}
	key, err := rule.Assertion(f.Value)
	if len(c.types) == 0 || err != nil {
		return nil, false
	}
	return &Test{Op: TestExtensible, DNAttrs: f.DNAttrs, Types: c.types, shared: c.shared, Rule: rule, Key: key, ByKey: c.byKey}, true
}

func (r *resolver) cover(rule *schema.MatchingRule) *covered {
	c := &covered{byKey: true}
	for _, typ := range r.schema.Attributes() {
		switch {
		case r.hides(typ) || !rule.AppliesTo(typ):
		case typ.Collective:
			c.shared = append(c.shared, typ)
		default:
			c.types = append(c.types, typ)
			c.byKey = c.byKey && sharesKeys(rule, typ)
		}
	}
	if r.covered == nil {
		r.covered = map[*schema.MatchingRule]*covered{}
	}
	r.covered[rule] = c
	return c
}
