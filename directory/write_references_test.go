package directory_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
)

// follow indexes the attribute of a reference, and makes its values follow the entries that they name.
func follow(t testing.TB, p *partition.Partition, r catalog.Reference) {
	t.Helper()
	indexes := append(p.Config().Indexes, catalog.Index{Attribute: r.Attribute, Layout: catalog.RowLayout})
	if err := onlineschema.SetIndexes(context.Background(), p, indexes); err != nil {
		t.Fatal(err)
	}
	if err := onlineschema.SetReferences(context.Background(), p, []catalog.Reference{r}, true); err != nil {
		t.Fatal(err)
	}
}

// TestReferencesNameWhatIsSeen checks that a user can write the name of an entry into an attribute
// whose values follow only if the user sees that entry, by every operation, and that the answer does
// not tell whether an entry is hidden or missing.
func TestReferencesNameWhatIsSeen(t *testing.T) {
	const base = ",dc=example,dc=com"
	for _, mustExist := range []bool{false, true} {
		c := newClient(t)
		follow(t, c.p, catalog.Reference{Attribute: "seeAlso", MustExist: mustExist})
		c.must("bind", "dn: "+admin, "password: secret")
		c.must("add", "dn: dc=example,dc=com", "objectClass: domain", "dc: example")
		for _, ou := range []string{"secret", "open"} {
			c.must("add", "dn: ou="+ou+base, "objectClass: organizationalUnit")
			c.must("add", "dn: uid=agent,ou="+ou+base, "objectClass: inetOrgPerson", "cn: a", "sn: a")
		}
		c.must("add", "dn: uid=me"+base, "objectClass: inetOrgPerson", "cn: me", "sn: me", "userPassword: me")
		c.must("add", "dn: uid=boss"+base, "objectClass: inetOrgPerson", "cn: b", "sn: b", "userPassword: boss")
		setRules(t, c.p, "bind: allow everyone to bind\nuse: allow everyone to use *\nread: allow users to read *, to write seeAlso, to add, delete\n"+
			"boss: allow \"uid=boss"+base+"\" to proxy\n"+
			"hide: deny users to see, read in \"ou=secret"+base+"\"")
		hidden := []string{"uid=agent,ou=secret" + base, "ou=secret" + base}
		missing := []string{"uid=none,ou=secret" + base, "uid=none,ou=open" + base, "uid=none,ou=none" + base, "dc=else", "ou=none" + base}
		writes := map[string]func(value string) string{
			"add value": func(v string) string { return c.do("modify", "dn: uid=me"+base, "add seeAlso: "+v) },
			"replace":   func(v string) string { return c.do("modify", "dn: uid=me"+base, "replace seeAlso: "+v) },
			"two": func(v string) string {
				return c.do("modify", "dn: uid=me"+base, "add seeAlso: uid=agent,ou=open"+base, "add seeAlso: "+v)
			},
			"no-op": func(v string) string {
				return c.do("modify", "dn: uid=me"+base, "add seeAlso: "+v, "control: noOp critical")
			},
			"options": func(v string) string { return c.do("modify", "dn: uid=me"+base, "add seeAlso;lang-de: "+v) },
			"entry": func(v string) string {
				return c.do("add", "dn: cn=new"+base, "objectClass: device", "cn: new", "seeAlso: "+v)
			},
			"rename": func(v string) string {
				c.must("add", "dn: cn=old"+base, "objectClass: device", "cn: old")
				out := c.do("modifydn", "dn: cn=old"+base, "rdn: seeAlso="+strings.ReplaceAll(v, ",", "\\,"))
				c.must("delete", "dn: cn=old"+base)
				return out
			},
		}
		for _, who := range []string{"me", "boss"} {
			c.must("bind", "dn: uid="+who+base, "password: "+who)
			for what, write := range writes {
				for _, name := range append(hidden, missing...) {
					out := write(name)
					want := fmt.Sprintf("19 (attribute seeAlso: you see no entry %s, and the values must name entries that you see)\n", name)
					if what != "rename" && out != want || what == "rename" && !strings.HasPrefix(out, "19") && !strings.HasPrefix(out, "50") {
						t.Errorf("must exist %v, %s by %s: %q, want %q", mustExist, what, who, out, want)
					}
				}
			}
		}
		c.must("modify", "dn: uid=me"+base, "add seeAlso: uid=agent,ou=open"+base)
		c.must("bind", "dn: "+admin, "password: secret")
		c.must("modify", "dn: uid=boss"+base, "add seeAlso: uid=agent,ou=secret"+base)
	}
}
