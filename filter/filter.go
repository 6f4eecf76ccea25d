// Package filter implements search filters in two forms. A [Filter] is what a client
// wrote (RFC 4515 text or RFC 4511 BER), with attribute descriptions and values as bytes.
// A [Resolved] filter has been resolved by a schema: types are looked up, assertions are
// normalised, and what cannot be evaluated is replaced by Undefined. Only a Resolved
// filter can be evaluated. It has one of three values (RFC 4511, 4.5.1.7).
//
// Every [Test] of a Resolved filter is either True or False for an entry. Undefined comes
// from constants only. [Definite] can therefore turn the filter into one with two values
// that selects the same entries. Planning and scanning use that.
package filter

import "fmt"

// A Filter is one of And, Or, *Not, *Equal, *Substrings, *GreaterOrEqual, *LessOrEqual,
// *Present, *Approx, *Extensible, Unknown. String returns its text (RFC 4515).
type Filter interface {
	String() string
	isFilter()
}

type (
	And []Filter // empty: True (RFC 4526)
	Or  []Filter // empty: False
	Not struct{ Filter }
	// Equal is an assertion on an attribute description, like those that follow.
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
	// Extensible is a MatchingRuleAssertion. Rule or Attribute may be empty.
	Extensible struct {
		Rule      string
		Attribute string
		Value     []byte
		DNAttrs   bool
	}
	// Unknown is the encoding of an alternative that RFC 4511 does not define but allows
	// for. It is Undefined (4.5.1.7), and has no text.
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

// Limits of the filters that Parse and Decode accept. Evaluating a filter takes a nested
// call for each level, and a part of a few bytes takes much more memory.
const (
	MaxDepth = 100
	MaxParts = 1 << 16 // on all levels together
)

// An Error describes what is wrong with a filter's text, and at which byte.
type Error struct {
	Filter string
	Offset int
	Text   string
}

func (e *Error) Error() string {
	return fmt.Sprintf("the filter %q is malformed at byte %d: %s", e.Filter, e.Offset, e.Text)
}

// MustParse is Parse for filters in code. It panics on an error.
func MustParse(s string) Filter {
	f, err := Parse(s)
	if err != nil {
		panic(err)
	}
	return f
}
