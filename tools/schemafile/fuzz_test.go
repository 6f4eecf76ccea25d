package schemafile

import (
	"bytes"
	"testing"

	"github.com/seed-4dac0d86/ldapd/schema"
)

// FuzzRead checks that definitions that were read contain no macros, and are the same after
// they were parsed and printed again. If Merge accepts the definitions, Change must accept
// the result.
func FuzzRead(f *testing.F) {
	for _, text := range []string{
		"objectidentifier own 1.2\nattributetype ( own:1 NAME 'a'\n SYNTAX own:2{3} )\n# x\nobjectclass ( 1.3 )",
		"dn: cn=x\nolcObjectIdentifier: {0}a 1.2\nolcAttributeTypes: {0}( a:1 NAME 'b' SUP cn )\n",
		"dn: cn=schema\nattributeTypes: ( a-oid NAME ( 'cn' 'x' ) EQUALITY integerMatch SYNTAX 1.3 )\nobjectClasses: ( 2.5.6.6 NAME 'person' AUXILIARY MAY l )\n",
		"dn: m-oid=1.2\nobjectclass: metaObjectClass\nm-oid: 1.2\nm-name: a\nm-must: cn\nm-typeobjectclass: ABSTRACT\n",
		"dn: cn=x\nchangetype: modify\nadd: nameForms\nnameForms: ( 1.2 OC person MUST cn )\n",
		"nameforms ( 1.2 OC person MUST cn )\nditstructurerules ( 1 FORM 1.2 SUP 1 )\nditcontentrule ( 2.5.6.6 AUX dcObject )",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var files Files
		if files.Read("f", bytes.NewReader(text)) != nil {
			return
		}
		for _, d := range files.Definitions {
			again, err := schema.Macros{}.Expand(d)
			if err != nil || again != d {
				t.Fatalf("%+v is read again as %+v (%v)", d, again, err)
			}
		}
		if m, err := schema.Core().Merge(files.Definitions); err == nil {
			if _, err := schema.Core().Change(m.Add, m.Remove); err != nil {
				t.Fatal(err)
			}
		}
	})
}
