package acl

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/seed-4dac0d86/ldapd/filter"
)

// A Rule is one rule as written.
type Rule struct {
	Name  string // unique at its place
	Deny  bool
	Who   Who
	Parts []Part
	In    *What // nil: the place and everything below it
	If    []Condition
	Why   string // the comment
}

// Who is the identities that a rule is for: those that match one of Any and none of
// Except.
type Who struct{ Any, Except []Term }

// A Term matches an identity that is all of its subjects.
type Term []Subject

// SubjectKind is the kind of a subject.
type SubjectKind uint8

const (
	Everyone    SubjectKind = iota
	Anonymous               // not bound
	Users                   // bound
	Self                    // the entry itself
	Named                   // an identity whose name matches the pattern
	Below                   // an identity below the name that matches the filter
	Group                   // a member of the group with the name
	Its                     // an identity that the entry's attribute names
	ItsParent               // the parent of the entry
	ItsParents              // an identity that an attribute of the parent names
	ItsSuperior             // an entry above the entry
	Same                    // an identity with an attribute value in common with the entry
	Nobody                  // an identity that was named, but whose entry is gone
)

// A Subject is one word or phrase that identities match.
type Subject struct {
	Kind      SubjectKind
	Group     bool          // Its, ItsParent, ItsParents: a member of that group
	Name      string        // Named, Below, Group: a name or a pattern
	Filter    filter.Filter // Below; nil: none
	Attribute string        // Its, ItsParents, Same
}

// A Part is rights on attributes.
type Part struct {
	Rights     Rights
	Attributes []Attribute // none: all user attributes
	Except     []Attribute
}

// An Attribute is an attribute description in a rule, "*", "+" or "@class", and a
// selection of values. For the right use it is the name of what may be used.
type Attribute struct {
	Description string
	Self        bool          // the value that names the identity
	Value       *string       // this value
	Filter      filter.Filter // values that match it
}

// What is the entries that a rule is about: those in one of Any and in none of Except.
type What struct{ Any, Except []Target }

// Scope is the entries that a target includes, relative to its base.
type Scope uint8

const (
	Subtree  Scope = iota // the base and everything below it
	This                  // only the place
	Only                  // only the base
	Children              // the entries directly below the base
	Under                 // everything below the base: "below"
)

var scopeWords = map[Scope]string{This: "this", Only: "only", Children: "children", Under: "below"}

// A Target is entries selected by their place and by a filter.
type Target struct {
	Scope   Scope
	Pattern string // of the base, relative to the place; "": the place itself
	Filter  filter.Filter
}

// ConditionKind is the kind of a condition.
type ConditionKind uint8

const (
	Secure    ConditionKind = iota // TLS, or a socket on this machine
	Local                          // a socket on this machine
	Proxied                        // the operation runs as another identity than the bound one
	SSF                            // the strength of the connection's protection
	Address                        // the client's address
	Mechanism                      // of the bind
	TimeOfDay
	Weekday
)

// A Condition is about the connection and the time, and not about entries.
type Condition struct {
	Not       bool
	Kind      ConditionKind
	SSF       int
	Network   netip.Prefix
	Mechanism string
	From, To  int // minutes of the day, without To; or time.Weekday, with To
	Zone      *time.Location
}

var conditionWords = map[ConditionKind]string{Secure: "secure", Local: "local", Proxied: "proxied",
	SSF: "ssf", Address: "address", Mechanism: "mechanism", TimeOfDay: "time", Weekday: "day"}

var dayWords = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

// String returns the rule in the canonical spelling in which rules are stored.
func (r *Rule) String() string {
	var b strings.Builder
	b.WriteString(r.Name)
	if r.Deny {
		b.WriteString(": deny ")
	} else {
		b.WriteString(": allow ")
	}
	b.WriteString(r.Who.String())
	for i := range r.Parts {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteByte(' ')
		b.WriteString(r.Parts[i].String())
	}
	if r.In != nil {
		b.WriteString(" in " + lists(r.In.Any, r.In.Except, Target.String))
	}
	for i, c := range r.If {
		b.WriteString([]string{" if ", " and "}[min(i, 1)] + c.String())
	}
	if r.Why != "" {
		b.WriteString(" # " + r.Why)
	}
	return b.String()
}

// lists returns "a, b except c, d".
func lists[T any](in, except []T, text func(T) string) string {
	s := join(in, ", ", text)
	if len(except) > 0 {
		s += " except " + join(except, ", ", text)
	}
	return s
}

func join[T any](all []T, between string, text func(T) string) string {
	parts := make([]string, len(all))
	for i, v := range all {
		parts[i] = text(v)
	}
	return strings.Join(parts, between)
}

func (w Who) String() string { return lists(w.Any, w.Except, Term.String) }

func (t Term) String() string { return join(t, " and ", Subject.String) }

func (s Subject) String() string {
	text := map[SubjectKind]string{Everyone: "everyone", Anonymous: "anonymous", Users: "users", Self: "self", Nobody: "nobody",
		Below: "below ", Group: "group ", Its: "its " + s.Attribute, ItsParent: "its parent",
		ItsParents: "its parent's " + s.Attribute, ItsSuperior: "its superiors", Same: "same " + s.Attribute}[s.Kind]
	if s.Group {
		text = "group " + text
	}
	if s.Name != "" {
		text += quote(s.Name)
	}
	if s.Filter != nil {
		text += " " + s.Filter.String()
	}
	return text
}

func (p Part) String() string {
	s := "to " + p.Rights.String()
	if len(p.Attributes) > 0 || len(p.Except) > 0 {
		s += " " + lists(p.Attributes, p.Except, Attribute.String)
	}
	return s
}

func (a Attribute) String() string {
	switch {
	case a.Self:
		return a.Description + "=self"
	case a.Value != nil:
		return a.Description + "=" + quoteValue(*a.Value)
	case a.Filter != nil:
		return a.Description + a.Filter.String()
	}
	return a.Description
}

func (t Target) String() string {
	var parts []string
	if word := scopeWords[t.Scope]; word != "" {
		parts = append(parts, word)
	}
	if t.Pattern != "" {
		parts = append(parts, quote(t.Pattern))
	}
	if t.Filter != nil {
		parts = append(parts, t.Filter.String())
	}
	return strings.Join(parts, " ")
}

func (c Condition) String() string {
	s := conditionWords[c.Kind]
	switch c.Kind {
	case SSF:
		s += " " + strconv.Itoa(c.SSF)
	case Address:
		s += " " + network(c.Network)
	case Mechanism:
		s += " " + c.Mechanism
	case TimeOfDay:
		s += " " + clock(c.From) + "-" + clock(c.To) + " " + c.Zone.String()
	case Weekday:
		s += " " + dayWords[c.From]
		if c.To != c.From {
			s += "-" + dayWords[c.To]
		}
	}
	if c.Not {
		return "not " + s
	}
	return s
}

// network returns a prefix as text. A prefix of a single address is shown as that
// address.
func network(p netip.Prefix) string {
	if p.IsSingleIP() {
		return p.Addr().String()
	}
	return p.String()
}

func clock(minutes int) string { return fmt.Sprintf("%02d:%02d", minutes/60, minutes%60) }

// quote quotes a name, whose text has no bare quotation marks.
func quote(name string) string { return `"` + name + `"` }

var valueEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

func quoteValue(v string) string { return `"` + valueEscapes.Replace(v) + `"` }
