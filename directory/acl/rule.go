package acl

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/seed-4dac0d86/ldapd/filter"
)

// A Rule is the syntax tree of a rule.
type Rule struct {
	Name  string // unique among the rules at one place
	Deny  bool
	Who   Who
	Parts []Part
	In    *What // nil: the rule applies to the place and everything below it
	If    []Condition
	Why   string // the comment of the rule
}

// Who is the set of identities that a rule is for: the identities that match a term in
// Any and match no term in Except.
type Who struct{ Any, Except []Term }

// A Term matches an identity that matches all of its subjects.
type Term []Subject

// SubjectKind is the kind of a subject.
type SubjectKind uint8

const (
	Everyone    SubjectKind = iota
	Anonymous               // identities that are not bound
	Users                   // identities that are bound
	Self                    // the identity whose entry is the entry to be accessed
	Named                   // identities whose name matches the pattern
	Below                   // identities whose entries are below the name and match the filter
	Group                   // members of the group with the name
	Its                     // identities that an attribute of the entry names
	ItsParent               // the identity whose entry is the entry's parent
	ItsParents              // identities that an attribute of the entry's parent names
	ItsSuperior             // identities whose entries are above the entry
	Same                    // identities that have an attribute value in common with the entry
	Nobody                  // no identity: replaces a named identity whose entry is gone
)

// A Subject is a word or phrase that matches identities.
type Subject struct {
	Kind      SubjectKind
	Group     bool          // "group" precedes Its, ItsParent or ItsParents
	Name      string        // for Named, Below and Group: a name or pattern
	Filter    filter.Filter // for Below; nil: no filter
	Attribute string        // for Its, ItsParents and Same
}

// A Part is a set of rights on the entry or on attributes.
type Part struct {
	Rights     Rights
	Attributes []Attribute // empty: all user attributes
	Except     []Attribute
}

// An Attribute is an attribute description, "*", "+" or "@class" in a rule, with an
// optional selection of values. In a Part with the right Use, Description is a name that
// may be used.
type Attribute struct {
	Description string
	Self        bool          // select the value that names the identity
	Value       *string       // select this value
	Filter      filter.Filter // select the values that match this filter
}

// What is the set of entries that a rule applies to: the entries in a target of Any and
// in no target of Except.
type What struct{ Any, Except []Target }

// Scope is the set of entries that a target includes, relative to the base of the target.
type Scope uint8

const (
	Subtree  Scope = iota // the base and everything below it
	This                  // only the place
	Only                  // only the base
	Children              // the entries directly below the base
	Under                 // everything below the base; the word in rules is "below"
)

var scopeWords = map[Scope]string{This: "this", Only: "only", Children: "children", Under: "below"}

// A Target is a set of entries, selected by their names and by a filter.
type Target struct {
	Scope   Scope
	Pattern string // pattern of the base, relative to the place; "": the place
	Filter  filter.Filter
}

// ConditionKind is the kind of a condition.
type ConditionKind uint8

const (
	Secure    ConditionKind = iota // the connection uses TLS or a socket on this machine
	Local                          // the connection uses a socket on this machine
	Proxied                        // the operation runs as an identity that is not the bound identity
	SSF                            // the security strength factor of the connection
	Address                        // the address of the client
	Mechanism                      // the mechanism of the bind
	TimeOfDay
	Weekday
)

// A Condition restricts a rule to some connections or times. It does not depend on the
// entry.
type Condition struct {
	Not       bool
	Kind      ConditionKind
	SSF       int
	Network   netip.Prefix
	Mechanism string
	From, To  int // minutes of the day (excluding To), or time.Weekday (including To)
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

// lists returns a list in the form "a, b except c, d".
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

// network returns the text of a prefix. A prefix that contains a single address is shown
// as this address.
func network(p netip.Prefix) string {
	if p.IsSingleIP() {
		return p.Addr().String()
	}
	return p.String()
}

func clock(minutes int) string { return fmt.Sprintf("%02d:%02d", minutes/60, minutes%60) }

// quote quotes a name. The name must not contain unescaped quotation marks.
func quote(name string) string { return `"` + name + `"` }

var valueEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

func quoteValue(v string) string { return `"` + valueEscapes.Replace(v) + `"` }
