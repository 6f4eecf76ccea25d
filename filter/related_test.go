package filter

import (
	"testing"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// TestRelated checks which name a related test sees: the stored name of the entry or, if the
// source has none, the DN.
func TestRelated(t *testing.T) {
	var seen string
	test := Resolve(MustParse("(cn=x)"), schema.Core()).(*Test).Related(func(name *dn.Name) bool {
		seen = name.String()
		return true
	}, nil)
	name, err := dn.Parse("cn=a")
	if err != nil {
		t.Fatal(err)
	}
	src := &EntrySource{Schema: schema.Core(), Entry: &entry.Entry{}, Name: name, Stored: dn.NewName("CN=A")}
	for _, want := range []string{"CN=A", "cn=a"} {
		if test.Match(src) != True || seen != want {
			t.Errorf("the test sees %q, want %q", seen, want)
		}
		src.Reset(&entry.Entry{}, name) // forgets the stored name
	}
}
