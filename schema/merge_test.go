package schema

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const directoryString = "SYNTAX 1.3.6.1.4.1.1466.115.121.1.15"

// file returns definitions with sources as if they were read from a file with one
// definition per line.
func file(lines ...string) (ds []Definition) {
	for i, line := range lines {
		d, err := label(line)
		if err != nil {
			panic(err)
		}
		d.Source = "f:" + string(rune('1'+i))
		ds = append(ds, d)
	}
	return ds
}

func TestMerge(t *testing.T) {
	for _, c := range []struct {
		what  string
		in    []string
		add   []string
		notes []string
	}{
		{"new", []string{"attributetype ( 2.25.1 NAME 'a' SUP name )", "objectclass ( 2.25.2 NAME 'b' SUP top MAY a )"},
			[]string{"( 2.25.1 NAME 'a' SUP name )", "( 2.25.2 NAME 'b' SUP top STRUCTURAL MAY a )"}, nil},
		{"as it is", []string{"attributetype ( 2.5.4.3 NAME 'cn' DESC 'x' SUP name EQUALITY caseIgnoreMatch " + directoryString + "{99} X-ORIGIN 'y' )",
			"objectclass ( 2.5.6.6 NAME 'person' MUST ( cn $ sn ) MAY ( userPassword $ description $ telephoneNumber $ seeAlso ) )",
			"ldapsyntax ( 1.3.6.1.4.1.1466.115.121.1.15 DESC 'x' )", "matchingrule ( 2.5.13.2 NAME 'x' SYNTAX 1.2 )", "matchingruleuse ( 2.5.13.2 APPLIES cn )"},
			nil, nil},
		{"a stricter class", []string{"objectclass ( 2.5.6.6 NAME 'person' SUP top MUST ( cn $ sn $ telephoneNumber ) )"}, nil, nil},
		{"a wider class", []string{"objectclass ( 2.5.6.9 NAME ( 'groupOfNames' 'group' ) SUP top STRUCTURAL MUST cn MAY ( member $ ou $ mail ) )"},
			[]string{"( 2.5.6.9 NAME ( 'groupOfNames' 'group' ) SUP top STRUCTURAL MUST cn MAY ( member $ businessCategory $ seeAlso $ owner $ ou $ o $ description $ mail ) )"},
			[]string{"f:1: groupOfNames: becomes"}},
		{"another kind", []string{"objectclass ( 1.3.6.1.1.1.2.2 NAME 'posixGroup' SUP top AUXILIARY MUST gidNumber )"},
			[]string{"( 1.3.6.1.1.1.2.2 NAME 'posixGroup' DESC 'Abstraction of a group of accounts' SUP top AUXILIARY MUST gidNumber MAY ( cn $ userPassword $ memberUid $ description ) )"},
			[]string{"f:1: posixGroup: becomes"}},
		{"twice, wider each time", []string{"objectclass ( 2.5.6.9 NAME 'groupOfNames' SUP top MUST cn MAY mail )", "objectclass ( 2.5.6.9 NAME 'groupOfNames' SUP top MUST member MAY l )"},
			[]string{"( 2.5.6.9 NAME 'groupOfNames' SUP top STRUCTURAL MAY ( cn $ member $ businessCategory $ seeAlso $ owner $ ou $ o $ description $ mail $ l ) )"},
			[]string{"f:1: groupOfNames", "f:2: groupOfNames"}},
		{"new ones of the files, wider", []string{"objectclass ( 2.25.1 NAME 'a' MUST cn )", "objectclass ( 2.25.1 NAME 'a' MUST sn )"},
			[]string{"( 2.25.1 NAME 'a' STRUCTURAL MAY ( cn $ sn ) )"}, []string{"f:2: a: becomes"}},
		{"more names", []string{"attributetype ( 2.5.4.7 NAME ( 'l' 'locality' ) SUP name )"}, []string{"( 2.5.4.7 NAME ( 'l' 'localityName' 'locality' ) SUP name )"}, nil},
		{"more values", []string{"attributetype ( 2.16.840.1.113730.3.1.241 NAME 'displayName' EQUALITY caseIgnoreMatch " + directoryString + " )"},
			[]string{"( 2.16.840.1.113730.3.1.241 NAME 'displayName' DESC 'preferred name of a person to be used when displaying entries' EQUALITY caseIgnoreMatch SUBSTR caseIgnoreSubstringsMatch " + directoryString + " )"}, nil},
		{"another syntax of a built-in type", []string{"attributetype ( 2.5.4.36 NAME 'userCertificate' SYNTAX 1.3.6.1.4.1.1466.115.121.1.40 )"}, nil,
			[]string{"f:1: userCertificate: its SYNTAX differs here"}},
		{"a built-in type by another OID", []string{"attributetype ( 2.25.1 NAME 'numSubordinates' SYNTAX 1.3.6.1.4.1.1466.115.121.1.27 USAGE directoryOperation )"}, nil,
			[]string{"f:1: numSubordinates: its NO-USER-MODIFICATION differs here"}},
		{"what the server needs", []string{"objectclass ( 2.16.840.1.113730.3.2.6 NAME 'referral' SUP top MAY ref )"}, nil, nil},
		{"the name of what the server needs, of another kind", []string{"objectclass ( 2.5.6.0 NAME 'top' SUP person ABSTRACT MUST objectClass )"}, nil, []string{"f:1: top: its kind or superclasses are others here, which the server needs"}},
		{"what every entry may have", []string{"objectclass ( 2.5.6.0 NAME 'top' ABSTRACT MUST ( objectClass $ cn ) MAY mail )"}, []string{"( 2.5.6.0 NAME 'top' ABSTRACT MUST objectClass MAY ( cn $ mail ) )"}, []string{"f:1: top: becomes"}},
		{"a second name that is a secret type's", []string{"attributetype ( 2.25.1 NAME ( 'passwordHistory' 'pwdHistory' ) SYNTAX 1.3.6.1.4.1.1466.115.121.1.5 )"},
			[]string{"( 2.25.1 NAME 'passwordHistory' SYNTAX 1.3.6.1.4.1.1466.115.121.1.5 X-SECRET 'TRUE' )"}, []string{"f:1: passwordHistory: it is not also called pwdHistory"}},
		{"rules that are not here", []string{"attributetype ( 2.25.1 NAME 'a' EQUALITY noMatch ORDERING caseIgnoreMatch SUBSTR caseIgnoreSubstringsMatch " + directoryString + " )", "matchingrule ( 2.25.2 NAME 'noMatch' " + directoryString + " )"},
			[]string{"( 2.25.1 NAME 'a' SUBSTR caseIgnoreSubstringsMatch " + directoryString + " )"},
			[]string{"f:1: a: EQUALITY noMatch is left out", "f:1: a: ORDERING caseIgnoreMatch is left out", "f:2: noMatch: this server has no such matching rule"}},
		{"a new syntax", []string{"ldapsyntax ( 2.25.1 DESC 'x' X-SUBST '1.3.6.1.4.1.1466.115.121.1.27' )"}, []string{"( 2.25.1 DESC 'x' X-SUBST '1.3.6.1.4.1.1466.115.121.1.27' )"}, nil},
		{"the same form twice", []string{"nameForms: ( 2.25.1 NAME 'f' OC person MUST cn )", "nameForms: ( 2.25.1 NAME 'f' DESC 'x' OC person MUST commonName )"}, []string{"( 2.25.1 NAME 'f' OC person MUST cn )"}, nil},
	} {
		m, err := Core().Merge(file(c.in...))
		if err != nil {
			t.Errorf("%s: %v", c.what, err)
			continue
		}
		var add []string
		for _, d := range m.Add {
			add = append(add, d.Text)
		}
		if d := cmp.Diff(c.add, add); d != "" {
			t.Errorf("%s: %s", c.what, d)
		}
		if !slices.EqualFunc(m.Notes, c.notes, strings.HasPrefix) {
			t.Errorf("%s: notes %q, want %q", c.what, m.Notes, c.notes)
		}
		s, err := Core().Change(m.Add, m.Remove)
		if err != nil {
			t.Errorf("%s: %v", c.what, err)
			continue
		}
		// Merging the same definitions again changes nothing.
		if again, err := s.Merge(file(c.in...)); err != nil || len(again.Add)+len(again.Remove) > 0 {
			t.Errorf("%s: the second time there is %+v to do (%v)", c.what, again, err)
		}
	}
}

