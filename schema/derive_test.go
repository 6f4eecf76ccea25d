package schema

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// derived returns definitions of a server that derives rules.
func derived(lines ...string) []Definition {
	ds := file(lines...)
	for i := range ds {
		ds[i].Derive = true
	}
	return ds
}

// TestDerivedRules checks that a type of every syntax without rules can be searched by value,
// and that the rules that it gets are for values of the syntax.
func TestDerivedRules(t *testing.T) {
	for _, x := range Core().syntaxes {
		m, err := Core().Merge(derived("attributetypes: ( 2.25.1 NAME 'a' SYNTAX " + x.OID + " )"))
		if err != nil {
			t.Errorf("%s: %v", x.Desc, err)
			continue
		}
		s, err := Core().Change(m.Add, m.Remove)
		if err != nil {
			t.Errorf("%s: %v", x.Desc, err)
			continue
		}
		a := s.Attribute("a")
		if a.Equality == nil || a.Equality.Use != Equality {
			t.Errorf("%s: no equality rule", x.Desc)
			continue
		}
		for _, r := range []*MatchingRule{a.Equality, a.Ordering, a.Substr} {
			if _, listed := rulesOf[x.OID]; listed && r != nil && !slices.Contains(r.Form.takes, x.OID) {
				t.Errorf("%s: %s is not for values of this syntax", x.Desc, r.Name())
			}
		}
		if len(m.Notes) != 1 || !strings.HasPrefix(m.Notes[0], "1 types name no matching rules") {
			t.Errorf("%s: notes %q", x.Desc, m.Notes)
		}
	}
}

func TestMergeOfDerived(t *testing.T) {
	const syntax = " SYNTAX 1.3.6.1.4.1.1466.115.121.1.26 "
	for _, c := range []struct {
		what      string
		old, new  []Definition
		equality  string
		notes     []string
		better    bool
		attribute string
	}{
		{"one with rules keeps them", nil, derived("attributetypes: ( 2.25.1 NAME 'a' EQUALITY caseIgnoreIA5Match" + syntax + ")"), "caseIgnoreIA5Match", nil, false, "a"},
		{"one that inherits keeps them", nil, derived("attributetypes: ( 2.25.1 NAME 'a' SUP cn )"), "caseIgnoreMatch", nil, false, "a"},
		{"not asked for", nil, file("attributetypes: ( 2.25.1 NAME 'a'" + syntax + ")"), "", nil, false, "a"},
		{"a built-in one keeps its rules", nil, derived("attributetypes: ( 0.9.2342.19200300.100.1.3 NAME 'mail'" + syntax + ")"), "caseIgnoreIA5Match", nil, false, "mail"},
		{"rules instead of none", file("attributetypes: ( 2.25.1 NAME 'a'" + syntax + ")"), file("attributetypes: ( 2.25.1 NAME 'a' EQUALITY caseIgnoreIA5Match" + syntax + ")"), "caseIgnoreIA5Match", []string{"f:1: a: it becomes"}, true, "a"},
		{"derived rules instead of none", file("attributetypes: ( 2.25.1 NAME 'a'" + syntax + ")"), derived("attributetypes: ( 2.25.1 NAME 'a'" + syntax + ")"), "caseExactIA5Match", []string{"1 types name no matching rules"}, true, "a"},
		{"rules instead of derived ones", derived("attributetypes: ( 2.25.1 NAME 'a'" + syntax + ")"), file("attributetypes: ( 2.25.1 NAME 'a' EQUALITY caseIgnoreIA5Match" + syntax + ")"), "caseIgnoreIA5Match", []string{"f:1: a: it becomes"}, true, "a"},
		{"no derived rules instead of rules", file("attributetypes: ( 2.25.1 NAME 'a' EQUALITY caseIgnoreIA5Match" + syntax + ")"), derived("attributetypes: ( 2.25.1 NAME 'a'" + syntax + ")"), "caseIgnoreIA5Match", nil, false, "a"},
		{"none instead of derived ones", derived("attributetypes: ( 2.25.1 NAME 'a'" + syntax + ")"), file("attributetypes: ( 2.25.1 NAME 'a'" + syntax + ")"), "caseExactIA5Match", nil, false, "a"},
		{"the same again", derived("attributetypes: ( 2.25.1 NAME 'a'" + syntax + ")"), derived("attributetypes: ( 2.25.1 NAME 'a'" + syntax + ")"), "caseExactIA5Match", nil, false, "a"},
		{"the system's, then the instance's", nil, derived("attributetypes: ( 2.25.1 NAME 'a'"+syntax+")", "attributetypes: ( 2.25.1 NAME 'a' SYNTAX 1.3.6.1.4.1.1466.115.121.1.12 )"), "distinguishedNameMatch", []string{"f:2: a: it overrides the definition (f:1)", "1 types name"}, false, "a"},
	} {
		s := Core()
		for i, ds := range [][]Definition{c.old, c.new} {
			m, err := s.Merge(ds)
			if err != nil {
				t.Errorf("%s: %v", c.what, err)
				break
			}
			if s, err = s.Change(m.Add, m.Remove); err != nil {
				t.Errorf("%s: %v", c.what, err)
				break
			}
			if i == 1 && (!slices.EqualFunc(m.Notes, c.notes, strings.HasPrefix) || len(m.Better) > 0 != c.better) {
				t.Errorf("%s: notes %q, better %q", c.what, m.Notes, m.Better)
			}
		}
		got := ""
		if r := s.Attribute(c.attribute).Equality; r != nil {
			got = r.Name()
		}
		if got != c.equality {
			t.Errorf("%s: the equality rule is %q, want %q", c.what, got, c.equality)
		}
	}
}

