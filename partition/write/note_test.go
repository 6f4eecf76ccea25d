package write

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-4dac0d86/ldapd/dn"
)

func TestNote(t *testing.T) {
	for _, want := range []Message{
		{},
		{By: By{Name: "cn=admin"}},
		{By: By{Name: "cn=\"a\"\nb", Bound: "cn=proxy", From: "[::1]:389", Request: "17/4", Session: `from="x" y`},
			Operations: []Operation{{Kind: "add", Name: "cn=x\\,y \x01,dc=com", Secrets: []string{"userPassword", "scramKey"}}, {Kind: "delete", Name: "dc=com"}}},
	} {
		tx := Tx{Message: want.By.Append(nil)}
		for _, o := range want.Operations {
			tx.Record(o.Kind, named(t, o.Name), o.Secrets...)
		}
		for i := range want.Operations {
			want.Operations[i].Name = named(t, want.Operations[i].Name).String()
		}
		if d := cmp.Diff(want, ParseMessage(tx.Message), cmp.Comparer(slices.Equal[[]string])); d != "" {
			t.Errorf("%s:\n%s", tx.Message, d)
		}
	}
	for message, want := range map[string]int{"": 0, "\"\" \nreindex": 1, "\"cn=a\"\nimport 7 entries": 1, "garbage": 0, "\"": 0} {
		if n := ParseMessage([]byte(message)); len(n.Operations) != want {
			t.Errorf("%q: %v", message, n)
		}
	}
}

func named(t *testing.T, s string) dn.DN {
	t.Helper()
	name, err := dn.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return name
}

func FuzzParseNote(f *testing.F) {
	f.Add([]byte("\"cn=admin\" from=\"192.0.2.1:5123\" request=\"17/4\"\nadd \"uid=a\" userPassword\nrename \"uid=b\""))
	f.Add([]byte("\"\" \nreindex"))
	f.Fuzz(func(t *testing.T, b []byte) {
		n := ParseMessage(b)
		if again := ParseMessage(n.By.Append(nil)); again.By != n.By {
			t.Errorf("%q: %v, and then %v", b, n.By, again.By)
		}
	})
}
