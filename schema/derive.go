package schema

import (
	"fmt"
	"slices"
	"strings"
)

// derivedRules marks a type whose matching rules are the default rules of its syntax, because
// no file says which rules the type has.
const derivedRules = "X-DERIVED-RULES"

// defaultRules are the rules that servers apply to a type that names none: the equality, the
// ordering and the substrings rule of its syntax.
type defaultRules struct{ equality, ordering, substr string }

var (
	ignoringCase = defaultRules{"caseIgnoreMatch", "caseIgnoreOrderingMatch", "caseIgnoreSubstringsMatch"}
	respectCase  = defaultRules{"caseExactMatch", "caseExactOrderingMatch", "caseExactSubstringsMatch"}
	octets       = defaultRules{equality: "octetStringMatch"}
)

// rulesOf maps syntaxes to their default rules. Strings ignore case, except IA5 strings, as in
// the syntax plug-ins of 389 Directory Server. A value of a syntax that is not listed is
// compared octet by octet.
var rulesOf = map[string]defaultRules{
	syntaxDirectoryString:    ignoringCase,
	syntaxPrintableString:    ignoringCase,
	syntaxCountryString:      ignoringCase,
	syntaxDeliveryMethod:     ignoringCase,
	syntaxOtherMailbox:       ignoringCase,
	syntaxTelexNumber:        ignoringCase,
	syntaxFacsimile:          ignoringCase,
	syntaxTeletex:            ignoringCase,
	syntaxADCaseIgnore:       ignoringCase,
	syntaxADCaseExact:        respectCase,
	syntaxIA5String:          {"caseExactIA5Match", "caseExactOrderingMatch", "caseExactIA5SubstringsMatch"},
	syntaxPostalAddress:      {equality: "caseIgnoreListMatch", substr: "caseIgnoreListSubstringsMatch"},
	syntaxNumericString:      {"numericStringMatch", "numericStringOrderingMatch", "numericStringSubstringsMatch"},
	syntaxTelephoneNumber:    {equality: "telephoneNumberMatch", substr: "telephoneNumberSubstringsMatch"},
	syntaxInteger:            {equality: "integerMatch", ordering: "integerOrderingMatch"},
	syntaxADLargeInteger:     {equality: "integerMatch", ordering: "integerOrderingMatch"},
	syntaxGeneralizedTime:    {equality: "generalizedTimeMatch", ordering: "generalizedTimeOrderingMatch"},
	syntaxBoolean:            {equality: "booleanMatch"},
	syntaxBitString:          {equality: "bitStringMatch"},
	syntaxDN:                 {equality: "distinguishedNameMatch"},
	syntaxNameAndOptionalUID: {equality: "uniqueMemberMatch"},
	syntaxOID:                {equality: "objectIdentifierMatch"},
	syntaxUUID:               {equality: "uuidMatch", ordering: "uuidOrderingMatch"},
	syntaxOctetString:        {equality: "octetStringMatch", ordering: "octetStringOrderingMatch"},
	syntaxAttributeType:      {equality: "objectIdentifierFirstComponentMatch"},
	syntaxObjectClass:        {equality: "objectIdentifierFirstComponentMatch"},
	syntaxMatchingRule:       {equality: "objectIdentifierFirstComponentMatch"},
	syntaxMatchingRuleUse:    {equality: "objectIdentifierFirstComponentMatch"},
	syntaxLDAPSyntax:         {equality: "objectIdentifierFirstComponentMatch"},
	syntaxDITContentRule:     {equality: "objectIdentifierFirstComponentMatch"},
	syntaxNameForm:           {equality: "objectIdentifierFirstComponentMatch"},
	syntaxDITStructureRule:   {equality: "integerFirstComponentMatch"},
}

// derive adds the default rules of its syntax to a type, in place of the rules that the type
// lacks, and marks the type. A type with an EQUALITY or a supertype stays as it is: its rules
// are complete, or inherited.
func (d *definition) derive() {
	if d.element != attributeTypes || d.equality != "" || len(d.sup) > 0 || d.syntax == "" {
		return
	}
	rules, ok := rulesOf[d.syntax]
	if !ok {
		rules = octets
	}
	d.equality = rules.equality
	if d.ordering == "" {
		d.ordering = rules.ordering
	}
	if d.substr == "" {
		d.substr = rules.substr
	}
	d.extensions = append(d.extensions, Extension{derivedRules, []string{"TRUE"}})
}

// improve takes the matching rules of d over into another definition t of the same type, where the type
// has none, or only derived ones. It returns false if there is nothing to improve.
func (m *merger) improve(t, d *definition) bool {
	if builtIn(t) || d.says(derivedRules) && m.effective(t).equality != "" {
		return false
	}
	before, derived := *t, t.says(derivedRules)
	if derived && d.equality != "" {
		t.equality, t.ordering, t.substr = "", "", ""
		t.extensions = slices.DeleteFunc(slices.Clone(t.extensions), func(x Extension) bool { return x.Name == derivedRules })
	}
	has := m.effective(t)
	for _, x := range []struct {
		to        *string
		has, from string
	}{{&t.equality, has.equality, d.equality}, {&t.ordering, has.ordering, d.ordering}, {&t.substr, has.substr, d.substr}} {
		if x.has == "" {
			*x.to = x.from
		}
	}
	if d.says(derivedRules) {
		t.extensions = append(slices.Clone(t.extensions), Extension{derivedRules, []string{"TRUE"}})
	}
	return before.equality != t.equality || before.ordering != t.ordering || before.substr != t.substr
}

// noteDerived adds one note about all types with derived rules.
func (m *merger) noteDerived() {
	if n := len(m.derived); n > 0 {
		m.notes = append(m.notes, fmt.Sprintf("%d types name no matching rules and get the default rules of their syntax, as on the server that they come from: %s", n, few(m.derived)))
	}
}

// few returns the first of some names, and how many more there are.
func few(names []string) string {
	const most = 12
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// A collision is an attribute of another server that has the OID of an attribute that is
// something else.
type collision struct{ oid, name string }

// collisions maps known collisions to the OIDs that the attributes get here. Active Directory
// gives these attributes OIDs that Netscape had given to others.
var collisions = map[collision]struct{ oid, of string }{
	{"2.16.840.1.113730.3.1.34", "middlename"}:     {"2.25.70834316917231583961548207316250917384", "ref (RFC 3296)"},
	{"2.16.840.1.113730.3.1.35", "thumbnailphoto"}: {"2.25.126093570411851672299034518863374150296", "changelog of cn=changelog"},
}

// separate replaces the OID of a type with a known collision.
func (m *merger) separate(d *definition) {
	if d.element != attributeTypes {
		return
	}
	for _, name := range d.names {
		if own, is := collisions[collision{d.oid, strings.ToLower(name)}]; is {
			m.note(d, "its OID %s is that of %s, so it gets the OID %s here", d.oid, own.of, own.oid)
			d.oid = own.oid
			return
		}
	}
}

// stranger returns an error if d has the OID of old, but no name of it and another meaning. If
// the meaning is the same, it adds a note.
func (m *merger) stranger(old, d *definition, what string) error {
	if len(d.names) == 0 || len(old.names) == 0 || slices.ContainsFunc(d.names, old.called) {
		return nil
	}
	if what != "" {
		return d.fail("its OID %s is that of %s, whose %s is another one: give it an OID of its own in the file", d.oid, old.name(), what)
	}
	m.note(d, "it is %s, which has the same OID, and becomes another name of it", old.name())
	return nil
}
