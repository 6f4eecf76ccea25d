package schema_test

import (
	"fmt"

	"github.com/seed-4dac0d86/ldapd/schema"
)

func Example() {
	cn := schema.Core().Attribute("commonName")
	stored, err := cn.Equality.Key([]byte("Anna  Müller"))
	if err != nil {
		fmt.Println(err)
		return
	}
	asserted, err := cn.Equality.Assertion([]byte(" ANNA MÜLLER"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(cn.Name(), "by", cn.Equality.Name())
	fmt.Printf("%q\n", stored)
	fmt.Println(cn.Equality.Match(stored, asserted))
	// Output:
	// cn by caseIgnoreMatch
	// " anna  müller "
	// true
}

func ExampleSchema_Extend() {
	s, err := schema.Core().Extend(
		"attributeTypes: ( 2.25.99.1 NAME 'badgeNumber' EQUALITY integerMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.27 )",
		"objectClasses: ( 2.25.99.2 NAME 'badgeHolder' SUP top AUXILIARY MAY badgeNumber )",
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(s.Attribute("badgenumber").Syntax.Validate([]byte("007")))
	_, err = s.Extend("objectClasses: ( 2.25.99.3 NAME 'visitor' SUP person MUST badge )")
	fmt.Println(err)
	// Output:
	// not an integer: digits with no leading zeros, at most 4096, perhaps a minus sign before them
	// definition of visitor: there is no attribute type "badge"
}
