package dn_test

import (
	"bytes"
	"fmt"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/schema"
)

// The schema adds the spaces in the keys (RFC 4518, 2.6.1). In stores with codes, 81 stands for cn, 83 for uid and 92 for
// ou.
func ExampleKey() {
	s := schema.Core().WithCodes(0)
	key := func(text string) []byte {
		name, err := dn.Parse(text)
		if err != nil {
			fmt.Println(err)
			return nil
		}
		norms, err := name.Normalize(s)
		if err != nil {
			fmt.Println(err)
			return nil
		}
		fmt.Printf("%q\n", norms)
		return dn.Key(norms)
	}
	ann := key(`CN = "Smith, Ann" + UID = 17 ; OU = People`)
	people := key("organizationalUnitName=PEOPLE")
	fmt.Println(bytes.HasPrefix(ann, people))
	s = schema.Core()
	key("CN=Ann+UID=17,OU=People")
	// Output:
	// ["+\x1e0.9.2342.19200300.100.1.1= 17 \x152.5.4.3= smith,  ann " "2.5.4.11= people "]
	// ["2.5.4.11= people "]
	// true
	// ["+\x06\x81 ann \x05\x83 17 " "\x92 people "]
}
