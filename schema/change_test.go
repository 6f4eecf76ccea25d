package schema

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func types(texts ...string) (ds []Definition) {
	for _, text := range texts {
		ds = append(ds, Definition{Attribute: "attributeTypes", Text: text})
	}
	return ds
}

func objects(texts ...string) (ds []Definition) {
	for _, text := range texts {
		ds = append(ds, Definition{Attribute: "objectClasses", Text: text})
	}
	return ds
}

func TestChange(t *testing.T) {
	s, err := Core().Change(slices.Concat(
		types("( 2.25.1.1 NAME 'floors' SYNTAX 1.3.6.1.4.1.1466.115.121.1.27 X-ORIGIN ( 'a' 'b' ) )", "( 2.25.1.2 NAME 'plan' SUP description )"),
		objects("( 2.25.1.3 NAME 'building' SUP top MUST floors MAY plan )")), nil)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(s.Definitions("attributeTypes"), "( 2.25.1.1 NAME 'floors' SYNTAX 1.3.6.1.4.1.1466.115.121.1.27 X-ORIGIN ( 'a' 'b' ) )") {
		t.Error("the definition is not shown with its extensions")
	}
	// Change removes several definitions together. It finds each of them by its name or
	// OID, and ignores the rest of a text such as NAME 'whatever'.
	gone, err := s.Change(nil, slices.Concat(types("plan", "2.25.1.1"), objects("( 2.25.1.3 NAME 'whatever' )")))
	if err != nil {
		t.Fatal(err)
	}
	if gone.Attribute("floors") != nil || gone.Class("building") != nil || s.Class("building") == nil {
		t.Error("what was removed is there, or has gone from the schema it was removed from")
	}
	// A replacement with a new name is at the position of the old definition.
	again, err := s.Change(types("( 2.25.1.1 NAME ( 'floors' 'storeys' ) DESC 'new' SYNTAX 1.3.6.1.4.1.1466.115.121.1.27 )"), types("( 2.25.1.1 )"))
	if err != nil {
		t.Fatal(err)
	}
	if a := again.Attribute("storeys"); a == nil || a.Desc != "new" || again.Class("building").Must[0] != a {
		t.Error("the new definition is not in force")
	}
	at := func(s *Schema) int { return slices.Index(s.Attributes(), s.Attribute("floors")) }
	if at(s) != at(again) {
		t.Errorf("it has moved from place %d to %d", at(s), at(again))
	}
}

func TestChangeRefuses(t *testing.T) {
	s := world(t)
	for _, c := range []struct {
		what        string
		add, remove []Definition
		fault       Fault
		problem     string
	}{
		{"a type that a class has", nil, types("carLicense"), InUse, "inetOrgPerson uses it (objectClasses)"},
		{"a supertype", nil, types("distinguishedName"), InUse, "uses it (attributeTypes)"},
		{"a superclass", nil, objects("person"), InUse, "uses it"},
		{"a class with a content rule", nil, objects("inetOrgPerson"), InUse, "personRule uses it (dITContentRules)"},
		{"an auxiliary class of a content rule", nil, objects("( 1.3.6.1.1.1.2.0 )"), InUse, "personRule uses it"},
		{"a class with a name form", nil, objects("organization"), InUse, "orgForm uses it"},
		{"a form with a rule", nil, []Definition{{Attribute: "nameForms", Text: "orgForm"}}, InUse, "orgs uses it"},
		{"a superior rule", nil, []Definition{{Attribute: "dITStructureRules", Text: "1"}}, InUse, "units uses it"},
		{"an operational type", nil, types("entryUUID"), InUse, "the server itself needs it"},
		{"a needed class", nil, objects("alias"), InUse, "the server itself needs it"},
		{"a needed type made another", types("( 2.5.4.0 NAME 'objectClass' EQUALITY caseIgnoreMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 )"), types("objectClass"), InUse, "the server itself needs it"},
		{"a needed type without a name", types("( 2.5.4.35 NAME 'password' EQUALITY octetStringMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.40 )"), types("userPassword"), InUse, "the server itself needs it"},
		{"a matching rule", nil, []Definition{{Attribute: "matchingRules", Text: "wordMatch"}}, InUse, "the server itself needs it"},
		{"a syntax", nil, []Definition{{Attribute: "ldapSyntaxes", Text: "( 1.3.6.1.4.1.1466.115.121.1.53 )"}}, InUse, "the server itself needs it"},
		{"what is not there", nil, types("2.25.7"), Missing, "nothing to remove"},
		{"a class by a type's name", nil, objects("cn"), Missing, "nothing to remove"},
		{"the same twice", nil, types("roomNumber", "roomNumber"), Missing, "nothing to remove"},
		{"what is there", types("( 2.5.4.3 NAME ( 'cn' 'commonName' ) SUP name )"), nil, Exists, "defined already"},
		{"a name that is there", types("( 2.25.1 NAME 'cn' SUP name )"), nil, Exists, "defined already"},
		{"a broken definition", types("( 2.25.1 NAME 'x"), nil, Malformed, "without end"},
		{"a broken definition to remove", nil, types("( "), Malformed, "expected"},
		{"a definition that lacks something", types("( 2.25.1 SUP nothing )"), nil, Conflict, "no supertype"},
		{"no such sort of thing", []Definition{{Attribute: "cn", Text: "( 2.25.1 )"}}, nil, Malformed, `"cn" is not one of`},
		{"no such sort of thing to remove", nil, []Definition{{Attribute: "cn", Text: "( 2.25.1 )"}}, Malformed, `"cn" is not one of`},
	} {
		_, err := s.Change(c.add, c.remove)
		var e *DefinitionError
		if !errors.As(err, &e) || e.Fault != c.fault || !strings.Contains(e.Problem, c.problem) {
			t.Errorf("%s: %v, want fault %d, %s", c.what, err, c.fault, c.problem)
		}
	}
}

