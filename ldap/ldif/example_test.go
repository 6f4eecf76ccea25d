package ldif_test

import (
	"fmt"
	"strings"

	"github.com/seed-4dac0d86/ldapd/ldap/ldif"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
)

// ExampleReader shows that a malformed record does not stop the Reader.
func ExampleReader() {
	in := strings.NewReader(`version: 1

dn: dc=example,dc=com
objectClass: domain
dc: example

dn: cn=broken,dc=example,dc=com
this is no attribute

dn: cn=admins,dc=example,dc=com
changetype: modify
add: member
member: uid=ann,dc=example,dc=com
-
`)
	for rec, err := range ldif.NewReader(in, ldif.Options{File: "some.ldif"}).Records() {
		if err != nil {
			fmt.Println(err)
			continue
		}
		switch change := rec.Change.(type) {
		case nil:
			fmt.Printf("entry %s with %d attributes\n", rec.DN, len(rec.Attributes))
		case *op.Modify:
			fmt.Printf("%d modification of %s\n", len(change.Changes), rec.DN)
		}
	}
	// Output:
	// entry dc=example,dc=com with 2 attributes
	// some.ldif:8: "cn=broken,dc=example,dc=com": expected "attribute: value", found "this is no attribute"; a continued line begins with a space
	// 1 modification of cn=admins,dc=example,dc=com
}
