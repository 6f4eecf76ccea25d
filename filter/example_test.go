package filter_test

import (
	"fmt"

	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

func ExampleResolve() {
	s := schema.Core()
	f, err := filter.Parse("(&(commonName=ann*)(!(shoeSize=43)))")
	if err != nil {
		fmt.Println(err)
		return
	}
	r := filter.Resolve(f, s)
	e := &entry.Entry{Attributes: []entry.Attribute{
		{Type: s.Attribute("cn"), Values: [][]byte{[]byte("Ann  SMITH")}},
	}}
	fmt.Println(r, r.Match(&filter.EntrySource{Schema: s, Entry: e}) == filter.Undefined)
	fmt.Println(filter.Definite(r))
	// Output:
	// (&(cn=ann*)(?=undefined)) true
	// (|)
}
