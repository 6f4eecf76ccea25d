package schema

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCore(t *testing.T) {
	s := Core()
	if s != Core() {
		t.Error("Core gives another schema each time")
	}
	for _, d := range s.definitions {
		checkRoundTrip(t, d)
	}
	for _, a := range s.Attributes() {
		if a.Syntax == nil {
			t.Errorf("%s has no syntax", a.Name())
		}
		for _, r := range []*MatchingRule{a.Equality, a.Ordering, a.Substr} {
			if r != nil && !slices.Contains(r.Form.takes, a.Syntax.OID) {
				t.Errorf("%s has the rule %s, which does not take its syntax %s", a.Name(), r.Name(), a.Syntax.Desc)
			}
		}
		for _, r := range []*MatchingRule{a.Ordering, a.Substr} {
			if r != nil && (a.Equality == nil || r.Form != a.Equality.Form) {
				t.Errorf("%s: %s has other keys than its equality rule", a.Name(), r.Name())
			}
		}
	}
	for _, c := range s.Classes() {
		if c.Name() != "top" && c.Kind == Structural && !c.Is(s.Class("top")) {
			t.Errorf("%s is not below top", c.Name())
		}
	}
}

// TestDefinitionFilesHaveHeads checks that a file that is named after an RFC begins with the
// number of the RFC, and that no file contains tabs.
func TestDefinitionFilesHaveHeads(t *testing.T) {
	files, err := filepath.Glob("definitions/*.schema")
	if err != nil || len(files) == 0 {
		t.Fatal("no files", err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		rfc, is := strings.CutPrefix(strings.TrimSuffix(filepath.Base(name), ".schema"), "rfc")
		if is && !strings.HasPrefix(string(text), "# RFC "+rfc+": ") {
			t.Errorf("%s does not begin with its RFC", name)
		}
		if strings.Contains(string(text), "\t") {
			t.Errorf("%s has tabs", name)
		}
	}
}

func TestCoreElements(t *testing.T) {
	s := Core()
	for oid, name := range map[string]string{
		"2.5.4.0": "objectClass", "2.5.4.3": "commonName", "2.5.18.9": "hasSubordinates", "1.3.6.1.1.16.4": "entryUUID",
		"1.3.6.1.1.20": "entryDN", "1.3.6.1.4.1.4203.666.1.7": "entryCSN", "1.3.6.1.4.1.4203.666.1.25": "contextCSN",
		"1.2.840.113556.1.2.102": "memberOf", "1.3.6.1.4.1.453.16.2.103": "numSubordinates", "2.16.840.1.113730.3.1.34": "ref",
		"2.5.21.9": "structuralObjectClass", "2.5.18.10": "subschemaSubentry", "1.3.6.1.4.1.250.1.57": "labeledURI",
		"0.9.2342.19200300.100.1.60": "jpegPhoto", "1.3.6.1.1.1.1.0": "uidNumber", "2.5.4.36": "userCertificate",
		"2.5.18.6": "subtreeSpecification", "0.9.2342.19200300.100.1.3": "mail",
	} {
		if a := s.Attribute(name); a == nil || a != s.Attribute(oid) {
			t.Errorf("attribute %s is not %s", name, oid)
		}
	}
	for oid, name := range map[string]string{
		"2.16.840.1.113730.3.2.2": "inetOrgPerson", "1.3.6.1.1.1.2.0": "posixAccount", "2.16.840.1.113730.3.2.6": "referral",
		"2.5.17.0": "subentry", "1.3.6.1.4.1.1466.101.120.111": "extensibleObject", "2.5.6.1": "alias",
		"1.3.6.1.4.1.1466.344": "dcObject", "1.3.6.1.1.3.1": "uidObject", "0.9.2342.19200300.100.4.13": "domain",
		"0.9.2342.19200300.100.4.5": "account", "0.9.2342.19200300.100.4.6": "document", "2.5.6.21": "pkiUser",
	} {
		if c := s.Class(name); c == nil || c != s.Class(oid) {
			t.Errorf("class %s is not %s", name, oid)
		}
	}
}

func TestAttributeType(t *testing.T) {
	s := Core()
	cn := s.Attribute("cn")
	if cn.Name() != "cn" || cn.Equality != s.Rule("caseIgnoreMatch") || cn.Substr != s.Rule("caseIgnoreSubstringsMatch") ||
		cn.Ordering != nil || cn.Syntax != s.SyntaxOf(syntaxDirectoryString) || cn.Sup != s.Attribute("name") || cn.Operational() {
		t.Errorf("cn has inherited %+v", cn)
	}
	if c := s.Attribute("c"); !c.SingleValue || c.Syntax.OID != syntaxCountryString || c.Equality != cn.Equality {
		t.Errorf("c is %+v", c)
	}
	if mail := s.Attribute("mail"); mail.MaxLen != 256 {
		t.Errorf("mail's length is %d", mail.MaxLen)
	}
	at := s.Attribute("createTimestamp")
	if !at.Operational() || !at.NoUserModification || !at.SingleValue || at.Usage != DirectoryOperation {
		t.Errorf("createTimestamp is %+v", at)
	}
	if !cn.Is(s.Attribute("name")) || !cn.Is(cn) || s.Attribute("name").Is(cn) {
		t.Error("Is is wrong about cn and name")
	}
	var secret []string
	for _, a := range s.Attributes() {
		if a.Secret() {
			secret = append(secret, a.Name())
		}
	}
	slices.Sort(secret)
	if d := cmp.Diff([]string{"authPassword", "bearerToken", "oathSecret", "oathTOTPUsedTimeStep", "oathTokenPIN", "pwdFailureTime", "pwdGraceUseTime",
		"pwdHistory", "pwdLastSuccess", "pwdResetUseTime", "scramKey", "userPassword"}, secret); d != "" {
		t.Error(d)
	}
	if cn.Approx() != s.Rule("approximateMatch") || s.Attribute("uidNumber").Approx() != s.Rule("integerMatch") || s.Attribute("jpegPhoto").Approx() != nil {
		t.Error("Approx gives wrong rules")
	}
}

func TestSubtypes(t *testing.T) {
	s := Core()
	name := s.Attribute("name")
	subs := s.Subtypes(name)
	if subs[0] != name {
		t.Errorf("the first subtype of name is %s", subs[0].Name())
	}
	for _, a := range s.Attributes() {
		if a.Is(name) != slices.Contains(subs, a) {
			t.Errorf("%s among the subtypes of name: %v", a.Name(), !a.Is(name))
		}
	}
	if n := len(s.Subtypes(s.Attribute("uid"))); n != 1 {
		t.Errorf("uid has %d subtypes", n)
	}
}

func TestObjectClass(t *testing.T) {
	s := Core()
	c := s.Class("INETORGPERSON")
	if c.Kind != Structural || !c.Is(s.Class("person")) || !c.Is(s.Class("top")) || c.Is(s.Class("account")) {
		t.Errorf("inetOrgPerson is %+v", c)
	}
	person := s.Class("person")
	if !slices.Equal(person.Must, []*AttributeType{s.Attribute("sn"), s.Attribute("cn")}) || len(person.May) != 4 {
		t.Errorf("person is %+v", person)
	}
	if !s.Class("referral").Is(s.Class("top")) || len(s.Class("extensibleObject").Sup) != 1 {
		t.Error("referral or extensibleObject have wrong superclasses")
	}
}

func TestLookupNeedsNoMemory(t *testing.T) {
	s := Core()
	for _, name := range []string{"objectClass", "objectclass", "OBJECTCLASS", "2.5.4.0", "unknown"} {
		if n := testing.AllocsPerRun(100, func() { s.Attribute(name) }); n != 0 {
			t.Errorf("looking %s up takes %v allocations", name, n)
		}
	}
	if s.Attribute(strings.Repeat("x", 1000)) != nil || s.Attribute("") != nil || s.Class("cn") != nil || s.Rule("cn") != nil {
		t.Error("something is found that is not there")
	}
}

func TestExtend(t *testing.T) {
	s := Core()
	before := len(s.Attributes())
	x, err := s.Extend(
		"objectClasses: ( 2.25.1.1 NAME 'building' SUP top MUST floors MAY floorPlan )",
		"attributeTypes: ( 2.25.1.2 NAME 'floors' DESC 'how many' EQUALITY integerMatch SYNTAX 2.25.1.4 SINGLE-VALUE )",
		"attributeTypes: ( 2.25.1.3 NAME ( 'floorPlan' 'plan' ) SUP description X-SECRET 'true' )",
		"ldapSyntaxes: ( 2.25.1.4 DESC 'small' X-SUBST '1.3.6.1.4.1.1466.115.121.1.27' )",
		// The schema already has these definitions, in another form.
		"attributetype ( 2.5.4.3 NAME ( 'CN' 'commonName' ) DESC 'something else' SUP name )",
		"objectclass ( 2.5.6.6 NAME 'person' MUST ( commonName $ surname $ cn ) SUP 2.5.6.0 MAY ( description $ seeAlso $ telephonenumber $ userPassword ) )",
	)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Attributes()) != before || s.Attribute("floors") != nil {
		t.Error("Extend has changed the schema that it extends")
	}
	if len(x.Attributes()) != before+2 {
		t.Errorf("%d attribute types, before %d", len(x.Attributes()), before)
	}
	plan := x.Attribute("PLAN")
	if !plan.Secret() || plan.Equality != x.Rule("caseIgnoreMatch") || !slices.Contains(x.Subtypes(x.Attribute("description")), plan) {
		t.Errorf("floorPlan is %+v", plan)
	}
	if x.Attribute("floors").Syntax.Validate([]byte("x")) == nil {
		t.Error("X-SUBST is not heeded")
	}
	if k, _ := x.Rule("objectIdentifierMatch").Key([]byte("Building")); string(k) != "2.25.1.1" {
		t.Errorf("the new class has the key %q", k)
	}
	if k, _ := s.Rule("objectIdentifierMatch").Key([]byte("Building")); string(k) != "building" {
		t.Errorf("in the old schema the new class has the key %q", k)
	}
	if !slices.Contains(x.Definitions("objectclasses"), "( 2.25.1.1 NAME 'building' SUP top STRUCTURAL MUST floors MAY floorPlan )") {
		t.Error("the new class is not published")
	}
}

