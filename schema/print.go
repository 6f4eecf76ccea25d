package schema

import (
	"strconv"
	"strings"
)

// Definitions returns the values of an attribute of the subschema subentry:
// attributeTypes, objectClasses, dITContentRules, nameForms, dITStructureRules,
// ldapSyntaxes, matchingRules or matchingRuleUse (RFC 4512, 4.2).
func (s *Schema) Definitions(attribute string) []string {
	for e, name := range elementNames {
		if strings.EqualFold(name, attribute) {
			return s.printed[e]
		}
	}
	return nil
}

func (b *builder) print() {
	for _, i := range superiorsFirst(b.definitions) { // some clients read them in their order
		if d := b.definitions[i]; d.element != matchingRuleUse {
			b.printed[d.element] = append(b.printed[d.element], d.String())
		}
	}
	for _, r := range b.rules {
		if d := b.useOf(r); len(d.applies) > 0 {
			b.printed[matchingRuleUse] = append(b.printed[matchingRuleUse], d.String())
		}
	}
}

// useOf returns a rule's matching rule use: the list of the types that the rule applies
// to (RFC 4512, 4.1.4).
func (b *builder) useOf(r *MatchingRule) *definition {
	d := &definition{element: matchingRuleUse, oid: r.OID, names: r.Names, desc: r.Desc, obsolete: r.Obsolete}
	for _, t := range b.attributes {
		if r.AppliesTo(t) {
			d.applies = append(d.applies, t.name)
		}
	}
	return d
}

// String returns the text of the definition, with its terms in the order of RFC 4512,
// 4.1.
func (d *definition) String() string {
	p := printer{}
	p.WriteString("( " + d.oid)
	p.list("NAME", d.names, quote, " ")
	if d.desc != "" {
		p.word("DESC", quote(d.desc))
	}
	p.flag("OBSOLETE", d.obsolete)
	p.word("OC", d.class)
	p.word("FORM", d.form)
	p.list("SUP", d.sup, asIs, d.supSeparator())
	p.flag([...]string{Abstract: "ABSTRACT", Structural: "STRUCTURAL", Auxiliary: "AUXILIARY"}[d.kind], d.element == objectClasses)
	p.word("EQUALITY", d.equality)
	p.word("ORDERING", d.ordering)
	p.word("SUBSTR", d.substr)
	if d.maxLen > 0 {
		p.word("SYNTAX", d.syntax+"{"+strconv.Itoa(d.maxLen)+"}")
	} else {
		p.word("SYNTAX", d.syntax)
	}
	p.flag("SINGLE-VALUE", d.single)
	p.flag("COLLECTIVE", d.collective)
	p.flag("NO-USER-MODIFICATION", d.noUserMod)
	if d.usage != UserApplications {
		p.word("USAGE", usageNames[d.usage])
	}
	p.list("AUX", d.aux, asIs, " $ ")
	p.list("MUST", d.must, asIs, " $ ")
	p.list("MAY", d.may, asIs, " $ ")
	p.list("NOT", d.not, asIs, " $ ")
	p.list("APPLIES", d.applies, asIs, " $ ")
	for _, x := range d.extensions {
		p.extension(x)
	}
	p.WriteString(" )")
	return p.String()
}

// supSeparator returns the separator between superiors. The numbers of superior rules are
// separated by spaces (RFC 4512, 4.1.7.1), other superiors by "$".
func (d *definition) supSeparator() string {
	if d.element == dITStructureRules {
		return " "
	}
	return " $ "
}

type printer struct{ strings.Builder }

func asIs(s string) string { return s }

func quote(s string) string { return "'" + quotedEscaper.Replace(s) + "'" }

func (p *printer) word(keyword, value string) {
	if value != "" {
		p.WriteString(" " + keyword + " " + value)
	}
}

func (p *printer) flag(keyword string, set bool) {
	if set {
		p.WriteString(" " + keyword)
	}
}

func (p *printer) list(keyword string, values []string, show func(string) string, separator string) {
	switch len(values) {
	case 0:
		return
	case 1:
		p.word(keyword, show(values[0]))
		return
	}
	p.WriteString(" " + keyword + " ( ")
	for i, v := range values {
		if i > 0 {
			p.WriteString(separator)
		}
		p.WriteString(show(v))
	}
	p.WriteString(" )")
}

func (p *printer) extension(x Extension) {
	if len(x.Values) == 0 {
		p.WriteString(" " + x.Name + " ( )")
		return
	}
	p.list(x.Name, x.Values, quote, " ")
}
