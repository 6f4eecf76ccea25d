package schema

import "bytes"

// Usage is the usage of an attribute type (RFC 4512, 4.1.2).
type Usage uint8

const (
	UserApplications Usage = iota
	DirectoryOperation
	DistributedOperation
	DSAOperation
)

// Extension is an X- term of a definition. The schema keeps and publishes it unchanged.
type Extension struct {
	Name   string
	Values []string
}

// An AttributeType is an attribute type. Its fields include the properties that the type
// inherits from its supertype.
type AttributeType struct {
	OID                string
	Names              []string
	Desc               string
	Obsolete           bool
	Sup                *AttributeType
	Equality           *MatchingRule // nil: the type has no equality rule
	Ordering           *MatchingRule
	Substr             *MatchingRule
	Syntax             *Syntax
	MaxLen             int // length in the SYNTAX term; 0: no length
	SingleValue        bool
	Collective         bool
	NoUserModification bool
	Usage              Usage
	Extensions         []Extension

	name string // the first of Names, or OID
	sent string // see SentName

	inValues, inKeys string // see InValues and InKeys
	nameRank         int    // see NameRank
	keyless          bool   // see Keyless

	secret bool
	stored []*AttributeType
	shared []*AttributeType
	approx *MatchingRule
	def    *definition
}

// Name returns the short name of the type: its first name, or its OID if it has no name.
func (t *AttributeType) Name() string { return t.name }

// NameRank returns how many types of the schema have names that sort before that of t.
func (t *AttributeType) NameRank() int { return t.nameRank }

// SentName returns the short name with which values are sent to clients and written to
// files. The short name includes the option binary if the syntax of the type requires the
// option for the transfer of values (RFC 4522, section 3; RFC 4523, section 2.1).
func (t *AttributeType) SentName() string { return t.sent }

// SameValue reports whether two values are equal by the equality rule of the type, or
// have equal octets if the type has no equality rule. A value that breaks its syntax
// equals only itself.
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

// Operational reports whether values of the type are for the use of the directory itself.
// Such values are returned to clients only if requested by name or by "+".
func (t *AttributeType) Operational() bool { return t.Usage != UserApplications }

// Secret reports whether the type is secret, like userPassword. Filters never match values of
// a secret type. An identity other than the administrator can read these values only if an
// access rule names the type. A type is secret if its definition, or the definition of a
// supertype, contains X-SECRET 'TRUE'. The types in secretTypes, and their subtypes, are
// always secret.
func (t *AttributeType) Secret() bool { return t.secret }

// Approx returns the rule for "~=" assertions: the approximate rule if values of the type
// are text, and otherwise the equality rule (RFC 4511, 4.5.1.7.6).
func (t *AttributeType) Approx() *MatchingRule { return t.approx }

// Stored returns t and its subtypes. If t is not collective, Stored leaves out collective
// subtypes, because their values are stored in subentries and not in the entries that have
// them.
func (t *AttributeType) Stored() []*AttributeType { return t.stored }

// Shared returns the collective types among t and its subtypes. Entries get the values of
// these types from subentries (RFC 3671).
func (t *AttributeType) Shared() []*AttributeType { return t.shared }

// Is reports whether t is super or a subtype of super.
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

// An ObjectClass is an object class of a schema.
type ObjectClass struct {
	OID        string
	Names      []string
	Desc       string
	Obsolete   bool
	Sup        []*ObjectClass
	Kind       Kind
	Must, May  []*AttributeType // without the types of superclasses
	Extensions []Extension

	name string
	def  *definition
}

// Name returns the short name of the class: its first name, or its OID if it has no name.
func (c *ObjectClass) Name() string { return c.name }

// Is reports whether c is super or a subclass of super.
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

// A ContentRule is a DIT content rule. It defines which auxiliary classes the entries of a
// structural class may have (RFC 4512, 4.1.6). The rule also says which attributes these
// entries may, must or must not have, in addition to what their classes say.
type ContentRule struct {
	Class      *ObjectClass // the OID of the rule is the OID of this class
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

// Name returns the first name of the rule, or the OID of its class if the rule has no
// name.
func (r *ContentRule) Name() string { return r.name }

// A NameForm defines the RDNs that entries of a structural class may have (RFC 4512,
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

// Name returns the short name of the form: its first name, or its OID if it has no name.
func (f *NameForm) Name() string { return f.name }

// A StructureRule restricts the superiors that the entries of a name form may have (RFC
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

// Name returns the first name of the rule, or its number if the rule has no name.
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

// Validate returns an error if v breaks the syntax. The error does not contain the name
// of an attribute.
func (x *Syntax) Validate(v []byte) error { return x.validate(x.schema, v) }

// Use is the kind of assertion that a matching rule is for.
type Use uint8

const (
	Equality Use = iota
	Ordering
	Substrings
	Approximate
	// Special rules are used only in extensible matches: bitwise and/or, word match,
	// keyword match and in-chain. Each has its own MatchingRule.Match.
	Special
)

// A MatchingRule is a matching rule of a schema (RFC 4512, 4.1.3; RFC 4517, 4).
type MatchingRule struct {
	OID        string
	Names      []string
	Desc       string
	Obsolete   bool
	Syntax     *Syntax // the syntax of assertions
	Use        Use
	Form       *Form
	Extensions []Extension

	name   string
	does   *behaviour
	schema *Schema
	def    *definition
}

// Name returns the short name of the rule: its first name, or its OID if it has no name.
func (r *MatchingRule) Name() string { return r.name }

// Piece is the kind of a piece in a substring assertion.
type Piece uint8

const (
	Initial Piece = iota
	Any
	Final
)
