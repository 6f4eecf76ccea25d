// Package filter implements search filters in two forms. A [Filter] is a filter as a
// client wrote it, in RFC 4515 text or RFC 4511 BER, with attribute descriptions and
// values as bytes. A [Resolved] filter has been resolved by a schema: types are looked
// up, assertions are normalised, and every assertion that cannot be evaluated is replaced
// by Undefined. Only a Resolved filter can be evaluated. The result is one of three
// values (RFC 4511, 4.5.1.7).
//
// For an entry, every [Test] of a Resolved filter is either True or False. Only constants
// can be Undefined. [Definite] can therefore convert a Resolved filter to a filter that
// is never Undefined and selects the same entries. The planner and scans use the
// converted filter.
package filter

import "fmt"

// A Filter is an And, Or, *Not, *Equal, *Substrings, *GreaterOrEqual, *LessOrEqual,
// *Present, *Approx, *Extensible or Unknown. String returns the text of the filter (RFC
// 4515).
type Filter interface {
	String() string
	isFilter()
}

type (
	And []Filter // the empty And is True (RFC 4526)
	Or  []Filter // the empty Or is False
	Not struct{ Filter }
	// Equal and the following types, up to Substrings, are assertions about the values of one
	// attribute description.
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
		Initial   []byte // nil: no initial substring
		Any       [][]byte
		Final     []byte // nil: no final substring
	}
	// Extensible is a MatchingRuleAssertion. Rule or Attribute may be empty.
	Extensible struct {
		Rule      string
		Attribute string
		Value     []byte
		DNAttrs   bool
	}
	// Unknown is the encoding of an alternative that RFC 4511 does not define, but
	// permits later versions to define. An Unknown is Undefined (4.5.1.7). It has no
	// text.
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

// EqualTo returns the filter that tests an attribute for a value that is text.
func EqualTo(attribute, value string) *Equal { return &Equal{attribute, []byte(value)} }

// The limits of the filters that Parse and Decode accept. Evaluating a filter makes a nested
// call for each level. The encoding of a part may have only a few bytes, but the decoded part
// needs much more memory.
const (
	MaxDepth = 100
	MaxParts = 1 << 16 // number of parts on all levels together
)

// An Error reports what is wrong with the text of a filter, and at which byte.
type Error struct {
	Filter string
	Offset int
	Text   string
}

func (e *Error) Error() string {
	return fmt.Sprintf("the filter %q is malformed at byte %d: %s", e.Filter, e.Offset, e.Text)
}

// MustParse is like Parse, but panics if s is not a filter. It is meant for filters that
// are constants in Go code.
func MustParse(s string) Filter {
	f, err := Parse(s)
	if err != nil {
		panic(err)
	}
	return f
}

// Octets returns the length of all assertion values of a filter.
func Octets(f Filter) (n int) {
	switch f := f.(type) {
	case And:
		return octetsOf(f)
	case Or:
		return octetsOf(f)
	case *Not:
		return Octets(f.Filter)
	case *Equal:
		return len(f.Value)
	case *Approx:
		return len(f.Value)
	case *GreaterOrEqual:
		return len(f.Value)
	case *LessOrEqual:
		return len(f.Value)
	case *Extensible:
		return len(f.Value)
	case *Substrings:
		n = len(f.Initial) + len(f.Final)
		for _, v := range f.Any {
			n += len(v)
		}
	}
	return n
}

func octetsOf(parts []Filter) (n int) {
	for _, f := range parts {
		n += Octets(f)
	}
	return n
}
