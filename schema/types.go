package schema

import "errors"

// errStub marks what is still to be written.
var errStub = errors.New("schema: not written yet")

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

	name string // Names[0], or OID
}

// Name is the type's short name: its first name, or its OID.
func (t *AttributeType) Name() string { return t.name }

// Operational reports whether the type is for the directory's own use: sent
// only when asked for by name or "+".
func (t *AttributeType) Operational() bool { return t.Usage != UserApplications }

// Secret reports whether values of the type are never matched, normalised nor
// shown to anyone but those who may by name: userPassword and its like.
func (t *AttributeType) Secret() bool { panic(errStub) }

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
}

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

// A Syntax is an LDAP syntax (RFC 4517, 3.3).
type Syntax struct {
	OID        string
	Desc       string
	Extensions []Extension

	validate func(s *Schema, v []byte) error
	schema   *Schema
}

// Validate checks a value against the syntax. The error says what is wrong,
// without the attribute's name.
func (x *Syntax) Validate(v []byte) error { panic(errStub) }

// Use of a matching rule.
type Use uint8

const (
	Equality Use = iota
	Ordering
	Substrings
	Approximate
	// Special rules are used in extensible matches only and decide by Match
	// (bitwise and/or, word and keyword match, first components...).
	Special
)

// A Form is a way to turn values into keys. Rules with the same Form pointer
// share keys.
type Form struct{ Name string }

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

	name string
}

func (r *MatchingRule) Name() string { return r.name }

// Key normalises an attribute value: values are equal under the rule's form
// exactly when their keys are. The result may share v's bytes.
func (r *MatchingRule) Key(v []byte) ([]byte, error) { panic(errStub) }

// Assertion normalises an assertion value of the rule: an equality rule
// matches when Key(value) equals it, an ordering rule when Key(value) is
// smaller (RFC 4517, 4.2). An error means that the assertion breaks its syntax
// (Undefined in a filter).
func (r *MatchingRule) Assertion(a []byte) ([]byte, error) { panic(errStub) }

// Piece is a part of a substring assertion.
type Piece uint8

const (
	Initial Piece = iota
	Any
	Final
)

// Piece normalises one piece of a substring assertion (RFC 4518, 2.6): the
// assertion matches when the pieces stand in Key(value) one after the other,
// the initial one at its start, the final one at its end. A piece of nothing
// but insignificant characters may come back empty.
func (r *MatchingRule) Piece(k Piece, b []byte) ([]byte, error) { panic(errStub) }

// Match decides a value's key against a normalised assertion, for extensible
// matches: equal, smaller (Ordering), or as a Special rule says. A Substrings
// rule has an assertion of the form initial*any*final (RFC 4517, 3.3.30).
func (r *MatchingRule) Match(key, assertion []byte) bool { panic(errStub) }

// AppliesTo reports whether the rule can be used with values of t: the rule's
// form takes t's syntax (RFC 4512, 4.1.4, matching rule use).
func (r *MatchingRule) AppliesTo(t *AttributeType) bool { panic(errStub) }

// A Schema is a set of definitions, complete and consistent.
type Schema struct{}

// Core gives the built-in schema: RFC 4512, 4517, 4519, 4523 where syntaxes
// allow, 4524, 2798, 2307, 3672, 4530, 5020 and what servers share besides.
func Core() *Schema { panic(errStub) }

// Extend makes a schema with more definitions. lines are attribute types,
// object classes, ... each as "attributeTypes: ( ... )"; the error names the
// definition.
func (s *Schema) Extend(definitions ...string) (*Schema, error) { panic(errStub) }

// Attribute finds an attribute type by name or OID, any case; nil if unknown.
func (s *Schema) Attribute(name string) *AttributeType { panic(errStub) }

// Class finds an object class by name or OID, any case; nil if unknown.
func (s *Schema) Class(name string) *ObjectClass { panic(errStub) }

// Rule finds a matching rule by name or OID, any case; nil if unknown.
func (s *Schema) Rule(name string) *MatchingRule { panic(errStub) }

// SyntaxOf finds a syntax by OID; nil if unknown.
func (s *Schema) SyntaxOf(oid string) *Syntax { panic(errStub) }

// Subtypes lists t and every type below it.
func (s *Schema) Subtypes(t *AttributeType) []*AttributeType { panic(errStub) }

// Attributes lists all attribute types in the order of their definition.
func (s *Schema) Attributes() []*AttributeType { panic(errStub) }

// Definitions gives the subschema's values of attributeTypes, objectClasses,
// ldapSyntaxes, matchingRules or matchingRuleUse (RFC 4512, 4.2).
func (s *Schema) Definitions(attribute string) []string { panic(errStub) }

// NormalizeAVA gives an attribute value assertion of a name its OID and key:
// what package dn calls a Matcher. Types without an equality rule compare by
// their bytes.
func (s *Schema) NormalizeAVA(attribute string, value []byte) (oid string, key []byte, err error) {
	panic(errStub)
}

// Version names the normal forms: format and Unicode version. Keys made under
// another version must be rebuilt.
func Version() string { panic(errStub) }
