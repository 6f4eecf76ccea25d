package schema

import "bytes"

// Usage of an attribute type (RFC 4512, 4.1.2).
type Usage uint8

const (
	UserApplications Usage = iota
	DirectoryOperation
	DistributedOperation
	DSAOperation
)

// Extension is an X- term of a definition, kept and shown as given.
type Extension struct {
	Name   string
	Values []string
}

// An AttributeType is one attribute type, with what it inherits from its
// supertype filled in.
type AttributeType struct {
	OID                string
	Names              []string
	Desc               string
	Obsolete           bool
	Sup                *AttributeType
	Equality           *MatchingRule // nil: none
	Ordering           *MatchingRule
	Substr             *MatchingRule
	Syntax             *Syntax
	MaxLen             int // of the syntax in the definition; 0: none said
	SingleValue        bool
	Collective         bool
	NoUserModification bool
	Usage              Usage
	Extensions         []Extension

	name   string // Names[0], or OID
	sent   string // see SentName
	secret bool
	stored []*AttributeType
	shared []*AttributeType
	approx *MatchingRule
	def    *definition
}

// Name is the type's short name: its first name, or its OID.
func (t *AttributeType) Name() string { return t.name }

// SentName is the short name as it goes with values to clients and into files:
// with the option binary if values of the syntax must not go without it (RFC
// 4522, section 3; RFC 4523, section 2.1).
func (t *AttributeType) SentName() string { return t.sent }

// SameValue reports whether two values are equal by the type's equality rule, or octet by
// octet if it has none. A value that breaks its syntax equals only itself.
func (t *AttributeType) SameValue(a, b []byte) bool {
	if bytes.Equal(a, b) || t.Equality == nil {
		return bytes.Equal(a, b)
	}
	x, err := t.Equality.Key(a)
	if err != nil {
		return false
	}
	y, err := t.Equality.Key(b)
	return err == nil && bytes.Equal(x, y)
}

// Operational reports whether the type is for the directory's own use: sent
// only when asked for by name or "+".
func (t *AttributeType) Operational() bool { return t.Usage != UserApplications }

// Secret reports whether values of the type are never matched, normalised nor
// shown to anyone but those who may by name: userPassword and its like. The
// definition says so with X-SECRET 'TRUE', its own or a supertype's.
func (t *AttributeType) Secret() bool { return t.secret }

// Approx is the rule of "~=" assertions: the approximate rule for text, else the
// equality rule (RFC 4511, 4.5.1.7.6).
func (t *AttributeType) Approx() *MatchingRule { return t.approx }

// Stored lists t and its subtypes as far as entries hold their values
// themselves: not collective ones, but of a collective type all, since subentries
// hold these.
func (t *AttributeType) Stored() []*AttributeType { return t.stored }

// Shared lists the collective ones among t and its subtypes: entries have their
// values from subentries (RFC 3671).
func (t *AttributeType) Shared() []*AttributeType { return t.shared }

// Is reports whether t is super or a subtype of it.
func (t *AttributeType) Is(super *AttributeType) bool {
	for ; t != nil; t = t.Sup {
		if t == super {
			return true
		}
	}
	return false
}

// Kind of an object class (RFC 4512, 2.4).
type Kind uint8

const (
	Abstract Kind = iota
	Structural
	Auxiliary
)

// An ObjectClass is one object class.
type ObjectClass struct {
	OID        string
	Names      []string
	Desc       string
	Obsolete   bool
	Sup        []*ObjectClass
	Kind       Kind
	Must, May  []*AttributeType // its own; superclasses have theirs
	Extensions []Extension

	name string
	def  *definition
}

// Name is the class's short name: its first name, or its OID.
func (c *ObjectClass) Name() string { return c.name }

// Is reports whether c is super or inherits from it.
func (c *ObjectClass) Is(super *ObjectClass) bool {
	if c == super {
		return true
	}
	for _, s := range c.Sup {
		if s.Is(super) {
			return true
		}
	}
	return false
}

// A ContentRule says what else the entries of a structural class may or must
// have (RFC 4512, 4.1.6).
type ContentRule struct {
	Class      *ObjectClass // its OID is the rule's
	Names      []string
	Desc       string
	Obsolete   bool
	Aux        []*ObjectClass
	Must, May  []*AttributeType
	Not        []*AttributeType
	Extensions []Extension

	name string
	def  *definition
}

// Name is the rule's first name, or the OID of its class.
func (r *ContentRule) Name() string { return r.name }

// A NameForm says what the RDNs of a structural class are made of (RFC 4512,
// 4.1.7.2).
type NameForm struct {
	OID        string
	Names      []string
	Desc       string
	Obsolete   bool
	Class      *ObjectClass
	Must, May  []*AttributeType
	Extensions []Extension

	name string
	def  *definition
}

// Name is the form's short name: its first name, or its OID.
func (f *NameForm) Name() string { return f.name }

// A StructureRule says below which entries those of a name form stand (RFC
// 4512, 4.1.7.1).
type StructureRule struct {
	ID         int
	Names      []string
	Desc       string
	Obsolete   bool
	Form       *NameForm
	Sup        []*StructureRule
	Extensions []Extension

	name string
	def  *definition
}

// Name is the rule's first name, or its number.
func (r *StructureRule) Name() string { return r.name }

// A Syntax is an LDAP syntax (RFC 4517, 3.3).
type Syntax struct {
	OID        string
	Desc       string
	Extensions []Extension

	validate func(s *Schema, v []byte) error
	schema   *Schema
	def      *definition
}

// Validate checks a value against the syntax. The error says what is wrong,
// without the attribute's name.
func (x *Syntax) Validate(v []byte) error { return x.validate(x.schema, v) }

// Use of a matching rule.
type Use uint8

const (
	Equality Use = iota
	Ordering
	Substrings
	Approximate
	// Special rules are used in extensible matches only and decide by Match
	// (bitwise and/or, word and keyword match).
	Special
)

// A MatchingRule is one matching rule (RFC 4512, 4.1.3; RFC 4517, 4).
type MatchingRule struct {
	OID        string
	Names      []string
	Desc       string
	Obsolete   bool
	Syntax     *Syntax // of the assertion
	Use        Use
	Form       *Form
	Extensions []Extension

	name   string
	does   *behaviour
	schema *Schema
	def    *definition
}

// Name is the rule's short name: its first name, or its OID.
func (r *MatchingRule) Name() string { return r.name }

// Piece is a part of a substring assertion.
type Piece uint8

const (
	Initial Piece = iota
	Any
	Final
)