// TestChangeOfNeeded checks that a definition that the server needs may get a
// description, a length or an additional name.
func TestChangeOfNeeded(t *testing.T) {
	s, err := Core().Change(
		types("( 2.5.4.35 NAME ( 'userPassword' 'userpw' ) DESC 'ours' EQUALITY octetStringMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.40{256} X-SECRET 'TRUE' )"),
		types("2.5.4.35"))
	if err != nil || s.Attribute("userpw") == nil {
		t.Error(err)
	}
}

func TestChangeNamesSource(t *testing.T) {
	d := Definition{Attribute: "attributetype", Text: "( 2.25.1 NAME 'x' SUP nothing )", Source: "a.schema:7"}
	if _, err := Core().Change([]Definition{d}, nil); err == nil || err.Error() != `a.schema:7: definition of x: there is no supertype "nothing"` {
		t.Error(err)
	}
	d.Text = "( 2.25.1 NAM 'x' )"
	if _, err := Core().Change([]Definition{d}, nil); err == nil || err.Error() != `a.schema:7: definition of 2.25.1, byte 9: unknown keyword "NAM"` {
		t.Error(err)
	}
}

func TestDifferences(t *testing.T) {
	const text = "SYNTAX 1.3.6.1.4.1.1466.115.121.1.15"
	old, err := world(t).Change(slices.Concat(
		types("( 2.25.9.1 NAME 'base' EQUALITY caseIgnoreMatch "+text+" )", "( 2.25.9.2 NAME 'derived' SUP base )",
			"( 2.25.9.3 NAME ( 'many' 'several' ) "+text+" )", "( 2.25.9.4 NAME 'same' "+text+" )", "( 2.25.9.5 NAME 'goes' "+text+" )"),
		objects("( 2.25.9.6 NAME 'box' SUP top MUST many MAY ( same $ base ) )", "( 2.25.9.7 NAME 'chest' SUP box )",
			"( 2.25.9.8 NAME 'lid' SUP top AUXILIARY MAY goes )", "( 2.25.9.9 NAME 'key' SUP top AUXILIARY MAY same )")), nil)
	if err != nil {
		t.Fatal(err)
	}
	to, err := old.Change(slices.Concat(
		types("( 2.25.9.1 NAME 'base' EQUALITY caseExactMatch "+text+" )", "( 2.25.9.3 NAME 'many' "+text+" SINGLE-VALUE )",
			"( 2.25.9.4 NAME ( 'same' 'alike' ) DESC 'text' "+text+"{9} )", "( 2.25.9.10 NAME 'comes' "+text+" )"),
		objects("( 2.25.9.6 NAME 'box' SUP top MUST ( many $ base ) )", "( 2.25.9.9 NAME 'key' SUP top STRUCTURAL MAY ( same $ comes ) )"),
		[]Definition{{Attribute: "dITStructureRules", Text: "( 2 NAME 'units' FORM unitForm SUP 1 )"}},
	), slices.Concat(types("base", "many", "same", "goes"), objects("box", "lid", "key"),
		[]Definition{{Attribute: "dITContentRules", Text: "personRule"}, {Attribute: "dITStructureRules", Text: "2"}, {Attribute: "nameForms", Text: "oldForm"}}))
	if err != nil {
		t.Fatal(err)
	}
	want := Differences{
		Types: []TypeDifference{
			{Old: old.Attribute("base"), New: to.Attribute("base"), Equality: true},
			{Old: old.Attribute("derived"), New: to.Attribute("derived"), Equality: true},
			{Old: old.Attribute("many"), New: to.Attribute("many"), Names: true, SingleValue: true},
			{Old: old.Attribute("goes")},
			{New: to.Attribute("comes")},
		},
		Classes: []ClassDifference{
			{Old: old.Class("box"), New: to.Class("box"), Must: []*AttributeType{to.Attribute("base")}, May: []*AttributeType{old.Attribute("same")}},
			{Old: old.Class("chest"), New: to.Class("chest"), Must: []*AttributeType{to.Attribute("base")}, May: []*AttributeType{old.Attribute("same")}},
			{Old: old.Class("lid")},
			{Old: old.Class("key"), New: to.Class("key"), Kind: true},
		},
		ContentRules:   []*ObjectClass{to.Class("inetOrgPerson")},
		NameForms:      []*ObjectClass{to.Class("account")},
		StructureRules: []*ObjectClass{to.Class("organizationalUnit")},
	}
	byIdentity := cmp.Options{
		cmp.Comparer(func(a, b *AttributeType) bool { return a == b }),
		cmp.Comparer(func(a, b *ObjectClass) bool { return a == b }),
	}
	if d := cmp.Diff(want, old.Differences(to), byIdentity); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(Differences{}, old.Differences(old)); d != "" {
		t.Errorf("a schema and itself: %s", d)
	}
}
