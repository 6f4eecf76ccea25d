package schemafile

import (
	"strings"

	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/schema"
)

// metaElements maps the object classes of ApacheDS's schema entries to the subschema
// attributes whose values define the same elements (RFC 4512, 4.2). The classes
// metaSyntaxChecker, metaComparator and metaNormalizer are not included, because their
// entries contain Java code.
var metaElements = map[string]string{
	"metaattributetype":    "attributeTypes",
	"metaobjectclass":      "objectClasses",
	"metasyntax":           "ldapSyntaxes",
	"metamatchingrule":     "matchingRules",
	"metanameform":         "nameForms",
	"metaditcontentrule":   "dITContentRules",
	"metaditstructurerule": "dITStructureRules",
}

// fromMeta returns the definition that an ApacheDS entry contains. It returns false if
// the entry contains no definition.
func fromMeta(as []op.PartialAttribute) (schema.Definition, bool) {
	m := meta{}
	for _, a := range as {
		m[strings.ToLower(a.Description)] = a.Values
	}
	for _, class := range m["objectclass"] {
		if element, is := metaElements[strings.ToLower(string(class))]; is {
			return schema.Definition{Attribute: element, Text: m.definition(element)}, true
		}
	}
	return schema.Definition{}, false
}

// meta is an ApacheDS entry that defines an element. It maps attribute descriptions, in
// lower case, to the entry's values.
type meta map[string][][]byte

// definition returns the definition of the element in the form of RFC 4512.
func (m meta) definition(element string) string {
	var b strings.Builder
	b.WriteString("( " + m.one("m-oid") + m.one("m-ruleid"))
	m.strings(&b, "NAME", "m-name")
	m.strings(&b, "DESC", "m-description")
	m.flag(&b, "OBSOLETE", "m-obsolete")
	m.word(&b, "SUP", "m-supattributetype")
	m.oids(&b, "SUP", "m-supobjectclass")
	m.oids(&b, "SUP", "m-supditstructureruleid")
	m.oids(&b, "SUP", "m-supditstructurerule")
	m.word(&b, "", "m-typeobjectclass")
	m.word(&b, "EQUALITY", "m-equality")
	m.word(&b, "ORDERING", "m-ordering")
	m.word(&b, "SUBSTR", "m-substr")
	m.syntax(&b)
	m.flag(&b, "SINGLE-VALUE", "m-singlevalue")
	m.flag(&b, "COLLECTIVE", "m-collective")
	m.flag(&b, "NO-USER-MODIFICATION", "m-nousermodification")
	m.usage(&b)
	m.word(&b, "OC", "m-oc")
	m.word(&b, "FORM", "m-form")
	m.oids(&b, "AUX", "m-aux")
	m.oids(&b, "MUST", "m-must")
	m.oids(&b, "MAY", "m-may")
	m.oids(&b, "NOT", "m-not")
	b.WriteString(" )")
	return b.String()
}

func (m meta) one(attribute string) string {
	if vs := m[attribute]; len(vs) > 0 {
		return string(vs[0])
	}
	return ""
}

var quoter = strings.NewReplacer(`\`, `\5C`, "'", `\27`)

func (m meta) strings(b *strings.Builder, keyword, attribute string) {
	vs := m[attribute]
	if len(vs) == 0 {
		return
	}
	b.WriteString(" " + keyword)
	if keyword == "DESC" {
		vs = vs[:1]
	} else {
		b.WriteString(" (")
		defer b.WriteString(" )")
	}
	for _, v := range vs {
		b.WriteString(" '" + quoter.Replace(string(v)) + "'")
	}
}

func (m meta) flag(b *strings.Builder, keyword, attribute string) {
	if strings.EqualFold(m.one(attribute), "TRUE") {
		b.WriteString(" " + keyword)
	}
}

func (m meta) word(b *strings.Builder, keyword, attribute string) {
	if v := m.one(attribute); v != "" {
		b.WriteString(" " + keyword + " " + v)
	}
}

func (m meta) oids(b *strings.Builder, keyword, attribute string) {
	if len(m[attribute]) == 0 {
		return
	}
	b.WriteString(" " + keyword + " (")
	for _, v := range m[attribute] {
		b.WriteString(" " + string(v))
	}
	b.WriteString(" )")
}

func (m meta) syntax(b *strings.Builder) {
	m.word(b, "SYNTAX", "m-syntax")
	if n := m.one("m-length"); n != "" && n != "0" {
		b.WriteString("{" + n + "}")
	}
}

// usage writes the usage without underscores: DIRECTORY_OPERATION becomes
// DIRECTORYOPERATION, which package schema reads like directoryOperation.
func (m meta) usage(b *strings.Builder) {
	if u := m.one("m-usage"); u != "" {
		b.WriteString(" USAGE " + strings.ReplaceAll(u, "_", ""))
	}
}
