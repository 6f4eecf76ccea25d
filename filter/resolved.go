package filter

import (
	"bytes"
	"iter"
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// Tri is a truth value of three-valued logic. The And of several values is their minimum,
// the Or is their maximum, and the Not of a value is its negative.
type Tri int8

const (
	False     Tri = -1
	Undefined Tri = 0
	True      Tri = 1
)

func tri(b bool) Tri {
	if b {
		return True
	}
	return False
}

// A Resolved filter is an *AndNode, *OrNode, *NotNode, Const or *Test.
type Resolved interface {
	// Match evaluates the filter on one entry.
	Match(e Source) Tri
	// String returns RFC 4515 text with short names instead of OIDs.
	String() string
}

type (
	AndNode struct{ Parts []Resolved }
	OrNode  struct{ Parts []Resolved }
	NotNode struct{ Part Resolved }
	// Const is a filter whose value does not depend on the entry.
	Const Tri
)

// TestOp is the kind of a Test.
type TestOp uint8

const (
	TestPresent TestOp = iota
	TestEqual
	TestGreaterOrEqual
	TestLessOrEqual
	TestSubstrings
	TestApprox
	TestExtensible
)

// A Test is one assertion about an entry, prepared for evaluation.
type Test struct {
	Op TestOp
	// Types are the types that the assertion covers: the requested type and its subtypes,
	// or, for an extensible match without a type, all types that the rule applies to.
	// Types does not contain secret types. It contains collective types only if the
	// requested type is collective: see Shared.
	Types []*schema.AttributeType
	// Options are the options of the assertion, in the form of entry.Attribute. The Test
	// covers only attributes whose descriptions contain these options.
	Options string
	// Rule is the matching rule. It is nil for TestPresent.
	Rule *schema.MatchingRule
	// Key is the normalised assertion value. TestPresent and TestSubstrings do not use
	// it.
	Key []byte
	// Initial, Any and Final are the normalised substrings of TestSubstrings. The value
	// nil means that the filter does not contain the substring.
	Initial []byte
	Any     [][]byte
	Final   []byte
	// DNAttrs means that the name of the entry is also tested.
	DNAttrs bool
	// ByKey means that the rule has the same form as the equality rule of every type in
	// Types, so the keys in an index are enough to evaluate the Test.
	ByKey bool

	asked  Filter                  // the part of the client's filter from which the Test was made
	shared []*schema.AttributeType // collective types that the Test covers
	place  func(Source) bool       // if not nil, evaluates the Test instead of Op
	list   iter.Seq2[EntryRef, error]
	test   func([]byte) bool // the method Holds as a func value, which is allocated only once
}

// IsValue reports whether the Test asks for one value of one type, by the value's key.
func (t *Test) IsValue() bool {
	return t.Op == TestEqual && t.ByKey && len(t.Types) == 1 && !t.DNAttrs && t.place == nil
}

// A Source provides the values of an entry to filters.
type Source interface {
	// Has reports whether the entry has a value of exactly the type t, and not only of a
	// subtype, under a description that contains the options.
	Has(t *schema.AttributeType, options string) bool
	// Keys yields the keys of all values of exactly the type t whose descriptions contain
	// the options. The keys are those of t's equality rule.
	Keys(t *schema.AttributeType, options string) iter.Seq[[]byte]
	// Values yields the stored forms of the values whose keys the method Keys yields. A source
	// that has only keys yields no values: see NeedsValues.
	Values(t *schema.AttributeType, options string) iter.Seq[[]byte]
	// NameValues yields the type and the value of each AVA in the DN of the entry.
	NameValues() iter.Seq2[*schema.AttributeType, []byte]
}

// A KeySource is a Source that can evaluate the most frequent tests without an iterator. An
// iterator costs two allocations. A KeySource may evaluate these tests without reading all
// values.
type KeySource interface {
	Source
	// HasKey reports whether Keys(t, options) yields key.
	HasKey(t *schema.AttributeType, options string, key []byte) bool
	// AnyKey reports whether Keys(t, options) yields a key for which holds returns true.
	AnyKey(t *schema.AttributeType, options string, holds func(key []byte) bool) bool
}

func (n *AndNode) Match(e Source) Tri {
	result := True
	for _, p := range n.Parts {
		if result = min(result, p.Match(e)); result == False {
			break
		}
	}
	return result
}

func (n *OrNode) Match(e Source) Tri {
	result := False
	for _, p := range n.Parts {
		if result = max(result, p.Match(e)); result == True {
			break
		}
	}
	return result
}

func (n *NotNode) Match(e Source) Tri { return -n.Part.Match(e) }

func (c Const) Match(Source) Tri { return Tri(c) }

// Match returns True or False, and never Undefined. A stored value that breaks its syntax
// matches no assertion about values.
func (t *Test) Match(e Source) Tri {
	if t.place != nil {
		return tri(t.place(e))
	}
	for _, typ := range t.Types {
		if t.matchType(e, typ) {
			return True
		}
	}
	return tri(t.DNAttrs && t.matchName(e))
}

func (t *Test) matchType(e Source, typ *schema.AttributeType) bool {
	if t.Op == TestPresent {
		return e.Has(typ, t.Options)
	}
	if !sharesKeys(t.Rule, typ) {
		return t.matchValues(e, typ)
	}
	if ks, ok := e.(KeySource); ok {
		if t.Op == TestEqual {
			return ks.HasKey(typ, t.Options, t.Key)
		}
		return ks.AnyKey(typ, t.Options, t.holds())
	}
	return t.matchKeys(e, typ)
}

// matchKeys is a function of its own, because a function that ranges over an iterator
// allocates memory at every call, even at calls that do not reach the loop.
func (t *Test) matchKeys(e Source, typ *schema.AttributeType) bool {
	for k := range e.Keys(typ, t.Options) {
		if t.Holds(k) {
			return true
		}
	}
	return false
}

// matchValues tests values whose stored keys do not have the form of the rule.
func (t *Test) matchValues(e Source, typ *schema.AttributeType) bool {
	for v := range e.Values(typ, t.Options) {
		if t.holdsValue(v) {
			return true
		}
	}
	return false
}

// matchName tests the attribute values in the DN of the entry (RFC 4511, 4.5.1.7.7).
// These values have no options.
func (t *Test) matchName(e Source) bool {
	if t.Options != "" {
		return false
	}
	for typ, v := range e.NameValues() {
		if slices.Contains(t.Types, typ) && t.holdsValue(v) {
			return true
		}
	}
	return false
}

func (t *Test) holdsValue(v []byte) bool {
	key, err := t.Rule.Key(v)
	return err == nil && t.Holds(key)
}

func (t *Test) holds() func([]byte) bool {
	if t.test != nil {
		return t.test
	}
	return t.Holds
}

// MatchValue reports whether the value v of the attribute a matches (RFC 3876, 2).
func (t *Test) MatchValue(a *entry.Attribute, v []byte) bool {
	if !slices.Contains(t.Types, a.Type) || !entry.HasOptions(a.Options, t.Options) {
		return false
	}
	return t.Op == TestPresent || t.holdsValue(v)
}

// Holds reports whether a key, which must have the form of the rule, matches.
func (t *Test) Holds(key []byte) bool {
	switch t.Op {
	case TestPresent:
		return true
	case TestEqual:
		return bytes.Equal(key, t.Key)
	case TestGreaterOrEqual:
		return bytes.Compare(key, t.Key) >= 0
	case TestLessOrEqual:
		return bytes.Compare(key, t.Key) <= 0
	case TestSubstrings:
		return t.holdsPieces(key)
	}
	return t.Rule.Match(key, t.Key)
}

// holdsPieces reports whether the key contains the substrings in their order, without
// overlap. It is enough to try the first position at which each substring occurs.
func (t *Test) holdsPieces(key []byte) bool {
	rest, ok := bytes.CutPrefix(key, t.Initial)
	if !ok {
		return false
	}
	if rest, ok = bytes.CutSuffix(rest, t.Final); !ok {
		return false
	}
	for _, a := range t.Any {
		if _, rest, ok = bytes.Cut(rest, a); !ok {
			return false
		}
	}
	return true
}

// sharesKeys reports whether the stored keys of the type are keys of the rule.
func sharesKeys(r *schema.MatchingRule, t *schema.AttributeType) bool {
	return t.Equality != nil && t.Equality.Form == r.Form
}

// AsksSecrets reports whether a test in f is about a secret type, and needs its values in the Source.
func AsksSecrets(f Resolved) bool {
	for t := range Tests(f) {
		if t.place == nil && slices.ContainsFunc(t.Types, (*schema.AttributeType).Secret) {
			return true
		}
	}
	return false
}

// NeedsValues reports whether evaluating f needs the values or the name of an entry, so
// that keys are not enough. Secret types have no keys.
func NeedsValues(f Resolved) bool {
	for t := range Tests(f) {
		if t.Op != TestPresent && !t.ByKey || t.DNAttrs || slices.ContainsFunc(t.Types, (*schema.AttributeType).Secret) {
			return true
		}
	}
	return false
}

// Memory returns about how many octets a filter takes. A test of several types may be split into a
// test for each type, with the conditions on which an identity may search the type.
func Memory(f Resolved) int64 {
	switch f := f.(type) {
	case *AndNode:
		return memoryOf(f.Parts)
	case *OrNode:
		return memoryOf(f.Parts)
	case *NotNode:
		return testSize + Memory(f.Part)
	case *Test:
		if f.Whole() {
			return testSize
		}
		return testSize * int64(1+len(f.Types)+len(f.shared))
	}
	return 0
}

func memoryOf(parts []Resolved) (n int64) {
	for _, p := range parts {
		n += Memory(p)
	}
	return n
}

// testSize is about the size of a test with the functions that it refers to.
const testSize = 768

// ofAnyType reports whether the client's assertion names no type.
func (t *Test) ofAnyType() bool {
	x, ok := t.asked.(*Extensible)
	return ok && x.Attribute == ""
}

// manyTypes is the number of types from which Whole is worth it.
const manyTypes = 16

// Whole reports whether the test should not be split into tests of its types, because the client
// names no type, and the types are many: most of the schema. No index serves all of them.
func (t *Test) Whole() bool { return t.ofAnyType() && len(t.Types) >= manyTypes }

// MatchType reports whether a value of one of the types of the test matches.
func (t *Test) MatchType(e Source, typ *schema.AttributeType) bool { return t.matchType(e, typ) }

// Tests yields every Test in a filter, in the order of the filter.
func Tests(f Resolved) iter.Seq[*Test] {
	return func(yield func(*Test) bool) { walk(f, yield) }
}

func walk(f Resolved, yield func(*Test) bool) bool {
	switch f := f.(type) {
	case *AndNode:
		return walkAll(f.Parts, yield)
	case *OrNode:
		return walkAll(f.Parts, yield)
	case *NotNode:
		return walk(f.Part, yield)
	case *Test:
		return yield(f)
	}
	return true
}

func walkAll(parts []Resolved, yield func(*Test) bool) bool {
	for _, p := range parts {
		if !walk(p, yield) {
			return false
		}
	}
	return true
}

func (n *AndNode) String() string { return "(&" + join(n.Parts) + ")" }
func (n *OrNode) String() string  { return "(|" + join(n.Parts) + ")" }
func (n *NotNode) String() string { return "(!" + n.Part.String() + ")" }

// String returns the text of the assertion in the client's filter, with canonical names.
func (t *Test) String() string {
	switch {
	case t.place != nil:
		return "(?=place)"
	case t.asked == nil:
		return "(?=test)"
	}
	return t.canonical().String()
}

func (t *Test) canonical() Filter {
	d := t.Types[0].Name() + t.Options
	switch f := t.asked.(type) {
	case *Equal:
		return &Equal{d, f.Value}
	case *GreaterOrEqual:
		return &GreaterOrEqual{d, f.Value}
	case *LessOrEqual:
		return &LessOrEqual{d, f.Value}
	case *Approx:
		return &Approx{d, f.Value}
	case *Substrings:
		return &Substrings{d, f.Initial, f.Any, f.Final}
	case *Extensible:
		c := *f
		if c.Attribute != "" {
			c.Attribute = d
		}
		if c.Rule != "" {
			c.Rule = t.Rule.Name()
		}
		return &c
	}
	return &Present{d}
}

// String returns the texts of RFC 4526 for True and False. RFC 4515 defines no text for
// Undefined.
func (c Const) String() string {
	switch Tri(c) {
	case True:
		return "(&)"
	case False:
		return "(|)"
	}
	return "(?=undefined)"
}

func join(parts []Resolved) string {
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(p.String())
	}
	return b.String()
}
