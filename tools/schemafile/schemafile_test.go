package schemafile

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-4dac0d86/ldapd/schema"
)

func TestRead(t *testing.T) {
	for _, c := range []struct {
		what, text string
		want       []schema.Definition
	}{
		{"OpenLDAP's cn=config", `
# AUTO-GENERATED FILE
dn: cn=x,cn=schema,cn=config
objectClass: olcSchemaConfig
cn: x
olcAttributeTypes: {0}( Own:1 NAME 'a' SYNTAX
  ownSyntax{64} )
olcObjectClasses: {0}( Own:2 NAME 'b' MAY a )
olcObjectIdentifier: {0}Own 1.2.3
olcObjectIdentifier: {1}ownSyntax Own:9
olcDitContentRules: {0}( 2.5.6.6 NOT l )
olcLdapSyntaxes: {0}( 1.2.3.9 X-SUBST '1.2' )
`, []schema.Definition{
			{Attribute: "attributeTypes", Text: "( 1.2.3.1 NAME 'a' SYNTAX 1.2.3.9{64} )", Source: "f:6"},
			{Attribute: "objectClasses", Text: "( 1.2.3.2 NAME 'b' STRUCTURAL MAY a )", Source: "f:8"},
			{Attribute: "dITContentRules", Text: "( 2.5.6.6 NOT l )", Source: "f:11"},
			{Attribute: "ldapSyntaxes", Text: "( 1.2.3.9 X-SUBST '1.2' )", Source: "f:12"},
		}},
		{"389-ds and what ldapsearch gives", `version: 1

dn: cn=schema
objectclass: top
objectClass: subschema
# in between
attributetypes: ( a-oid NAME 'a' SYNTAX 1.3 X-ORIGIN 'x' )
aci: (target="ldap:///cn=schema")
objectClasses:: KCAxLjIgTkFNRSAnYicgTUFZIGEgKQ==
nameForms: ( 1.3 OC b MUST a )
dITStructureRules: ( 1 FORM f )
matchingRuleUse: ( 1.4 APPLIES a )

dn: cn=elsewhere
cn: nothing of ours
attributeTypes: ( 1.5 SYNTAX 1.3 )
`, []schema.Definition{
			{Attribute: "attributeTypes", Text: "( a-oid NAME 'a' SYNTAX 1.3 X-ORIGIN 'x' )", Source: "f:7", Derive: true},
			{Attribute: "objectClasses", Text: "( 1.2 NAME 'b' STRUCTURAL MAY a )", Source: "f:9", Derive: true},
			{Attribute: "nameForms", Text: "( 1.3 OC b MUST a )", Source: "f:10", Derive: true},
			{Attribute: "dITStructureRules", Text: "( 1 FORM f )", Source: "f:11", Derive: true},
			{Attribute: "matchingRuleUse", Text: "( 1.4 APPLIES a )", Source: "f:12", Derive: true},
			{Attribute: "attributeTypes", Text: "( 1.5 SYNTAX 1.3 )", Source: "f:16"},
		}},
		{"changes", `dn: cn=subschema
changetype: modify
add: attributeTypes
attributeTypes: ( 1.2 SYNTAX 1.3 )
attributeTypes: ( 1.3 SYNTAX 1.3 )
-
add: objectClasses
objectClasses: ( 1.4 )
-
replace: modifiersName
modifiersName: cn=me
`, []schema.Definition{
			{Attribute: "attributeTypes", Text: "( 1.2 SYNTAX 1.3 )", Source: "f:4"},
			{Attribute: "attributeTypes", Text: "( 1.3 SYNTAX 1.3 )", Source: "f:5"},
			{Attribute: "objectClasses", Text: "( 1.4 STRUCTURAL )", Source: "f:8"},
		}},
		{"ApacheDS", `version: 1
dn: m-oid=1.2,ou=attributeTypes,cn=x,ou=schema
objectclass: metaAttributeType
objectclass: top
m-oid: 1.2
m-name: a
m-name: b
m-description: it's \ here
m-supAttributeType: name
m-equality: eq
m-ordering: ord
m-substr: sub
m-syntax: 1.3
m-length: 7
m-obsolete: TRUE
m-singleValue: TRUE
m-collective: TRUE
m-noUserModification: TRUE
m-usage: DIRECTORY_OPERATION

dn: m-oid=1.3,ou=objectClasses,cn=x,ou=schema
changetype: add
objectclass: metaObjectClass
m-oid: 1.3
m-name: c
m-supobjectclass: d
m-supobjectclass: e
m-typeobjectclass: AUXILIARY
m-must: f
m-may: g
m-may: h
m-obsolete: FALSE

dn: m-oid=1.4,ou=syntaxes,cn=x,ou=schema
objectclass: metaSyntax
m-oid: 1.4
m-length: 0

dn: m-oid=1.5,ou=nameForms,cn=x,ou=schema
objectclass: metaNameForm
m-oid: 1.5
m-oc: c
m-must: f

dn: m-oid=2,ou=ditStructureRules,cn=x,ou=schema
objectclass: metaDITStructureRule
m-ruleId: 2
m-form: 1.5
m-supDITStructureRuleId: 1

dn: m-oid=1.3,ou=ditContentRules,cn=x,ou=schema
objectclass: metaDITContentRule
m-oid: 1.3
m-aux: i
m-not: j

dn: m-oid=1.4,ou=syntaxCheckers,cn=x,ou=schema
objectclass: metaSyntaxChecker
m-oid: 1.4
m-fqcn: org.apache.Checker
`, []schema.Definition{
			{Attribute: "attributeTypes", Text: `( 1.2 NAME ( 'a' 'b' ) DESC 'it\27s \5C here' OBSOLETE SUP name EQUALITY eq ORDERING ord SUBSTR sub SYNTAX 1.3{7} SINGLE-VALUE COLLECTIVE NO-USER-MODIFICATION USAGE directoryOperation )`, Source: "f:2"},
			{Attribute: "objectClasses", Text: "( 1.3 NAME 'c' SUP ( d $ e ) AUXILIARY MUST f MAY ( g $ h ) )", Source: "f:21"},
			{Attribute: "ldapSyntaxes", Text: "( 1.4 )", Source: "f:34"},
			{Attribute: "nameForms", Text: "( 1.5 OC c MUST f )", Source: "f:39"},
			{Attribute: "dITStructureRules", Text: "( 2 FORM 1.5 SUP 1 )", Source: "f:45"},
			{Attribute: "dITContentRules", Text: "( 1.3 AUX i NOT j )", Source: "f:51"},
		}},
		{"slapd.conf", "objectidentifier own 1.2\nattributetype ( own:1 SYNTAX 1.3 )\n", []schema.Definition{
			{Attribute: "attributeTypes", Text: "( 1.2.1 SYNTAX 1.3 )", Source: "f:2"},
		}},
		{"nothing", "# nothing\n", nil},
	} {
		var f Files
		if err := f.Read("f", strings.NewReader(c.text)); err != nil {
			t.Errorf("%s: %v", c.what, err)
		}
		if d := cmp.Diff(c.want, f.Definitions); d != "" {
			t.Errorf("%s: %s", c.what, d)
		}
	}
}

