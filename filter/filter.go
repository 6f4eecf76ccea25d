// Package filter has search filters in two states. A [Filter] is what a client
// wrote (RFC 4515 text or RFC 4511 BER): descriptions and values as bytes, known
// to nobody. A [Resolved] one has met a schema: types looked up, assertions
// normalised, and what cannot be evaluated replaced by Undefined. Only a
// Resolved filter can run, and it answers with three values (RFC 4511, 4.5.1.7).
package filter

import (
	"errors"
	"iter"

	"github.com/seed-4dac0d86/ldapd/schema"
)

var errStub = errors.New("filter: not written yet")

// A Filter is one of And, Or, *Not, *Equal, *Substrings, *GreaterOrEqual,
// *LessOrEqual, *Present, *Approx, *Extensible. String prints it (RFC 4515).
type Filter interface {
	String() string
	isFilter()
}

type (
	And []Filter // none: True (RFC 4526)
	Or  []Filter // none: False
	Not struct{ Filter }
	// Equal and the other assertions name an attribute description.
	Equal struct {
		Attribute string
		Value     []byte
	}
	GreaterOrEqual struct {
		Attribute string
		Value     []byte
	}
	LessOrEqual struct {
		Attribute string
		Value     []byte
	}
	Approx struct {
		Attribute string
		Value     []byte
	}
	Present    struct{ Attribute string }
	Substrings struct {
		Attribute string
		Initial   []byte // nil: absent
		Any       [][]byte
		Final     []byte // nil: absent
	}
	// Extensible is a MatchingRuleAssertion; Rule or Attribute may be empty.
	Extensible struct {
		Rule      string
		Attribute string
		Value     []byte
		DNAttrs   bool
	}
)

// Parse reads the string form (RFC 4515). The error says at which byte and why.
func Parse(s string) (Filter, error) { panic(errStub) }

// MustParse is Parse for filters in code; it panics on an error.
func MustParse(s string) Filter {
	f, err := Parse(s)
	if err != nil {
		panic(err)
	}
	return f
}

// Tri is a truth value of three-valued logic.
type Tri int8

const (
	False     Tri = -1
	Undefined Tri = 0
	True      Tri = 1
)

// A Resolved filter is one of *AndNode, *OrNode, *NotNode, Const, *Test.
type Resolved interface {
	// Match evaluates the filter on one entry.
	Match(e Source) Tri
	// String prints it as RFC 4515 text with OIDs' short names.
	String() string
}

type (
	AndNode struct{ Parts []Resolved }
	OrNode  struct{ Parts []Resolved }
	NotNode struct{ Part Resolved }
	// Const is a part whose value does not depend on the entry.
	Const Tri
)

// TestOp is what a Test asks.
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

// A Test is one assertion about an entry, ready to run.
type Test struct {
	Op TestOp
	// Types are the type asked for and its subtypes, all that the assertion
	// covers; for an extensible match without a type, all that the rule takes.
	Types []*schema.AttributeType
	// Options are those that a description must have at least (as in
	// entry.Attribute).
	Options string
	// Rule decides; nil for TestPresent.
	Rule *schema.MatchingRule
	// Key is the normalised assertion, of all but TestPresent and
	// TestSubstrings.
	Key []byte
	// Initial, Any and Final are the normalised pieces of TestSubstrings; nil
	// for those absent.
	Initial []byte
	Any     [][]byte
	Final   []byte
	// DNAttrs asks the entry's name too.
	DNAttrs bool
	// ByKey says that the rule shares its form with the equality rule of every
	// type in Types, so that the keys an index has are enough to decide.
	ByKey bool

	text string // the assertion as the client wrote it, canonical
}

// A Source is an entry as filters see it.
type Source interface {
	// Has reports whether the entry has a value of exactly type t under a
	// description that has the options.
	Has(t *schema.AttributeType, options string) bool
	// Keys yields the keys under t's own equality rule of the values of
	// exactly type t under descriptions that have the options.
	Keys(t *schema.AttributeType, options string) iter.Seq[[]byte]
	// Values yields the same values as they are. A source that has only keys
	// yields nothing: see NeedsValues.
	Values(t *schema.AttributeType, options string) iter.Seq[[]byte]
	// NameValues yields the (type, value) pairs of the entry's whole DN.
	NameValues() iter.Seq2[*schema.AttributeType, []byte]
}

// Resolve looks a filter up in a schema. Assertions on unknown types or rules,
// on types without the rule asked for, and values that break their syntax become
// Undefined; constants are folded, nested And and Or flattened.
func Resolve(f Filter, s *schema.Schema) Resolved { panic(errStub) }

// NeedsValues reports whether evaluating f takes values or the name, not only
// keys.
func NeedsValues(f Resolved) bool { panic(errStub) }