// TestSameOID checks that attributes and classes that have only the OID in common are not
// merged unless they mean the same.
func TestSameOID(t *testing.T) {
	for _, c := range []struct{ in, wrong, note string }{
		{"attributetypes: ( 2.16.840.1.113730.3.1.34 NAME 'middleName' SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 )", "", "that of ref (RFC 3296), so it gets the OID 2.25."},
		{"attributetypes: ( 2.16.840.1.113730.3.1.35 NAME 'thumbnailPhoto' SYNTAX 1.3.6.1.4.1.1466.115.121.1.40 )", "", "that of changelog of cn=changelog, so it gets the OID 2.25."},
		{"attributetypes: ( 2.16.840.1.113730.3.1.34 NAME 'other' SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 )", "is that of ref, whose USAGE is another one: give it an OID of its own", ""},
		{"attributetypes: ( 2.5.4.3 NAME 'other' SYNTAX 1.3.6.1.4.1.1466.115.121.1.27 )", "is that of cn, whose SYNTAX is another one", ""},
		{"attributetypes: ( 2.5.4.3 NAME 'other' SUP name )", "", "it is cn, which has the same OID"},
		{"objectclasses: ( 2.5.6.6 NAME 'other' SUP top AUXILIARY MAY cn )", "is that of person, whose kind or superclasses is another one", ""},
	} {
		m, err := Core().Merge(file(c.in))
		switch {
		case c.wrong != "":
			if err == nil || !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("%s: %v", c.in, err)
			}
		case err != nil || len(m.Notes) != 1 || !strings.Contains(m.Notes[0], c.note):
			t.Errorf("%s: %v, %+v", c.in, err, m)
		}
		if err == nil {
			s, err := Core().Change(m.Add, m.Remove)
			if err != nil || s.Attribute("ref").OID != "2.16.840.1.113730.3.1.34" || s.Attribute("ref") == s.Attribute("middleName") {
				t.Errorf("%s: %v", c.in, err)
			}
		}
	}
}

// TestFormsOfFiles checks forms of definitions that RFC 4512 does not have, but files and slapd do.
func TestFormsOfFiles(t *testing.T) {
	for in, want := range map[string]string{
		"attributetypes: ( 1.2.04.016.1 NAME 'a' SYNTAX 1.3 )":    "( 1.2.04.016.1 NAME 'a' SYNTAX 1.3 )",
		"objectclass ( 1.2.00 SUP 2.05 )":                         "( 1.2.00 SUP 2.05 STRUCTURAL )",
		"attributetypes: ( 1.2 SYNTAX 1.3{4294967295} )":          "( 1.2 SYNTAX 1.3{4294967295} )",
		"attributetypes: ( 1.2 SYNTAX 1.3{9223372036854775808} )": "( 1.2 SYNTAX 1.3{" + strconv.Itoa(math.MaxInt) + "} )",
		"attributetypes: ( 1.2 SYNTAX 1.3{0064} )":                "( 1.2 SYNTAX 1.3{64} )",
	} {
		d, err := Macros{}.Expand(file(in)[0])
		if err != nil || d.Text != want {
			t.Errorf("%s: %q, %v", in, d.Text, err)
		}
	}
}

func TestDirectives(t *testing.T) {
	for _, c := range []struct{ what, in, want string }{
		{"an indented one after an empty line", "attributetype ( 1.2\n NAME 'a' )\n\n attributetype ( 1.3 )\n", "1.2 1.3"},
		{"an indented one after a line of spaces", "attributetype ( 1.2 )\n \t\n\tobjectclass ( 1.3 )\n", "1.2 1.3"},
		{"an empty line and a comment within", "attributetype ( 1.2\n\n# x\n NAME 'a'\n)\n", "1.2"},
		{"an indented one after a macro", "objectidentifier a 1.2\n\n attributetype ( a:3 )\n", "1.2.3"},
		{"at the margin, within parentheses", "attributetype ( 1.2\nNAME 'a'\n)\n", "1.2"},
		{"one without its parenthesis", "attributetype ( 1.2 NAME 'a'\nattributetype ( 1.3 )\nobjectclass: ( 1.4 )\n", "1.3 1.4"},
		{"one with an odd apostrophe", "attributetype ( 1.2 DESC 'it's' )\nattributetype ( 1.3 )\n", "1.3"},
	} {
		ds, _ := ParseFile("f", c.in, Macros{})
		var oids []string
		for _, d := range ds {
			oid, _ := d.Called()
			oids = append(oids, oid)
		}
		if got := strings.Join(oids, " "); got != c.want {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
	}
}