func TestExtendFails(t *testing.T) {
	for definition, want := range map[string]string{
		"attributeTypes: ( 2.5.4.3 NAME 'cn' SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 )":                      `definition of cn: the name or OID "2.5.4.3" is defined already, as something else`,
		"attributeTypes: ( 2.25.1 NAME 'CN' SUP name )":                                                   `definition of CN: the name or OID "CN" is defined already, as something else`,
		"attributeTypes: ( 2.25.1 NAME 'a' SUP nothing )":                                                 `definition of a: there is no supertype "nothing"`,
		"attributeTypes: ( 2.25.1 NAME 'a' SUP a )":                                                       "definition of a: it is its own supertype",
		"attributeTypes: ( 2.25.1 NAME 'a' )":                                                             "definition of a: it has neither a syntax nor a supertype",
		"attributeTypes: ( 2.25.1 NAME 'a' SYNTAX 1.2 )":                                                  `definition of a: there is no syntax "1.2"`,
		"attributeTypes: ( 2.25.1 NAME 'a' SUP name EQUALITY no )":                                        `definition of a: there is no matching rule "no"`,
		"attributeTypes: ( 2.25.1 NAME 'a' SUP name ORDERING caseIgnoreMatch )":                           `definition of a: the matching rule "caseIgnoreMatch" is of another use`,
		"attributeTypes: ( 2.25.1 NAME 'a' SUP name USAGE dSAOperation )":                                 "definition of a: its usage differs from that of its supertype name (RFC 4512, 2.5.1)",
		"objectClasses: ( 2.25.1 NAME 'a' SUP nothing )":                                                  `definition of a: there is no superclass "nothing"`,
		"objectClasses: ( 2.25.1 NAME 'a' SUP a )":                                                        "definition of a: it is its own superclass, or one of its superclasses is",
		"objectClasses: ( 2.25.1 NAME 'a' MUST nothing )":                                                 `definition of a: there is no attribute type "nothing"`,
		"matchingRules: ( 2.25.1 NAME 'a' SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 )":                         "definition of a: this server has no such matching rule",
		"matchingRules: ( 2.5.13.2 NAME 'a' SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 )":                       `definition of a: the name or OID "2.5.13.2" is defined already, as something else`,
		"ldapSyntaxes: ( 1.3.6.1.4.1.1466.115.121.1.15 NAME 'x' )":                                        `definition of x: the OID "1.3.6.1.4.1.1466.115.121.1.15" is defined already, as something else`,
		"ldapSyntaxes: ( 2.25.1 X-SUBST '1.2' )":                                                          "definition of 2.25.1: X-SUBST: there is no syntax 1.2",
		"ldapSyntaxes: ( 1.3.6.1.4.1.1466.115.121.1.15 DESC 'x' X-SUBST '1.3.6.1.4.1.1466.115.121.1.1' )": "",
		"attributeTypes: ( 2.25.1 NAM 'a' )":                                                              `definition of 2.25.1, byte 9: unknown keyword "NAM"`,
	} {
		_, err := Core().Extend(definition)
		if fmt.Sprint(err) != want && (want != "" || err != nil) {
			t.Errorf("%s: %v\nwant %s", definition, err, want)
		}
	}
	if _, err := Core().Extend("attributeTypes: ( 2.25.1 NAME 'a' SUP b )", "attributeTypes: ( 2.25.2 NAME 'b' SUP a )"); err == nil {
		t.Error("two types that are each other's supertype are let pass")
	}
	if _, err := Core().Extend("objectClasses: ( 2.25.1 NAME 'a' SUP ( top $ b ) )", "objectClasses: ( 2.25.2 NAME 'b' SUP a )"); err == nil {
		t.Error("two classes that are each other's superclass are let pass")
	}
}

