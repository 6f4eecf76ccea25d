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

// Core returns the built-in schema: RFC 4512, 4517, 4519, 4523 where syntaxes
// allow, 4524, 2798, 2307, 3672, 4530, 5020 and what servers share besides.
func Core() *Schema { return core() }

var core = sync.OnceValue(func() *Schema {
	s, err := build(coreDefinitions())
	if err != nil {
		panic(fmt.Sprintf("schema: built-in definitions: %v", err)) // a test reads them all
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

// Extend is Change for definitions written as "attributeTypes: ( ... )", of which
// those that mean what is there already are passed over.
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

// Attribute finds an attribute type by name or OID, any case; nil if unknown.
func (s *Schema) Attribute(name string) *AttributeType { return s.attributeBy.find(name) }

// Class finds an object class by name or OID, any case; nil if unknown.
func (s *Schema) Class(name string) *ObjectClass { return s.classBy.find(name) }

// Rule finds a matching rule by name or OID, any case; nil if unknown.
func (s *Schema) Rule(name string) *MatchingRule { return s.ruleBy.find(name) }

// SyntaxOf finds a syntax by OID; nil if unknown.
func (s *Schema) SyntaxOf(oid string) *Syntax { return s.syntaxBy[oid] }

// Subtypes lists t and every type below it.
func (s *Schema) Subtypes(t *AttributeType) []*AttributeType { return s.below[t] }

// Attributes lists all attribute types in the order of their definition. As
// with the other lists, the slice is the schema's own.
func (s *Schema) Attributes() []*AttributeType { return s.attributes }

// Classes lists all object classes in the order of their definition.
func (s *Schema) Classes() []*ObjectClass { return s.classes }

// Rules lists all matching rules in the order of their definition.
func (s *Schema) Rules() []*MatchingRule { return s.rules }

// oidOf finds the OID of whatever has the name; "" if nothing has.
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

// NormalizeAVA returns an attribute value assertion of a name its OID and key:
// what package dn calls a Matcher. Types without an equality rule compare by
// their bytes.
func (s *Schema) NormalizeAVA(attribute string, value []byte) (oid string, key []byte, err error) {
	t := s.Attribute(attribute)
	if t == nil {
		return "", nil, fmt.Errorf("unknown attribute type %q", attribute)
	}
	if t.Equality == nil {
		return t.OID, value, nil
	}
	key, err = t.Equality.Key(value)
	if err != nil {
		return "", nil, fmt.Errorf("value of %s: %w", t.name, err)
	}
	return t.OID, key, nil
}

// formVersion counts changes of what keys look like.
const formVersion = 3

// Version names the normal forms: format and Unicode version. Keys made under
// another version must be rebuilt.
func Version() string {
	return fmt.Sprintf("%d unicode %s/%s", formVersion, strings.TrimSpace(norm.Version), unicode.Version)
}