func TestMergeConflicts(t *testing.T) {
	for _, c := range []struct {
		what string
		in   []string
		want []string
	}{
		{"another syntax", []string{"attributetype ( 2.25.1 NAME 'a' SUP name )", "attributetype ( 2.25.1 NAME 'a' SYNTAX 1.3.6.1.4.1.1466.115.121.1.27 )"},
			[]string{"f:2: definition of a: its SYNTAX is not that of the definition there is (f:1): ( 2.25.1 NAME 'a' SUP name )"}},
		{"another rule", []string{"attributetype ( 2.25.1 NAME 'a' SUP name )", "attributetype ( 2.25.1 NAME 'a' EQUALITY caseExactMatch " + directoryString + " )"}, []string{"f:2: definition of a: its EQUALITY"}},
		{"another kind", []string{"objectclass ( 2.25.1 NAME 'a' )", "objectclass ( 2.25.1 NAME 'a' AUXILIARY )"}, []string{"f:2: definition of a: its kind or its superclasses"}},
		{"another superclass", []string{"objectclass ( 2.25.1 NAME 'a' )", "objectclass ( 2.25.1 NAME 'a' SUP person )"}, []string{"f:2: definition of a: its kind or its superclasses"}},
		{"a name of one with another OID", []string{"attributetype ( 2.25.1 NAME 'a' SUP name )", "attributetype ( 2.25.2 NAME 'A' SUP name )"}, []string{`f:2: definition of A: the name "A" is that of 2.25.1 already (f:1)`}},
		{"a macro that nothing defines", []string{"attributetype ( root:1 NAME 'a' SUP name )", "attributetype ( 2.25.2 NAME 'b:c' SUP name )"}, []string{`f:1: definition of a: nothing defines the macro root of its OID root:1`, `f:2: definition of b:c: there is a colon in the name "b:c"`}},
		{"names of two", []string{"attributetype ( 2.25.1 NAME 'a' SUP name )", "attributetype ( 2.25.2 NAME ( 'cn' 'a' ) SUP name )"}, []string{`the name "a" is that of 2.25.1 already`}},
		{"a name that another built-in has", []string{"attributetype ( 2.5.4.7 NAME ( 'l' 'st' ) SUP name )"}, []string{`definition of l: the name "st" is that of 2.5.4.8 already`}},
		{"all that is wrong, at once", []string{"attributetype ( 2.25.1 NAM 'a' )", "attributetype ( 2.25.2 NAME 'b' )", "attributetype ( 2.25.3 NAM 'c' )"}, []string{"f:1: definition of 2.25.1", "f:3: definition of 2.25.3"}},
		{"something missing", []string{"attributetype ( 2.25.1 NAME 'a' SUP b )"}, []string{`f:1: definition of a: there is no supertype "b"`}},
		{"its own supertype", []string{"attributetype ( 2.25.1 NAME 'a' SUP a )", "attributetype ( 2.25.1 NAME 'a' SUP a )"}, []string{"it is its own supertype"}},
		{"another form", []string{"nameForms: ( 2.25.1 NAME 'f' OC person MUST cn )", "nameForms: ( 2.25.1 NAME 'f' OC person MUST sn )"}, []string{"f:2: definition of f: it is defined already, as something else: ( 2.25.1"}},
	} {
		m, err := Core().Merge(file(c.in...))
		if err == nil {
			t.Errorf("%s: %+v", c.what, m)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v\nwant %s", c.what, err, want)
			}
		}
	}
}

