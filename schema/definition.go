package schema

import (
	"fmt"
	"strconv"
	"strings"
)

// A DefinitionError says which definition is wrong, where and how.
type DefinitionError struct {
	Definition string // its first name or OID, or how it begins
	Offset     int    // byte in the text given; -1: the definition as a whole
	Problem    string
}

func (e *DefinitionError) Error() string {
	if e.Offset < 0 {
		return fmt.Sprintf("definition of %s: %s", e.Definition, e.Problem)
	}
	return fmt.Sprintf("definition of %s, byte %d: %s", e.Definition, e.Offset, e.Problem)
}

// element is the sort of thing a definition defines, by the subschema attribute
// that it is a value of.
type element uint8

const (
	attributeTypes element = iota
	objectClasses
	ldapSyntaxes
	matchingRules
	matchingRuleUse
	numElements
)

var elementNames = [numElements]string{
	"attributeTypes", "objectClasses", "ldapSyntaxes", "matchingRules", "matchingRuleUse",
}

// elementAliases are what schema files call the elements besides.
var elementAliases = map[string]element{
	"attributetypes": attributeTypes, "attributetype": attributeTypes, "olcattributetypes": attributeTypes,
	"objectclasses": objectClasses, "objectclass": objectClasses, "olcobjectclasses": objectClasses,
	"ldapsyntaxes": ldapSyntaxes, "ldapsyntax": ldapSyntaxes, "olcldapsyntaxes": ldapSyntaxes,
	"matchingrules": matchingRules, "matchingrule": matchingRules, "matchingruleuse": matchingRuleUse,
}

// A definition is one parsed definition, its references still names.
type definition struct {
	element element

	oid        string
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
	applies    []string
	extensions []Extension
}

// name is what errors and listings call the definition.
func (d *definition) name() string {
	if len(d.names) > 0 {
		return d.names[0]
	}
	return d.oid
}

// parseLabelled reads "attributeTypes: ( ... )"; the colon may be missing, and
// an index in braces may stand before the parenthesis, as in schema files.
func parseLabelled(text string) (*definition, error) {
	at := strings.IndexByte(text, '(')
	if at < 0 {
		return nil, &DefinitionError{beginning(text), len(text), `no "(" found; write "attributeTypes: ( OID ... )"`}
	}
	label := strings.TrimSpace(text[:at])
	if i := strings.LastIndexByte(label, '{'); i >= 0 && strings.HasSuffix(label, "}") {
		label = strings.TrimSpace(label[:i])
	}
	label = strings.TrimSpace(strings.TrimSuffix(label, ":"))
	e, ok := elementAliases[strings.ToLower(label)]
	if !ok {
		return nil, &DefinitionError{beginning(text), 0, fmt.Sprintf("%q is not one of %s", label, strings.Join(elementNames[:], ", "))}
	}
	return parseAt(e, text, at)
}

// parseDefinition reads one parenthesised definition (RFC 4512, 4.1).
func parseDefinition(e element, text string) (*definition, error) { return parseAt(e, text, 0) }

func parseAt(e element, text string, at int) (*definition, error) {
	p := &parser{text: text, pos: at, def: &definition{element: e, kind: Structural}}
	if err := p.definition(); err != nil {
		return nil, err
	}
	return p.def, nil
}

func beginning(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > 40 {
		text = text[:40] + "..."
	}
	return strconv.Quote(text)
}

// splitDefinitions cuts a schema file into labelled definitions. A "#" begins a
// comment where it is the first thing of a line.
func splitDefinitions(text string) []string {
	var out []string
	var b strings.Builder
	depth, quoted := 0, false
	for line := range strings.Lines(text) {
		if depth == 0 && strings.TrimSpace(line) == "" || strings.HasPrefix(strings.TrimSpace(line), "#") {
			continue
		}
		b.WriteString(line)
		for i := 0; i < len(line); i++ {
			switch c := line[i]; {
			case c == '\'':
				quoted = !quoted
			case c == '(' && !quoted:
				depth++
			case c == ')' && !quoted:
				depth--
			}
		}
		if depth <= 0 {
			out = append(out, b.String())
			b.Reset()
			depth, quoted = 0, false
		}
	}
	if b.Len() > 0 {
		out = append(out, b.String())
	}
	return out
}
