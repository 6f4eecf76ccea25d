package schema

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// anySyntax lists the sections of RFC 4517 whose syntaxes accept every value.
var anySyntax = []string{"3.3.12", "3.3.17", "3.3.25"}

// rfc4517Syntaxes contains values for each syntax, in the order of the sections of RFC
// 4517 that define the syntaxes. The examples from the RFC come first.
var rfc4517Syntaxes = []struct {
	section, name, oid string
	good, bad          []string
}{
	{"3.3.1", "Attribute Type Description", "1.3.6.1.4.1.1466.115.121.1.3",
		[]string{"( 2.5.18.1 NAME 'createTimestamp' EQUALITY generalizedTimeMatch ORDERING generalizedTimeOrderingMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.24 SINGLE-VALUE NO-USER-MODIFICATION USAGE directoryOperation )", "( 1.2 SUP name )", "( 1.2.3 NAME ( 'a' 'b' ) SYNTAX 1.3{64} OBSOLETE )"},
		[]string{"( 2.5.18.1 NAME 'createTimestamp", "2.5.18.1", "( 1.2 USAGE sometimes SUP a )"}},
	{"3.3.2", "Bit String", "1.3.6.1.4.1.1466.115.121.1.6",
		[]string{"'0101111101'B", "''B", "'1'B"}, []string{"0101111101", "'0121'B", "'01'b", "'01'B "}},
	{"3.3.3", "Boolean", "1.3.6.1.4.1.1466.115.121.1.7",
		[]string{"TRUE", "FALSE"}, []string{"true", "False", "1", "", "TRUE "}},
	{"3.3.4", "Country String", "1.3.6.1.4.1.1466.115.121.1.11",
		[]string{"US", "AU", "de"}, []string{"U", "USA", "", "é", "U*"}},
	{"3.3.5", "Delivery Method", "1.3.6.1.4.1.1466.115.121.1.14",
		[]string{"telephone", "telephone $ videotex", "ANY$mhs"}, []string{"", "phone", "telephone videotex", "telephone $"}},
	{"3.3.6", "Directory String", "1.3.6.1.4.1.1466.115.121.1.15",
		[]string{"This is a value of Directory String containing #!%#@.", "Straße 日本", " "}, []string{"", "\xe4", "a\xc3"}},
	{"3.3.7", "DIT Content Rule Description", "1.3.6.1.4.1.1466.115.121.1.16",
		[]string{"( 2.5.6.4 DESC 'content rule for organization' NOT ( x121Address $ telexNumber ) )", "( 1.2 AUX a MUST b MAY ( c $ d ) )"}, []string{"( 2.5.6.4 NOT )", "( )", "( 1.2 SYNTAX 1.3 )"}},
	{"3.3.8", "DIT Structure Rule Description", "1.3.6.1.4.1.1466.115.121.1.17",
		[]string{"( 2 DESC 'organization structure rule' FORM 2.5.15.3 )", "( 3 NAME 'x' FORM f SUP ( 1 2 ) )"}, []string{"( 2 )", "( 2.5 FORM f )", "( a FORM f )"}},
	{"3.3.9", "DN", "1.3.6.1.4.1.1466.115.121.1.12",
		[]string{"", "UID=jsmith,DC=example,DC=net", "OU=Sales+CN=J. Smith,DC=example,DC=net", `CN=John Smith\, III,DC=example,DC=net`, `CN=Before\0dAfter,DC=example,DC=net`, "1.3.6.1.4.1.1466.0=#04024869"},
		[]string{"UID", "UID=jsmith,", "=x", `CN=\zz`, "1.3.=x"}},
	{"3.3.10", "Enhanced Guide", "1.3.6.1.4.1.1466.115.121.1.21",
		[]string{"person#(sn$EQ)#oneLevel", "person#sn$EQ&!(cn$SUBSTR|?true)#wholeSubtree"}, []string{"person#(sn$EQ)", "person#(sn$XX)#oneLevel", "person#(sn$EQ#oneLevel", "#sn$EQ#oneLevel", "person#sn$EQ#all"}},
	{"3.3.11", "Facsimile Telephone Number", "1.3.6.1.4.1.1466.115.121.1.22",
		[]string{"+61 3 9896 7801", "+81 3 347 7418$fineResolution", "1$a3Width$b4Length"}, []string{"", "+1$finest", "$fineResolution", "+1*"}},
	{"3.3.12", "Fax", "1.3.6.1.4.1.1466.115.121.1.23", []string{"\x30\x00", "", "\xff"}, nil},
	{"3.3.13", "Generalized Time", "1.3.6.1.4.1.1466.115.121.1.24",
		[]string{"199412161032Z", "199412160532-0500", "1994121610.5Z", "19941216103259,25+01", "19941231235960Z"},
		[]string{"", "199412161032", "19941316103200Z", "19940230103200Z", "199412162432Z", "1994121610Z0", "199412161032.Z", "199412161032+2400"}},
	{"3.3.14", "Guide", "1.3.6.1.4.1.1466.115.121.1.25",
		[]string{"person#sn$EQ", "sn$APPROX|(cn$GE&st$LE)", "?false"}, []string{"", "sn", "person#", "sn$EQ|", "(sn$EQ"}},
	{"3.3.15", "IA5 String", "1.3.6.1.4.1.1466.115.121.1.26",
		[]string{"", "any ASCII\x00\x7f", "a@b"}, []string{"é", "a\x80"}},
	{"3.3.16", "INTEGER", "1.3.6.1.4.1.1466.115.121.1.27",
		[]string{"1321", "0", "-1", strings.Repeat("9", 300)}, []string{"", "-0", "007", "+1", "1.5", "1 ", "0x1"}},
	{"3.3.17", "JPEG", "1.3.6.1.4.1.1466.115.121.1.28", []string{"\xff\xd8\xff\xe0\x00\x10JFIF", ""}, nil},
	{"3.3.18", "LDAP Syntax Description", "1.3.6.1.4.1.1466.115.121.1.54",
		[]string{"( 1.3.6.1.4.1.1466.115.121.1.54 DESC 'LDAP Syntax Description' )", "( 1.2 X-A 'b' )"}, []string{"( 1.2 SUP x )", "( 1.2 DESC 'x )", "( )"}},
	{"3.3.19", "Matching Rule Description", "1.3.6.1.4.1.1466.115.121.1.30",
		[]string{"( 2.5.13.2 NAME 'caseIgnoreMatch' SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 )"}, []string{"( 2.5.13.2 NAME 'caseIgnoreMatch' )", "( 2.5.13.2 SYNTAX )", "( 1.2 MUST a )"}},
	{"3.3.20", "Matching Rule Use Description", "1.3.6.1.4.1.1466.115.121.1.31",
		[]string{"( 2.5.13.16 APPLIES ( givenName $ surname ) )", "( 1.2 APPLIES a )"}, []string{"( 2.5.13.16 )", "( 2.5.13.16 APPLIES )"}},
	{"3.3.21", "Name And Optional UID", "1.3.6.1.4.1.1466.115.121.1.34",
		[]string{"1.3.6.1.4.1.1466.0=#04024869,O=Test,C=GB#'0101'B", "O=Test", "#'0'B"}, []string{"Test", "O=Test,#'0101'B", "x#'01'B"}},
	{"3.3.22", "Name Form Description", "1.3.6.1.4.1.1466.115.121.1.35",
		[]string{"( 2.5.15.3 NAME 'orgNameForm' OC organization MUST o )", "( 1.2 OC a MUST ( b $ c ) MAY d )"}, []string{"( 2.5.15.3 OC organization )", "( 1.2 MUST o )"}},
	{"3.3.23", "Numeric String", "1.3.6.1.4.1.1466.115.121.1.36",
		[]string{"15 079 672 281", " ", "0"}, []string{"", "1-2", "1a", "\u0661"}},
	{"3.3.24", "Object Class Description", "1.3.6.1.4.1.1466.115.121.1.37",
		[]string{"( 2.5.6.2 NAME 'country' SUP top STRUCTURAL MUST c MAY ( searchGuide $ description ) )", "( 1.2 AUXILIARY )"}, []string{"( 2.5.6.2 NAME 'country'", "( 1.2 EQUALITY x )", "( 1.2 MUST )"}},
	{"3.3.25", "Octet String", "1.3.6.1.4.1.1466.115.121.1.40", []string{"", "\x00\xff"}, nil},
	{"3.3.26", "OID", "1.3.6.1.4.1.1466.115.121.1.38",
		[]string{"1.2.3.4", "cn", "a-1"}, []string{"", "1", "1.02", "1..2", "c n", "-a", "1a"}},
	{"3.3.27", "Other Mailbox", "1.3.6.1.4.1.1466.115.121.1.39",
		[]string{"internet$jsmith@example.com", "x$"}, []string{"jsmith@example.com", "$x", "x*$y", "x$é"}},
	{"3.3.28", "Postal Address", "1.3.6.1.4.1.1466.115.121.1.41",
		[]string{"1234 Main St.$Anytown, CA 12345$USA", `\241,000,000 Sweepstakes$PO Box 1000000$Anytown, CA 12345$USA`, `a\5cb`}, []string{"", `a\b`, "\xff", `\2`}},
	{"3.3.29", "Printable String", "1.3.6.1.4.1.1466.115.121.1.44",
		[]string{"This is a Printable String", "'()+,-./:?= 09"}, []string{"", "a@b", "a_b", "é", "\"a\""}},
	{"3.3.30", "Substring Assertion", "1.3.6.1.4.1.1466.115.121.1.58",
		[]string{"abc*", "*abc*def", `a\2Ab*`, "*"}, []string{"", "abc", "a**b", `a\*`}},
	{"3.3.31", "Telephone Number", "1.3.6.1.4.1.1466.115.121.1.50",
		[]string{"+1 512 315 0280", "+1-512-315-0280", "+61 3 9896 7830"}, []string{"", "+1#2", "\u0661"}},
	{"3.3.32", "Teletex Terminal Identifier", "1.3.6.1.4.1.1466.115.121.1.51",
		[]string{"P-20", "P$graphic:x$control:y", "P$private:\x00"}, []string{"", "P$x:y", "P$graphic", "$graphic:x"}},
	{"3.3.33", "Telex Number", "1.3.6.1.4.1.1466.115.121.1.52",
		[]string{"12345$de$answer", "1$2$3"}, []string{"12345", "1$2", "1$$3", "1$2$3$4"}},
	{"3.3.34", "UTC Time", "1.3.6.1.4.1.1466.115.121.1.53",
		[]string{"9412161032Z", "941216103259Z", "9412160532-0500", "9412161032"}, []string{"", "19941216103200Z", "9413161032Z", "9412161032.5Z", "9412161032+05"}},
}