// TestDefinitionsRoundTrip checks that printing the definitions of a schema and parsing
// the text returns the same schema.
func TestDefinitionsRoundTrip(t *testing.T) {
	var texts []string
	for _, element := range elementNames[:matchingRuleUse] {
		for _, d := range Core().Definitions(element) {
			texts = append(texts, element+": "+d)
		}
	}
	again, err := (&Schema{}).Extend(texts...)
	if err != nil {
		t.Fatal(err)
	}
	for _, element := range elementNames {
		want, got := slices.Sorted(slices.Values(Core().Definitions(element))), slices.Sorted(slices.Values(again.Definitions(element)))
		if element == "matchingRuleUse" {
			continue // the items are the same, in another order
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: %s", element, d)
		}
	}
	if Core().Definitions("cn") != nil {
		t.Error("cn has definitions")
	}
}

// TestPrintedInOrder checks that a client can read the definitions in their order.
func TestPrintedInOrder(t *testing.T) {
	late, err := Core().Extend(
		"objectClasses: ( 2.25.1 NAME 'c1' SUP ( top $ C2 $ 2.25.3 ) )", "objectClasses: ( 2.25.2 NAME 'c2' SUP c3 )", "objectClasses: ( 2.25.3 NAME 'c3' SUP top )",
		"attributeTypes: ( 2.25.4 NAME 'a1' SUP A2 )", "attributeTypes: ( 2.25.5 NAME 'a2' SUP 2.25.6 )", "attributeTypes: ( 2.25.6 NAME 'a3' SUP name )")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []*Schema{Core(), late} {
		before := map[string]bool{}
		for _, text := range slices.Concat(s.Definitions("attributeTypes"), s.Definitions("objectClasses")) {
			oid := strings.Fields(text)[1]
			if a := s.Attribute(oid); a != nil && a.Sup != nil && !before[a.Sup.OID] {
				t.Errorf("%s comes before its supertype %s", a.Name(), a.Sup.Name())
			}
			if c := s.Class(oid); c != nil {
				for _, sup := range c.Sup {
					if !before[sup.OID] {
						t.Errorf("%s comes before its superclass %s", c.Name(), sup.Name())
					}
				}
			}
			if before[oid] {
				t.Errorf("%s is defined twice", oid)
			}
			before[oid] = true
		}
		if got, want := len(before), len(s.attributes)+len(s.classes); got != want {
			t.Errorf("%d definitions, want %d", got, want)
		}
	}
}

func TestMatchingRuleUse(t *testing.T) {
	const want = "( 2.5.13.23 NAME 'uniqueMemberMatch' APPLIES"
	if !slices.ContainsFunc(Core().Definitions("matchingRuleUse"), func(d string) bool {
		return strings.HasPrefix(d, want) && strings.Contains(d, " uniqueMember ")
	}) {
		t.Errorf("no matching rule use %s ( ... uniqueMember ... )", want)
	}
}

func TestVersionNamesUnicode(t *testing.T) {
	if !strings.HasPrefix(Version(), "3 unicode ") {
		t.Errorf("version is %q", Version())
	}
}

func BenchmarkAttribute(b *testing.B) {
	s := Core()
	for _, name := range []string{"cn", "inetorgperson", "objectClass", "OBJECTCLASS", "2.5.4.3"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s.Attribute(name)
			}
		})
	}
}

func BenchmarkBuild(b *testing.B) {
	for b.Loop() {
		if _, err := build(coreDefinitions(), Codes()); err != nil {
			b.Fatal(err)
		}
	}
}
