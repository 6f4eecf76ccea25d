package schema

import (
	"embed"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

//go:embed definitions/*.schema
var definitionFiles embed.FS

// Core returns the built-in schema. It contains the definitions of RFC 4512, 4517, 4519 and
// 4524, and of other RFCs such as 2307 and 2798. It also contains those definitions of RFC
// 4523 whose syntaxes the server implements, common definitions of other servers, and this
// server's own definitions. It is for stores that use all codes; see [Schema.WithCodes].
func Core() *Schema { return core() }

var core = sync.OnceValue(func() *Schema {
	s, err := build(coreDefinitions(), Codes())
	if err != nil {
		panic(fmt.Sprintf("schema: built-in definitions: %v", err)) // a test reads all built-in definitions
	}
	return s
})

func coreDefinitions() []*definition {
	var out []*definition
	names, _ := fs.Glob(definitionFiles, "definitions/*.schema")
	for _, name := range names {
		text, err := definitionFiles.ReadFile(name)
		if err != nil {
			panic(err)
		}
		ds, err := ParseFile(name, string(text), Macros{})
		if err != nil {
			panic(fmt.Sprintf("schema: %v", err))
		}
		for _, d := range ds {
			parsed, err := d.parse()
			if err != nil {
				panic(fmt.Sprintf("schema: %v", err))
			}
			out = append(out, parsed)
		}
	}
	return out
}

// Extend adds definitions of the form "attributeTypes: ( ... )" as Change does. It
// ignores a definition if the schema already has a definition with the same meaning.
func (s *Schema) Extend(definitions ...string) (*Schema, error) {
	var add []Definition
	for _, text := range definitions {
		d, err := label(text)
		if err != nil {
			return nil, err
		}
		parsed, err := d.parse()
		if err != nil {
			return nil, err
		}
		if old := s.definition(parsed.element, parsed.oid); old == nil || !strings.EqualFold(s.essence(parsed), s.essence(old)) {
			add = append(add, d)
		}
	}
	return s.Change(add, nil)
}

// Attribute returns the attribute type with the given name (ignoring case) or OID. It
// returns nil if there is none.
func (s *Schema) Attribute(name string) *AttributeType { return find(s.attributeBy, name) }

// Class returns the object class with the given name (ignoring case) or OID. It returns
// nil if there is none.
func (s *Schema) Class(name string) *ObjectClass { return find(s.classBy, name) }

// Rule returns the matching rule with the given name (ignoring case) or OID. It returns
// nil if there is none.
func (s *Schema) Rule(name string) *MatchingRule { return find(s.ruleBy, name) }

// SyntaxOf returns the syntax with the given OID, or nil if there is none.
func (s *Schema) SyntaxOf(oid string) *Syntax { return s.syntaxBy[oid] }

// Subtypes returns t and all types below t.
func (s *Schema) Subtypes(t *AttributeType) []*AttributeType { return s.below[t] }

// Attributes returns all attribute types in the order of definition. Callers must not
// change the slice, nor the slices that similar methods return.
func (s *Schema) Attributes() []*AttributeType { return s.attributes }

// Classes returns all object classes in the order of definition.
func (s *Schema) Classes() []*ObjectClass { return s.classes }

// Rules returns all matching rules in the order of definition.
func (s *Schema) Rules() []*MatchingRule { return s.rules }

// OrderingOf returns the rule that orders values of a type: the type's ordering rule, or
// else the ordering rule that belongs to the type's equality rule. The second case is
// needed for cn and sn, by which people sort, because they are defined without an
// ordering rule (RFC 4519). OrderingOf returns nil if there is no such rule.
func (s *Schema) OrderingOf(t *AttributeType) *MatchingRule {
	if t.Ordering != nil || t.Equality == nil {
		return t.Ordering
	}
	for _, r := range s.rules {
		if r.Use == Ordering && r.Form == t.Equality.Form {
			return r
		}
	}
	return nil
}

// oidOf returns the OID of the class, attribute type or matching rule with the given
// name, or "" if there is none.
func (s *Schema) oidOf(name string) string {
	if c := s.Class(name); c != nil {
		return c.OID
	}
	if t := s.Attribute(name); t != nil {
		return t.OID
	}
	if r := s.Rule(name); r != nil {
		return r.OID
	}
	return ""
}

// NormalizeAVA normalises an attribute value assertion of a name. It returns the code or the OID of
// the type and the key of the value. NormalizeAVA implements the interface Matcher of
// package dn. If a type has no equality rule, the bytes of the value are the key.
func (s *Schema) NormalizeAVA(attribute string, value []byte) (typ string, key []byte, err error) {
	t := s.Attribute(attribute)
	if t == nil {
		return "", nil, fmt.Errorf("unknown attribute type %q", attribute)
	}
	if t.Equality == nil {
		return t.inKeys, value, nil
	}
	key, err = t.Equality.Key(value)
	if err != nil {
		return "", nil, fmt.Errorf("value of %s: %w", t.name, err)
	}
	return t.inKeys, key, nil
}

// formVersion is increased whenever the form of keys changes.
const formVersion = 3

// Version identifies the form of keys, which depends on this package and on the version
// of Unicode. Keys that were made under another version must be rebuilt.
func Version() string {
	return fmt.Sprintf("%d unicode %s/%s", formVersion, strings.TrimSpace(norm.Version), unicode.Version)
}
