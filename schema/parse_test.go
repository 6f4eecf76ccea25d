package schema

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	for _, c := range []struct{ in, out string }{
		{"attributeTypes: ( 2.5.4.3 NAME ( 'cn' 'commonName' ) SUP name )",
			"( 2.5.4.3 NAME ( 'cn' 'commonName' ) SUP name )"},
		// Forms in schema files: no colon, no spaces, or an index.
		{"attributetype (1.2 NAME('a' 'b')DESC 'x'SUP name)",
			"( 1.2 NAME ( 'a' 'b' ) DESC 'x' SUP name )"},
		{"olcAttributeTypes: {12}( 1.2 NAME 'a' SYNTAX 1.3{64} )",
			"( 1.2 NAME 'a' SYNTAX 1.3{64} )"},
		// OIDs in quotes, a separate length, keywords in lower case and in any order, and
		// several lines.
		{"attributeTypes: ( 1.2 syntax '1.3'\n {64}\n name 'a'\tSINGLE-VALUE DESC 'it\\27s \\5C' )",
			`( 1.2 NAME 'a' DESC 'it\27s \5C' SYNTAX 1.3{64} SINGLE-VALUE )`},
		// A word instead of an OID, a name with unusual characters, and extensions.
		{"attributeTypes: ( nsFoo-oid NAME 'ns_foo.bar' SYNTAX 1.3 X-ORIGIN 'a' X-B ( 'c' 'd' ) )",
			"( nsFoo-oid NAME 'ns_foo.bar' SYNTAX 1.3 X-ORIGIN 'a' X-B ( 'c' 'd' ) )"},
		{"attributeTypes: ( 1.2 OBSOLETE EQUALITY e ORDERING o SUBSTR s SYNTAX 1.3 COLLECTIVE NO-USER-MODIFICATION USAGE dsaoperation )",
			"( 1.2 OBSOLETE EQUALITY e ORDERING o SUBSTR s SYNTAX 1.3 COLLECTIVE NO-USER-MODIFICATION USAGE dSAOperation )"},
		{"attributeTypes: ( 1.2 SYNTAX 1.3 USAGE userApplications )", "( 1.2 SYNTAX 1.3 )"},
		{"objectClasses: ( 1.2 NAME 'a' SUP (b$c) AUXILIARY MUST d MAY( e $ f ) )",
			"( 1.2 NAME 'a' SUP ( b $ c ) AUXILIARY MUST d MAY ( e $ f ) )"},
		{"objectClasses: ( 1.2 )", "( 1.2 STRUCTURAL )"},
		{"objectClasses: ( 1.2 SUP 'top' ABSTRACT MUST ( ) )", "( 1.2 SUP top ABSTRACT )"},
		{"ldapSyntaxes: ( 1.2 DESC '' X-SUBST '1.3' )", "( 1.2 X-SUBST '1.3' )"},
		{"matchingRules: ( 1.2 NAME 'a' OBSOLETE SYNTAX 1.3 )", "( 1.2 NAME 'a' OBSOLETE SYNTAX 1.3 )"},
		{"matchingRuleUse: ( 1.2 APPLIES ( a $ b ) )", "( 1.2 APPLIES ( a $ b ) )"},
		{"ldapSyntaxes: ( 1.2 X-A ( ) )", "( 1.2 X-A ( ) )"},
	} {
		d, err := parseLabelled(c.in)
		if err != nil {
			t.Errorf("%s: %v", c.in, err)
			continue
		}
		if got := d.String(); got != c.out {
			t.Errorf("%s\n is printed %s\n     want %s", c.in, got, c.out)
		}
	}
}

