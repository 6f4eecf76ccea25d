package schema

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A Definition is one value of an attribute of the subschema subentry. For instance, the
// Attribute is attributeTypes and the Text is "( 2.5.4.3 NAME 'cn' SUP name )".
type Definition struct {
	Attribute string // may also be a name used in schema files: attributetype, olcAttributeTypes
	Text      string
	Source    string // origin, for errors: "core.schema:12"; may be empty
	// Derive is set if the definition comes from a server that derives the matching rules that a
	// type does not name from the type's syntax. Merge then does the same. It also lets the
	// definition override an earlier one of the same files, as such servers do.
	Derive bool
}

// parse parses the definition. An error contains the Source of d.
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

// WithoutOrder removes the index of a value, such as "{3}", in an ordered attribute of
// slapd's configuration (X-ORDERED).
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

// Called returns the OID and the names in the definition. For a DIT structure rule, oid
// is the number of the rule. If the definition is malformed, Called returns "" and no
// names.
func (d Definition) Called() (oid string, names []string) {
	parsed, err := d.parse()
	if err != nil {
		return "", nil
	}
	return parsed.oid, slices.Clone(parsed.names)
}

// The function "from" sets the source of a DefinitionError that has no source.
func from(source string, err error) error {
	if e, ok := err.(*DefinitionError); ok && e.Source == "" {
		e.Source = source
	}
	return err
}

// Fault is the kind of an error in a definition. It determines the LDAP result code.
type Fault uint8

const (
	Malformed Fault = iota // the definition does not have the form of RFC 4512, 4.1
	// the definition contradicts itself or another definition, or refers to something missing
	Conflict
	Exists  // the OID or a name is already in use
	Missing // the definition to remove does not exist
	InUse   // another definition or the server needs the definition to remove
)

// A DefinitionError reports which definition is wrong, where and how.
type DefinitionError struct {
	Definition string // the first name or OID of the definition, or the beginning of its text
	Source     string // the Source of the Definition
	Offset     int    // byte in the text of the definition; -1: the error is about the whole definition
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

// element is the kind of a definition. Each kind is identified by the subschema attribute
// that has the definitions of the kind as values.
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

// elementAliases maps the names of elements in schema files to the elements.
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

// A definition is a parsed definition. References to other definitions are not resolved.
type definition struct {
	element element
	source  string // the Source of the Definition

	oid        string // for a DIT structure rule: its number
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
	form       string // name form of a DIT structure rule
	class      string // structural class of a name form
	applies    []string
	extensions []Extension
}

// name returns the name of the definition for errors and lists: its first name, or its
// OID if it has no name.
func (d *definition) name() string {
	if len(d.names) > 0 {
		return d.names[0]
	}
	return d.oid
}

// parseDefinition parses one definition in parentheses (RFC 4512, 4.1).
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