func TestReadFails(t *testing.T) {
	for text, want := range map[string]string{
		"dn: cn=x\nattributeTypes: ( 1.2 NAM 'a' )\n":                                        "f:2: definition of 1.2, byte 6: unknown keyword",
		"dn: cn=x\nattributeTypes: 1.2\n":                                                    `f:2: definition of "1.2", byte 0: expected "("`,
		"dn: cn=x\nolcAttributeTypes: {x}( 1.2 )\n":                                          `f:2: definition of "{x}( 1.2 )"`,
		"dn: cn=x\nolcObjectIdentifier: {0}a b\n":                                            "f:2: objectIdentifier a:",
		"dn: cn=x\nolcObjectIdentifier: a\n":                                                 `f:2: olcObjectIdentifier has a name and an OID, not "a"`,
		"dn: cn=x\nchangetype: delete\n":                                                     "f:1: a schema file adds definitions",
		"dn: cn=x\nchangetype: modify\ndelete: attributeTypes\nattributeTypes: ( 1.2 )\n-\n": "f:1: a schema file adds values of attributeTypes",
		"dn: cn=x\nno colon\n":                                                               "f:2",
		"dn: m-oid=1.2\nobjectclass: metaAttributeType\nm-oid: 1.2 )\n":                      "f:1: definition of 1.2",
		"attributetype ( 1.2 NAM 'a' )":                                                      "f:1: definition of 1.2",
	} {
		var f Files
		err := f.Read("f", strings.NewReader(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// TestObject checks that an entry of Active Directory's own form is reported, and that the definitions beside it are read.
func TestObject(t *testing.T) {
	var f Files
	text := "dn: CN=a,CN=Schema,CN=Configuration,DC=x\nobjectClass: top\nobjectClass: attributeSchema\n\n" +
		"dn: CN=Aggregate,CN=Schema,CN=Configuration,DC=x\nobjectClass: subSchema\nattributeTypes: ( 1.2 )\n"
	if err := f.Read("f", strings.NewReader(text)); err != nil || len(f.Definitions) != 1 {
		t.Errorf("%v, %+v", err, f.Definitions)
	}
	if f.Object == nil || !strings.HasPrefix(f.Object.Error(), "f:1: CN=a,CN=Schema,CN=Configuration,DC=x is how") {
		t.Errorf("%v", f.Object)
	}
}

func TestReadPath(t *testing.T) {
	fsys := fstest.MapFS{
		"s/1.schema":     {Data: []byte("objectidentifier own 1.2\n")},
		"s/2/x.ldif":     {Data: []byte("dn: cn=x\nattributeTypes: ( own:1 SYNTAX 1.3 )\n")},
		"s/README":       {Data: []byte("read me")},
		"s/3.SCHEMA":     {Data: []byte("objectclass ( own:2 )\n")},
		"bare":           {Data: []byte("objectclass ( 1.2.9 )\n")},
		"elsewhere.ldif": {Data: []byte("dn: cn=x\nattributeTypes: ( 1.9 SYNTAX 1.3 )\n")},
	}
	var f Files
	for _, p := range []string{"s", "bare"} {
		if err := f.ReadPath(fsys, p); err != nil {
			t.Fatal(err)
		}
	}
	want := []schema.Definition{
		{Attribute: "attributeTypes", Text: "( 1.2.1 SYNTAX 1.3 )", Source: "s/2/x.ldif:2"},
		{Attribute: "objectClasses", Text: "( 1.2.2 STRUCTURAL )", Source: "s/3.SCHEMA:1"},
		{Attribute: "objectClasses", Text: "( 1.2.9 STRUCTURAL )", Source: "bare:1"},
	}
	if d := cmp.Diff(want, f.Definitions); d != "" {
		t.Error(d)
	}
	if err := f.ReadPath(fsys, "nowhere"); err == nil {
		t.Error("a path that is not there is read")
	}
}

// TestContinue checks that Continue reports each mistake in a file of any kind and reads on.
func TestContinue(t *testing.T) {
	const good = "( 2.25.1 NAME 'a' SYNTAX 1.3 )"
	for what, text := range map[string]string{
		"values":      "dn: cn=schema\nattributeTypes: ( 2.25.9 SYNTAX 1.3{none} )\nattributeTypes: " + good + "\n",
		"a record":    "dn: cn=schema\nfoo\n\ndn: cn=schema\nattributeTypes: " + good + "\n",
		"a deletion":  "dn: cn=schema\nchangetype: delete\n\ndn: cn=schema\nchangetype: modify\nadd: attributeTypes\nattributeTypes: " + good + "\n",
		"replacement": "dn: cn=schema\nchangetype: modify\nreplace: attributeTypes\nattributeTypes: " + good + "\n-\nadd: attributeTypes\nattributeTypes: " + good + "\n",
		"a macro":     "dn: cn=x,cn=schema,cn=config\nolcObjectIdentifier: {0}x\nolcAttributeTypes: {0}" + good + "\n",
		"ApacheDS":    "dn: m-oid=x\nobjectClass: metaAttributeType\nm-name: b\n\ndn: m-oid=2.25.1\nobjectClass: metaAttributeType\nm-oid: 2.25.1\nm-name: a\nm-syntax: 1.3\n",
		"directives":  "attributetype ( 2.25.9 SYNTAX 1.3{none} )\nattributetype " + good + "\n",
	} {
		f := Files{Continue: true}
		if err := f.Read("f", strings.NewReader(text)); err != nil || len(f.Mistakes) != 1 || len(f.Definitions) != 1 || f.Definitions[0].Text != good {
			t.Errorf("%s: %v, %v, %+v", what, err, f.Mistakes, f.Definitions)
		}
		if err := new(Files).Read("f", strings.NewReader(text)); err == nil {
			t.Errorf("%s: no error without Continue", what)
		}
	}
}

// TestDerives checks which files come from servers that derive matching rules.
func TestDerives(t *testing.T) {
	yes, no := true, false
	for _, c := range []struct {
		dn   string
		set  *bool
		want bool
	}{
		{"cn=schema", nil, true}, {"CN = Schema", nil, true}, {"CN=Aggregate,CN=Schema,CN=Configuration,DC=example,DC=com", nil, true},
		{"cn=Subschema", nil, false}, {"cn=core,cn=schema,cn=config", nil, false}, {"cn=schema", &no, false}, {"cn=Subschema", &yes, true},
	} {
		f := Files{Derive: c.set}
		err := f.Read("f", strings.NewReader("dn: "+c.dn+"\nattributeTypes: ( 2.25.1 NAME 'a' SYNTAX 1.3 )\n"))
		if err != nil || f.Definitions[0].Derive != c.want {
			t.Errorf("%s: %v, %+v", c.dn, err, f.Definitions)
		}
	}
}

// TestUTF16 reads a file as Windows writes it.
func TestUTF16(t *testing.T) {
	var f Files
	text := "\xff\xfe"
	for _, c := range []byte("dn: cn=schema\r\nattributeTypes: ( 2.25.1 NAME 'a' SYNTAX 1.3 )\r\n") {
		text += string(rune(c)) + "\x00"
	}
	if err := f.Read("f", strings.NewReader(text)); err != nil || len(f.Definitions) != 1 {
		t.Errorf("%v, %+v", err, f.Definitions)
	}
}