// TestRFC4517 tests every syntax (3.3) and every matching rule (4.2) of RFC 4517.
func TestRFC4517(t *testing.T) {
	for _, c := range rfc4517Syntaxes {
		t.Run(c.section+"_"+strings.ReplaceAll(c.name, " ", ""), func(t *testing.T) {
			x := Core().SyntaxOf(c.oid)
			if x == nil || x.Desc != c.name {
				t.Fatalf("syntax %s is %+v, not %s", c.oid, x, c.name)
			}
			for _, v := range c.good {
				if err := x.Validate([]byte(v)); err != nil {
					t.Errorf("%q: %v", v, err)
				}
			}
			for _, v := range c.bad {
				if x.Validate([]byte(v)) == nil {
					t.Errorf("%q is let pass", v)
				}
			}
		})
	}
	for _, c := range rfc4517Rules {
		t.Run(c.section+"_"+c.rule, func(t *testing.T) {
			r := rule(t, c.rule)
			for _, x := range c.cases {
				if got := verdict(t, r, x.value, x.assertion); got != x.want {
					t.Errorf("%q and %q: %s; want %s", x.value, x.assertion, got, x.want)
				}
			}
		})
	}
}

// TestRFC4517IsWhole checks that no section of RFC 4517 is missing, and that each section
// has cases of all kinds.
func TestRFC4517IsWhole(t *testing.T) {
	for i, c := range rfc4517Syntaxes {
		if want := fmt.Sprint("3.3.", i+1); c.section != want {
			t.Fatalf("section %s stands where %s should", c.section, want)
		}
		if free := slices.Contains(anySyntax, c.section); len(c.good)+len(c.bad) < 3 && !free || len(c.good) == 0 || len(c.bad) == 0 != free {
			t.Errorf("%s: %d values that are good and %d that are not", c.section, len(c.good), len(c.bad))
		}
	}
	for i, c := range rfc4517Rules {
		if want := fmt.Sprint("4.2.", i+1); c.section != want {
			t.Fatalf("section %s stands where %s should", c.section, want)
		}
		seen := map[string]bool{}
		for _, x := range c.cases {
			seen[x.want] = true
		}
		// An octet string rule has no invalid assertions.
		if octets := strings.HasPrefix(c.rule, "octetString"); !seen[yes] || !seen[no] || seen[undefined] == octets || len(c.cases) < 3 {
			t.Errorf("%s %s: cases of %v", c.section, c.rule, seen)
		}
	}
	if n, m := len(rfc4517Syntaxes), len(rfc4517Rules); n != 34 || m != 32 {
		t.Errorf("%d syntaxes of 34, %d rules of 32", n, m)
	}
}
