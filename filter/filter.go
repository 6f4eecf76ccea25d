// Package filter has search filters in two states. A [Filter] is what a client
// wrote (RFC 4515 text or RFC 4511 BER): descriptions and values as bytes, known
// to nobody. A [Resolved] one has met a schema: types looked up, assertions
// normalised, and what cannot be evaluated replaced by Undefined. Only a
// Resolved filter can run, and it answers with three values (RFC 4511, 4.5.1.7).
//
// Every [Test] of a Resolved filter is either True or False of an entry;
// Undefined comes from constants alone. So [Definite] can turn the filter into
// one of two values that selects the same entries, which is what planning and
// scanning use.
package filter

import "fmt"

// A Filter is one of And, Or, *Not, *Equal, *Substrings, *GreaterOrEqual,
// *LessOrEqual, *Present, *Approx, *Extensible, Unknown. String prints it (RFC
// 4515).
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
	// Unknown is an alternative that RFC 4511 does not have but leaves room for,
	// as it was encoded: Undefined (4.5.1.7). There is no text for it.
	Unknown []byte
)

func (And) isFilter()             {}
func (Or) isFilter()              {}
func (*Not) isFilter()            {}
func (*Equal) isFilter()          {}
func (*GreaterOrEqual) isFilter() {}
func (*LessOrEqual) isFilter()    {}
func (*Approx) isFilter()         {}
func (*Present) isFilter()        {}
func (*Substrings) isFilter()     {}
func (*Extensible) isFilter()     {}
func (Unknown) isFilter()         {}

// Limits of filters that Parse and Decode take. A filter nests a call a level
// when it runs, and a part of a few bytes becomes many in memory.
const (
	MaxDepth = 100
	MaxParts = 1 << 16 // of all levels together
)

// An Error says what is wrong with a filter's text, and at which byte.
type Error struct {
	Filter string
	Offset int
	Text   string
}

func (e *Error) Error() string {
	return fmt.Sprintf("the filter %q is malformed at byte %d: %s", e.Filter, e.Offset, e.Text)
}

// MustParse is Parse for filters in code; it panics on an error.
func MustParse(s string) Filter {
	f, err := Parse(s)
	if err != nil {
		panic(err)
	}
	return f
}
