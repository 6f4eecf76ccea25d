package schema

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A Definition is one value of one of the subschema's attributes: attributeTypes
// and "( 2.5.4.3 NAME 'cn' SUP name )".
type Definition struct {
	Attribute string // or another name from schema files: attributetype, olcAttributeTypes
	Text      string
	Source    string // origin for errors: "core.schema:12"; may be empty
}

// parse parses the definition. An error has the definition's Source.
func (d Definition) parse() (*definition, error) {
	e, ok := elementAliases[strings.ToLower(d.Attribute)]
	if !ok {
		return nil, &DefinitionError{Definition: beginning(d.Text), Source: d.Source, Offset: -1,
			Problem: fmt.Sprintf("%q is not one of %s", d.Attribute, strings.Join(elementNames[:], ", "))}
	}
	parsed, err := parseDefinition(e, d.Text)
	if err != nil {
		return nil, from(d.Source, err)
	}
	parsed.source = d.Source
	return parsed, nil
}

// WithoutOrder removes the index of a value in an ordered attribute, "{3}", as in slapd's
// configuration (X-ORDERED). The order of definitions has no meaning here.
func WithoutOrder(v string) string {
	v = strings.TrimSpace(v)
	rest, is := strings.CutPrefix(v, "{")
	if !is {
		return v
	}
	number, rest, is := strings.Cut(rest, "}")
	if !is || number == "" || strings.Trim(number, "0123456789") != "" {
		return v
	}
	return strings.TrimSpace(rest)
}

// Called returns the OID (for a DIT structure rule, the number) and the names in the
// definition, or nothing if it is malformed.
func (d Definition) Called() (oid string, names []string) {
	parsed, err := d.parse()
	if err != nil {
		return "", nil
	}
	return parsed.oid, slices.Clone(parsed.names)
}

// from sets the source of a DefinitionError that has none.
func from(source string, err error) error {
	if e, ok := err.(*DefinitionError); ok && e.Source == "" {
		e.Source = source
	}
	return err
}

// Fault is the kind of an error of a definition, for result codes.
type Fault uint8

const (
	Malformed Fault = iota // by RFC 4512, 4.1
	Conflict               // with other definitions; they may lack what it refers to
	Exists                 // its OID or a name is taken
	Missing                // the definition to be removed is missing
	InUse                  // by another definition, or by the server itself
)

// A DefinitionError describes which definition is wrong, where and how.
type DefinitionError struct {
	Definition string // its first name or OID, or its beginning
	Source     string // of the Definition
	Offset     int    // byte in the given text; -1: the definition as a whole
	Problem    string
	Fault      Fault
}

func (e *DefinitionError) Error() string {
	source, at := "", ""
	if e.Source != "" {
		source = e.Source + ": "
	}
	if e.Offset >= 0 {
		at = fmt.Sprintf(", byte %d", e.Offset)
	}
	return fmt.Sprintf("%sdefinition of %s%s: %s", source, e.Definition, at, e.Problem)
}

// element is the kind of a definition, by the subschema attribute that it is a value of.
type element uint8

const (
	attributeTypes element = iota
	objectClasses
	dITContentRules
	nameForms
	dITStructureRules
	ldapSyntaxes
	matchingRules
	matchingRuleUse
	numElements
)

var elementNames = [numElements]string{
	"attributeTypes", "objectClasses", "dITContentRules", "nameForms", "dITStructureRules",
	"ldapSyntaxes", "matchingRules", "matchingRuleUse",
}

// elementAliases are further names for the elements in schema files.
var elementAliases = map[string]element{
	"attributetypes": attributeTypes, "attributetype": attributeTypes, "attributeype": attributeTypes, // the misspelling is in OpenLDAP's dsee.schema
	"olcattributetypes": attributeTypes,
	"objectclasses":     objectClasses, "objectclass": objectClasses, "olcobjectclasses": objectClasses,
	"ditcontentrules": dITContentRules, "ditcontentrule": dITContentRules, "olcditcontentrules": dITContentRules,
	"nameforms": nameForms, "nameform": nameForms,
	"ditstructurerules": dITStructureRules, "ditstructurerule": dITStructureRules,
	"ldapsyntaxes": ldapSyntaxes, "ldapsyntax": ldapSyntaxes, "olcldapsyntaxes": ldapSyntaxes,
	"matchingrules": matchingRules, "matchingrule": matchingRules, "matchingruleuse": matchingRuleUse,
}

// A definition is one parsed definition. Its references are still names.
type definition struct {
	element element
	source  string // of its Definition

	oid        string // the number of a DIT structure rule
	names      []string
	desc       string
	obsolete   bool
	sup        []string
	equality   string
	ordering   string
	substr     string
	syntax     string
	maxLen     int
	single     bool
	collective bool
	noUserMod  bool
	usage      Usage
	kind       Kind
	must, may  []string
	aux, not   []string
	form       string // of a DIT structure rule
	class      string // of a name form
	applies    []string
	extensions []Extension
}

// name returns the name of the definition in errors and listings.
func (d *definition) name() string {
	if len(d.names) > 0 {
		return d.names[0]
	}
	return d.oid
}

// parseDefinition parses one parenthesised definition (RFC 4512, 4.1).
func parseDefinition(e element, text string) (*definition, error) {
	p := &parser{text: text, def: &definition{element: e, kind: Structural}}
	if err := p.definition(); err != nil {
		return nil, err
	}
	return p.def, nil
}

func malformed(text string, at int, problem string) error {
	return &DefinitionError{Definition: beginning(text), Offset: at, Problem: problem}
}

func beginning(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > 40 {
		text = text[:40] + "..."
	}
	return strconv.Quote(text)
}
