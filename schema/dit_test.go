package schema

import (
	"slices"
	"strings"
	"testing"
)

// world returns a schema with content rules, name forms and structure rules for
// organizations, units and people.
func world(t *testing.T) *Schema {
	t.Helper()
	s, err := Core().Extend(
		"dITContentRules: ( 2.16.840.1.113730.3.2.2 NAME 'personRule' AUX ( posixAccount $ dcObject ) MUST uid MAY dc NOT ( audio $ photo ) )",
		"dITContentRules: ( 2.5.6.5 NAME 'unitRule' OBSOLETE NOT description )",
		"nameForms: ( 2.25.1.1 NAME 'orgForm' OC organization MUST o )",
		"nameForms: ( 2.25.1.2 NAME 'unitForm' OC organizationalUnit MUST ou MAY l )",
		"nameForms: ( 2.25.1.3 NAME 'personForm' OC inetOrgPerson MUST uid )",
		"nameForms: ( 2.25.1.4 NAME 'personByName' OC inetOrgPerson MUST cn MAY uid )",
		"nameForms: ( 2.25.1.5 NAME 'oldForm' OBSOLETE OC account MUST l )",
		"dITStructureRules: ( 1 NAME 'orgs' FORM orgForm )",
		"dITStructureRules: ( 2 NAME 'units' FORM unitForm SUP ( 1 2 ) )",
		"dITStructureRules: ( 3 NAME 'people' FORM personForm SUP 2 )",
	)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestContentRule tests DIT content rules (RFC 4512, 4.1.6).
func TestContentRule(t *testing.T) {
	s := world(t)
	r := s.ContentRule(s.Class("inetOrgPerson"))
	if r == nil || r.Name() != "personRule" || r.Class != s.Class("inetOrgPerson") {
		t.Fatalf("the rule of inetOrgPerson is %+v", r)
	}
	if s.ContentRule(s.Class("organizationalUnit")) != nil {
		t.Error("an obsolete rule is in force")
	}
	if s.ContentRule(s.Class("person")) != nil {
		t.Error("a rule is in force for a superclass")
	}
	classes := func(names ...string) (cs []*ObjectClass) {
		for _, n := range names {
			cs = s.Class(n).closure(cs)
		}
		return cs
	}
	if w := r.Classes(classes("inetOrgPerson", "posixAccount")); w != "" {
		t.Errorf("a listed class: %s", w)
	}
	if w := r.Classes(classes("inetOrgPerson", "uidObject")); !strings.Contains(w, "auxiliary class uidObject") {
		t.Errorf("a class not listed: %q", w)
	}
	has := func(names ...string) func(*AttributeType) bool {
		return func(t *AttributeType) bool { return slices.Contains(names, t.Name()) }
	}
	if w := r.Attributes(has("cn", "uid")); w != "" {
		t.Errorf("all well: %s", w)
	}
	if w := r.Attributes(has("cn")); !strings.Contains(w, "requires attribute uid") {
		t.Errorf("uid missing: %q", w)
	}
	if w := r.Attributes(has("uid", "audio")); !strings.Contains(w, "precludes attribute audio") {
		t.Errorf("audio there: %q", w)
	}
	if !r.Allows(s.Attribute("dc")) || !r.Allows(s.Attribute("uid")) || r.Allows(s.Attribute("cn")) {
		t.Error("Allows is not MUST and MAY")
	}
}

// TestGovern tests name forms and DIT structure rules (RFC 4512, 4.1.7).
func TestGovern(t *testing.T) {
	s := world(t)
	for _, c := range []struct {
		what  string
		class string
		rdn   string
		above int
		top   bool
		rule  int // 0: no rule governs the entry
		wrong string
	}{
		{what: "a root", class: "organization", rdn: "o", top: true, rule: 1},
		{what: "a root elsewhere", class: "organization", rdn: "o", wrong: "no DIT structure rule lets"},
		{what: "below its superior", class: "organizationalUnit", rdn: "ou", above: 1, rule: 2},
		{what: "below itself", class: "organizationalUnit", rdn: "ou", above: 2, rule: 2},
		{what: "an RDN with what may be", class: "organizationalUnit", rdn: "ou l", above: 2, rule: 2},
		{what: "an RDN with what may not be", class: "organizationalUnit", rdn: "ou cn", above: 2, wrong: "does not allow attribute cn"},
		{what: "an RDN without what must be", class: "organizationalUnit", rdn: "l", above: 2, wrong: "requires attribute ou"},
		{what: "below another", class: "inetOrgPerson", rdn: "uid", above: 1, wrong: "no DIT structure rule lets an entry of class inetOrgPerson stand here (people)"},
		{what: "below an entry without rule", class: "inetOrgPerson", rdn: "uid", wrong: "no DIT structure rule"},
		{what: "one of two forms", class: "inetOrgPerson", rdn: "uid", above: 2, rule: 3},
		{what: "a form without rules", class: "inetOrgPerson", rdn: "cn uid", rule: 0},
		{what: "a form without rules, below a rule", class: "inetOrgPerson", rdn: "cn", above: 2, wrong: "governed by the DIT structure rule units"},
		{what: "neither form", class: "inetOrgPerson", rdn: "mail", above: 2, wrong: "requires attribute uid"},
		{what: "a class without form", class: "locality", rdn: "l"},
		{what: "a class without form, below a rule", class: "locality", rdn: "l", above: 1, wrong: "governed by the DIT structure rule orgs"},
		{what: "a new area below a rule", class: "locality", rdn: "l", above: 1, top: true},
		{what: "an obsolete form", class: "account", rdn: "uid"},
	} {
		p := Place{Class: s.Class(c.class), Superior: s.StructureRule(c.above), Top: c.top}
		for name := range strings.FieldsSeq(c.rdn) {
			p.RDN = append(p.RDN, s.Attribute(name))
		}
		r, wrong := s.Govern(p)
		if r != s.StructureRule(c.rule) || (wrong == "") != (c.wrong == "") || !strings.Contains(wrong, c.wrong) {
			t.Errorf("%s: rule %v, %q; want %d, %q", c.what, r, wrong, c.rule, c.wrong)
		}
	}
}

func TestDITRulesAreConsistent(t *testing.T) {
	for definition, want := range map[string]string{
		"dITContentRules: ( 2.25.1 )":                                 "there is no object class",
		"dITContentRules: ( 2.5.6.0 )":                                "the class top is not structural",
		"dITContentRules: ( 2.5.6.6 AUX account )":                    "the class account is not auxiliary",
		"dITContentRules: ( 2.5.6.6 AUX nothing )":                    "there is no object class",
		"dITContentRules: ( 2.5.6.6 MUST nothing )":                   "there is no attribute type",
		"dITContentRules: ( 2.5.6.6 NOT nothing )":                    "there is no attribute type",
		"dITContentRules: ( 2.5.6.6 NOT sn )":                         "precludes the attribute type sn, which the class person requires",
		"dITContentRules: ( 2.5.6.6 NOT objectClass )":                "which the class person requires",
		"dITContentRules: ( 2.5.6.6 AUX posixAccount NOT uid )":       "which the class posixAccount requires",
		"dITContentRules: ( 2.5.6.6 MAY l NOT l )":                    "both precludes and allows",
		"nameForms: ( 2.25.1 OC posixAccount MUST uid )":              "is not structural",
		"nameForms: ( 2.25.1 OC person MUST nothing )":                "there is no attribute type",
		"nameForms: ( 2.25.1 OC person MUST cn MAY ( sn $ cn ) )":     "both MUST and MAY",
		"nameForms: ( 2.25.1 MUST cn )":                               "OC is missing",
		"nameForms: ( 2.25.1 OC person )":                             "MUST is missing",
		"dITStructureRules: ( 1 FORM nothing )":                       "there is no name form",
		"dITStructureRules: ( 1 )":                                    "FORM is missing",
		"dITStructureRules: ( 01 FORM x )":                            `"01" is not a rule number`,
		"dITStructureRules: ( 1.2 FORM x )":                           "is not a rule number",
		"dITStructureRules: ( 1 FORM x SUP a )":                       "is not a rule number",
		"nameForms: ( 2.25.1 NAME 'f' OC person MUST cn SUP person )": "unknown keyword",
	} {
		_, err := Core().Extend(definition)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", definition, err, want)
		}
	}
	_, err := world(t).Extend("dITStructureRules: ( 4 FORM unitForm SUP ( 1 9 ) )")
	if err == nil || !strings.Contains(err.Error(), "no superior structure rule 9") {
		t.Errorf("an unknown superior rule: %v", err)
	}
}

func TestDITRulesArePublished(t *testing.T) {
	s := world(t)
	for attribute, want := range map[string]string{
		"dITContentRules":   "( 2.16.840.1.113730.3.2.2 NAME 'personRule' AUX ( posixAccount $ dcObject ) MUST uid MAY dc NOT ( audio $ photo ) )",
		"nameForms":         "( 2.25.1.2 NAME 'unitForm' OC organizationalUnit MUST ou MAY l )",
		"dITStructureRules": "( 2 NAME 'units' FORM unitForm SUP ( 1 2 ) )",
	} {
		if !slices.Contains(s.Definitions(attribute), want) {
			t.Errorf("%s: %q, want among them %s", attribute, s.Definitions(attribute), want)
		}
	}
}