// TestSecretTypesOfOthers checks that a type in secretTypes is secret although its definition
// has no X-SECRET.
func TestSecretTypesOfOthers(t *testing.T) {
	s, err := Core().Extend("attributeTypes: ( 1.3.6.1.4.1.7165.2.1.25 NAME 'sambaNTPassword' EQUALITY caseIgnoreIA5Match SYNTAX 1.3.6.1.4.1.1466.115.121.1.26{32} SINGLE-VALUE )")
	if err != nil || !s.Attribute("sambaNTPassword").Secret() {
		t.Errorf("sambaNTPassword is not secret (%v)", err)
	}
}

// TestMergeGood checks that MergeGood leaves out wrong definitions and the definitions that
// refer to them, and no other definitions.
func TestMergeGood(t *testing.T) {
	for _, c := range []struct {
		what  string
		in    []string
		add   []string
		wrong []string
	}{
		{"nothing wrong", []string{"attributetype ( 2.25.1 NAME 'a' SUP name )"}, []string{"( 2.25.1 NAME 'a' SUP name )"}, nil},
		{"malformed", []string{"attributetype ( 2.25.1 NAM 'a' )", "attributetype ( 2.25.2 NAME 'b' SUP name )"},
			[]string{"( 2.25.2 NAME 'b' SUP name )"}, []string{"f:1: definition of 2.25.1"}},
		{"in conflict", []string{"attributetype ( 2.25.1 NAME 'a' SUP name )", "attributetype ( 2.25.1 NAME 'a' SYNTAX 1.3.6.1.4.1.1466.115.121.1.27 )"},
			[]string{"( 2.25.1 NAME 'a' SUP name )"}, []string{"f:2: definition of a: its SYNTAX"}},
		{"what needs it goes too", []string{"objectclass ( 2.25.3 NAME 'c' MAY b )", "attributetype ( 2.25.2 NAME 'b' SUP a )", "attributetype ( 2.25.1 NAME 'a' SUP nothing )", "attributetype ( 2.25.4 NAME 'd' SUP name )"},
			[]string{"( 2.25.4 NAME 'd' SUP name )"},
			[]string{`f:1: definition of c: there is no attribute type "b"`, `f:2: definition of b: there is no supertype "a"`, `f:3: definition of a: there is no supertype "nothing"`}},
		{"one refused for the sake of a wrong one", []string{"attributetype ( 2.25.1 NAME 'a' SUP nothing )", "attributetype ( 2.25.2 NAME 'a' SUP name )"},
			[]string{"( 2.25.2 NAME 'a' SUP name )"}, []string{`f:1: definition of a: there is no supertype "nothing"`}},
		{"a built-in class that would need what is not there", []string{"objectclass ( 2.5.6.9 NAME 'groupOfNames' SUP top MUST cn MAY ( member $ nothing ) )", "attributetype ( 2.25.1 NAME 'a' SUP name )"},
			[]string{"( 2.25.1 NAME 'a' SUP name )"}, []string{`f:1: definition of groupOfNames: there is no attribute type "nothing"`}},
		{"a circle", []string{"attributetype ( 2.25.1 NAME 'a' SUP b )", "attributetype ( 2.25.2 NAME 'b' SUP a )"}, nil,
			[]string{"f:1: definition of a: it is its own supertype", `f:2: definition of b: there is no supertype "a"`}},
	} {
		m, wrong, err := Core().MergeGood(file(c.in...))
		if err != nil {
			t.Errorf("%s: %v", c.what, err)
			continue
		}
		var add, errs []string
		for _, d := range m.Add {
			add = append(add, d.Text)
		}
		for _, err := range wrong {
			errs = append(errs, err.Error())
		}
		if d := cmp.Diff(c.add, add); d != "" {
			t.Errorf("%s: %s", c.what, d)
		}
		if !slices.EqualFunc(errs, c.wrong, strings.HasPrefix) {
			t.Errorf("%s: wrong are %q, want %q", c.what, errs, c.wrong)
		}
		if _, err := Core().Change(m.Add, m.Remove); err != nil {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}