func TestParseErrors(t *testing.T) {
	for _, c := range []struct {
		in      string
		name    string
		offset  int
		problem string
	}{
		{"", `""`, 0, `no "(" found`},
		{"attributeTypes: 1.2", `"attributeTypes: 1.2"`, 19, `no "(" found`},
		{"bogus: ( 1.2 )", `"bogus: ( 1.2 )"`, 0, `"bogus" is not one of`},
		{"attributeTypes: ( )", `"( )"`, 2, "expected a name or OID"},
		{"attributeTypes: ( 1..2 )", `"( 1..2 )"`, 2, `"1..2" is not a name or OID`},
		{"attributeTypes: ( 1.2 NAME 'a' BOGUS )", "a", 15, `unknown keyword "BOGUS"`},
		{"attributeTypes: ( 1.2 MUST cn )", "1.2", 6, `unknown keyword "MUST"`},
		{"attributeTypes: ( 1.2 NAME 'a", "1.2", 11, "quoted string without end"},
		{"attributeTypes: ( 1.2 NAME 'a b' )", "1.2", 11, "is not a name"},
		{"attributeTypes: ( 1.2 NAME ( 'a' )", "a", 18, "expected"},
		{"attributeTypes: ( 1.2 NAME 'a'", "a", 14, `expected a keyword or ")"`},
		{"attributeTypes: ( 1.2 NAME 'a' ) x", "a", 17, "text after the definition's end"},
		{"attributeTypes: ( 1.2 DESC x )", "1.2", 11, "description in quotes"},
		{"attributeTypes: ( 1.2 SYNTAX )", "1.2", 13, "not a syntax OID"},
		{"attributeTypes: ( 1.2 SYNTAX 1.3{x} )", "1.2", 13, "not a length"},
		{"attributeTypes: ( 1.2 SYNTAX 1.3{64 )", "1.2", 13, "not a length"},
		{"attributeTypes: ( 1.2 SYNTAX 1.3{-1} )", "1.2", 13, "not a length"},
		{"attributeTypes: ( 1.2 SYNTAX 1.3{} )", "1.2", 13, "not a length"},
		{"attributeTypes: ( 1.2 SYNTAX 1.3{+1} )", "1.2", 13, "not a length"},
		{"attributeTypes: ( 1.2 USAGE x )", "1.2", 12, "not a usage"},
		{"attributeTypes: ( 1.2 SUP ( a $ b ) )", "1.2", 10, "expected a name or OID"},
		{"attributeTypes: ( 1.2 X-A b )", "1.2", 10, "in quotes"},
		{"objectClasses: ( 1.2 MAY ( a $ ( b ) ) )", "1.2", 16, "expected a name or OID"},
		{"objectClasses: ( 1.2 MAY", "1.2", 9, "expected a name or OID"},
		{"objectClasses: ( 1.2 MAY $ )", "1.2", 10, "expected a name or OID"},
		{"objectClasses: ( 1.2 'x' )", "1.2", 6, "expected a keyword"},
	} {
		_, err := parseLabelled(c.in)
		var de *DefinitionError
		if !errors.As(err, &de) {
			t.Errorf("%s: %v", c.in, err)
			continue
		}
		if de.Definition != c.name || de.Offset != c.offset || !strings.Contains(de.Problem, c.problem) {
			t.Errorf("%s:\n error is %q at %d: %s\n    want %q at %d: %s", c.in, de.Definition, de.Offset, de.Problem, c.name, c.offset, c.problem)
		}
	}
}

// parseLabelled parses a definition of the form "attributeTypes: ( ... )".
func parseLabelled(text string) (*definition, error) {
	d, err := label(text)
	if err != nil {
		return nil, err
	}
	return d.parse()
}

// checkRoundTrip checks that printing a definition and parsing the text returns the same
// definition.
func checkRoundTrip(t *testing.T, d *definition) {
	t.Helper()
	again, err := parseDefinition(d.element, d.String())
	if err != nil {
		t.Fatalf("%s: %v", d, err)
	}
	if again.String() != d.String() {
		t.Fatalf("%s\nis printed %s", d, again)
	}
	again.source = d.source
	plain := cmp.AllowUnexported(definition{})
	if diff := cmp.Diff(d, again, plain, cmp.Comparer(func(a, b []string) bool { return slices.Equal(a, b) })); diff != "" {
		t.Fatalf("%s: %s", d, diff)
	}
}

func FuzzParse(f *testing.F) {
	for _, name := range elementNames {
		for _, d := range Core().Definitions(name) {
			f.Add(name + ": " + d)
		}
	}
	f.Add("attributeTypes: ( 1.2 NAME('a'$'b')SYNTAX '1.3' {4} DESC '\\27\\5c' X-A ( ) X-B 'c')")
	f.Fuzz(func(t *testing.T, text string) {
		d, err := parseLabelled(text)
		if err != nil {
			var de *DefinitionError
			if !errors.As(err, &de) || de.Offset > len(text) {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		checkRoundTrip(t, d)
	})
}
