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

// Extension is an X- term of a definition. It is kept and shown unchanged.
type Extension struct {
	Name   string
	Values []string
}

// An AttributeType is an attribute type, including what it inherits from its supertype.
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
	MaxLen             int // of the syntax in the definition; 0: not given
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

// Name returns the type's short name: its first name, or its OID.
func (t *AttributeType) Name() string { return t.name }

// SentName returns the short name for values sent to clients and written to files. It has
// the option binary if values of the syntax must not be sent without it (RFC 4522,
// section 3; RFC 4523, section 2.1).
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

// Operational reports whether the type is for the directory's own use. It is only sent if
// requested by name or by "+".
func (t *AttributeType) Operational() bool { return t.Usage != UserApplications }

// Secret reports whether values of the type, such as userPassword, are never matched or
// normalised, and shown only to those who may see them by name. The type or a supertype
// is defined with X-SECRET 'TRUE'.
func (t *AttributeType) Secret() bool { return t.secret }

// Approx returns the rule of "~=" assertions: the approximate rule for text, otherwise
// the equality rule (RFC 4511, 4.5.1.7.6).
func (t *AttributeType) Approx() *MatchingRule { return t.approx }

// Stored returns those of t and its subtypes whose values are stored in entries.
// Collective subtypes are left out, except if t is collective itself, because subentries
// store these.
func (t *AttributeType) Stored() []*AttributeType { return t.stored }

// Shared returns the collective ones among t and its subtypes. Entries have their values
// from subentries (RFC 3671).
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

// Kind is the kind of an object class (RFC 4512, 2.4).
type Kind uint8

const (
	Abstract Kind = iota
	Structural
	Auxiliary
)

// An ObjectClass is an object class.
type ObjectClass struct {
	OID        string
	Names      []string
	Desc       string
	Obsolete   bool
	Sup        []*ObjectClass
	Kind       Kind
	Must, May  []*AttributeType // its own, without those of superclasses
	Extensions []Extension

	name string
	def  *definition
}

// Name returns the class's short name: its first name, or its OID.
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

// A ContentRule defines what the entries of a structural class may or must have beyond
// their classes (RFC 4512, 4.1.6).
type ContentRule struct {
	Class      *ObjectClass // the rule has its OID
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

// Name returns the rule's first name, or the OID of its class.
func (r *ContentRule) Name() string { return r.name }

// A NameForm defines the RDNs of a structural class (RFC 4512, 4.1.7.2).
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

// Name returns the form's short name: its first name, or its OID.
func (f *NameForm) Name() string { return f.name }

// A StructureRule defines below which entries those of a name form may be (RFC 4512,
// 4.1.7.1).
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

// Name returns the rule's first name, or its number.
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

// Validate checks a value against the syntax. The error describes what is wrong, without
// the attribute's name.
func (x *Syntax) Validate(v []byte) error { return x.validate(x.schema, v) }

// Use is the use of a matching rule.
type Use uint8

const (
	Equality Use = iota
	Ordering
	Substrings
	Approximate
	// Special rules are used in extensible matches only, and decide by Match (bitwise
	// and/or, word and keyword match).
	Special
)

// A MatchingRule is a matching rule (RFC 4512, 4.1.3; RFC 4517, 4).
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

// Name returns the rule's short name: its first name, or its OID.
func (r *MatchingRule) Name() string { return r.name }

// Piece is the kind of a part of a substring assertion.
type Piece uint8

const (
	Initial Piece = iota
	Any
	Final
)
