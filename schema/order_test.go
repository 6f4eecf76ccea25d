package schema

import (
	"slices"
	"testing"
)

func TestSuperiorsFirst(t *testing.T) {
	given := []Definition{
		{Attribute: "objectClasses", Text: "( 1.2.1 NAME 'c' SUP ( D $ top ) )"},
		{Attribute: "attributeTypes", Text: "( 1.2.3 NAME 'a' SUP 1.2.5 )"},
		{Attribute: "attributeTypes", Text: "( 1.2.4 NAME 'c' SUP name )"},
		{Attribute: "objectClasses", Text: "( 1.2.2 NAME ( 'x' 'd' ) SUP top )"},
		{Attribute: "attributeTypes", Text: "( 1.2.5 NAME 'b' SUP c )"},
		{Attribute: "attributeTypes", Text: "torn ("},
		{Attribute: "ldapSyntaxes", Text: "( 1.2.6 DESC 'x' )"},
	}
	var oids []string
	for _, d := range SuperiorsFirst(given) {
		oid, _ := d.Called()
		oids = append(oids, oid)
	}
	if want := []string{"1.2.6", "1.2.4", "1.2.5", "1.2.3", "", "1.2.2", "1.2.1"}; !slices.Equal(oids, want) {
		t.Errorf("order %v, want %v", oids, want)
	}
	if len(SuperiorsFirst(nil)) != 0 {
		t.Error("something of nothing")
	}
}
