package directory_test

import (
	"strings"
	"testing"

	"github.com/seed-4dac0d86/ldapd/partition/changestream"
	"github.com/seed-4dac0d86/ldapd/partition/state"
)

// TestLongSpellingOfAuthor checks that the journal has the author's name as the entry has it,
// however long the client spells it.
func TestLongSpellingOfAuthor(t *testing.T) {
	c, _ := newNarrow(t)
	c.bindBy("all: allow everyone to read, write")
	const stored = "uid=p7,ou=people,dc=example,dc=com"
	long := "p7" + strings.Repeat(`\20`, 20<<10) + ",ou=people,dc=example,dc=com" // insignificant spaces
	c.must("bind", "dn: uid="+long, "password: p")
	c.must("modify", "dn: uid=p1,ou=people,dc=example,dc=com", "replace sn: a")
	c.must("bind", "dn: "+admin, "password: secret")
	c.must("modify", "dn: uid=p1,ou=people,dc=example,dc=com", "replace sn: b", "control: proxied dn:uid="+long+" critical")
	s := state.Newest(c.p)
	defer s.Close()
	var by []string
	for ch, err := range changestream.Shown(t.Context(), s, nil) {
		if err != nil {
			t.Fatal(err)
		}
		by = append(by, string(ch.Message))
	}
	for _, message := range by[len(by)-2:] {
		if !strings.HasPrefix(message, `"`+stored+`" `) || len(message) > 1<<10 {
			t.Errorf("%d octets: %.100q", len(message), message)
		}
	}
}
