package schema

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseFile(t *testing.T) {
	got, err := ParseFile("a.schema", `# a comment (
objectIdentifier Root 1.2
ObjectIdentifier rootTypes Root:1
attributetype ( ROOTtypes:1
	NAME 'a'
  # in between )

	DESC '(' SYNTAX rootTypes:9{3} )

objectclass ( root:3
MAY a )
objectClasses: {3}( 1.4 SUP top )
attributeype ( rootTypes NAME 'typo' )
`, Macros{})
	if err != nil {
		t.Fatal(err)
	}
	want := []Definition{
		{Attribute: "attributeTypes", Text: "( 1.2.1.1 NAME 'a' DESC '(' SYNTAX 1.2.1.9{3} )", Source: "a.schema:4"},
		{Attribute: "objectClasses", Text: "( 1.2.3 STRUCTURAL MAY a )", Source: "a.schema:10"},
		{Attribute: "objectClasses", Text: "( 1.4 SUP top STRUCTURAL )", Source: "a.schema:12"},
		{Attribute: "attributeTypes", Text: "( 1.2.1 NAME 'typo' )", Source: "a.schema:13"},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestParseFileFails(t *testing.T) {
	for text, want := range map[string]string{
		"\n\nattributetype ( 1.2 NAM 'a' )":                       `a.schema:3: definition of 1.2, byte 6: unknown keyword "NAM"`,
		"include /etc/x.schema":                                   `byte 21: no "(" found`,
		"moduleload ( x )":                                        `a.schema:1: definition of "moduleload ( x )", byte 0: "moduleload" is not one of`,
		"attributetype ( 1.2 NAME 'a'":                            "a.schema:1: definition of a, byte 14: expected a keyword",
		"objectIdentifier a b":                                    `a.schema:1: objectIdentifier a: "b" is neither an OID`,
		"objectIdentifier a 1.2\n\nobjectIdentifier A 1.3":        "a.schema:3: objectIdentifier A: it is 1.2 already, now 1.3",
		"# x\nstray )":                                            `a.schema:2: definition of "stray )", byte 7: no "(" found`,
		"attributetype ( 1.2 NAME 'a' )\nobjectclass ( 1.3 ) x )": "a.schema:2: definition of 1.3, byte 8: text after the definition's end",
	} {
		_, err := ParseFile("a.schema", text, Macros{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}
