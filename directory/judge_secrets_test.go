package directory_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/seed-4dac0d86/ldapd/ldap/op"
)

// TestRulesNameSecrets checks that a rule that names a secret has an effect wherever values are shown,
// searched and compared, that explain and effective rights say the same, and that other rules, and
// past states, show no secret to anybody.
func TestRulesNameSecrets(t *testing.T) {
	const base = "dc=example,dc=com"
	type rules struct {
		name, rule          string
		show, find, compare bool
	}
	for _, open := range []bool{false, true} { // in the profile open, everybody reads everything else
		for _, x := range []rules{
			{"read", "allow \"uid=kdc," + base + "\" to read krbPrincipalKey", true, true, true},
			{"show", "allow \"uid=kdc," + base + "\" to show krbPrincipalKey", true, false, false},
			{"search", "allow \"uid=kdc," + base + "\" to search krbPrincipalKey", false, true, false},
			{"compare", "allow \"uid=kdc," + base + "\" to compare krbPrincipalKey", false, false, true},
			{"*", "allow \"uid=kdc," + base + "\" to read *, +", false, false, false},
			{"class", "allow \"uid=kdc," + base + "\" to read @krbPrincipalAux", false, false, false},
			{"another secret", "allow \"uid=kdc," + base + "\" to read userPassword", false, false, false},
			{"elsewhere", "allow \"uid=kdc," + base + "\" to read krbPrincipalKey in only \"uid=kdc," + base + "\"", false, false, false},
			{"denied", "allow \"uid=kdc," + base + "\" to read krbPrincipalKey\nd: deny users to read krbPrincipalKey", false, false, false},
		} {
			t.Run(fmt.Sprintf("%s, open %v", x.name, open), func(t *testing.T) {
				c := newClient(t)
				c.must("bind", "dn: "+admin, "password: secret")
				c.must("modify", "dn: cn=Subschema", "add attributeTypes: ( 1.3.9.1 NAME 'krbPrincipalKey' EQUALITY octetStringMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.40 X-SECRET 'TRUE' )",
					"add objectClasses: ( 1.3.9.2 NAME 'krbPrincipalAux' AUXILIARY MAY ( krbPrincipalKey ) )")
				c.must("add", "dn: "+base, "objectClass: domain")
				for _, uid := range []string{"kdc", "ann", "eve"} {
					c.must("add", "dn: uid="+uid+","+base, "objectClass: inetOrgPerson", "objectClass: krbPrincipalAux", "cn: x", "sn: x", "userPassword: "+uid, "krbPrincipalKey: key-"+uid, "seeAlso: uid=ann,"+base)
				}
				c.do("checkpoint", "then")
				all := "bind: allow everyone to bind\nuse: allow everyone to use *\nx: " + x.rule + "\ne: allow users to see, past, explain, to write description, to read seeAlso, uid\n"
				if open {
					all += "all: allow everyone to read *, +\n"
				}
				setRules(t, c.p, all)
				c.must("bind", "dn: uid=kdc,"+base, "password: kdc")
				ask := func(want bool, what, cmd string, input ...string) {
					t.Helper()
					out := c.do(cmd, input...)
					if got := strings.Contains(out, "key-ann"); got != want {
						t.Errorf("%s: shown %v, want %v:\n%s", what, got, want, out)
					}
				}
				on := "base: uid=ann," + base
				ask(x.show, "by name", "search", on, "attrs: krbPrincipalKey")
				ask(x.show, "all", "search", on, "attrs: *")
				ask(x.show, "in a subtree", "search", "base: "+base, "scope: sub", "attrs: krbPrincipalKey uid")
				ask(false, "+", "search", on, "attrs: +")
				ask(x.show, "matched values", "search", on, "attrs: krbPrincipalKey", "control: matched (krbPrincipalKey=key-ann)")
				ask(x.show, "dereference", "search", "base: uid=eve,"+base, "attrs: uid", "control: deref seeAlso:krbPrincipalKey")
				ask(x.show, "post-read", "modify", "dn: uid=ann,"+base, "replace description: x", "control: postRead krbPrincipalKey critical")
				ask(x.show, "pre-read", "modify", "dn: uid=ann,"+base, "replace description: x", "control: preRead krbPrincipalKey critical")
				ask(false, "the past", "search", on, "attrs: krbPrincipalKey *", "control: at then critical")
				found := func(want bool, what string, input ...string) {
					t.Helper()
					out := c.do("search", append(input, "base: "+base, "scope: sub", "attrs: 1.1")...)
					if got := strings.Contains(out, "uid=ann"); got != want {
						t.Errorf("%s: found %v, want %v:\n%s", what, got, want, out)
					}
				}
				found(x.find, "presence", "filter: (&(uid=ann)(krbPrincipalKey=*))")
				found(x.find, "equality", "filter: (krbPrincipalKey=key-ann)")
				found(x.find, "not", "filter: (&(uid=ann)(!(krbPrincipalKey=none)))")
				found(false, "the past", "filter: (krbPrincipalKey=key-ann)", "control: at then critical")
				code := c.do("compare", "dn: uid=ann,"+base, "assert: krbPrincipalKey=key-ann")
				if got := strings.HasPrefix(code, fmt.Sprint(int(op.CompareTrue))); got != x.compare || !got && !strings.HasPrefix(code, "50") {
					t.Errorf("compare: %s, want true %v", code, x.compare)
				}
				rights := c.do("search", on, "attrs: attributeLevelRights krbPrincipalKey", "control: rights critical")
				_, letters, _ := strings.Cut(rights, "attributeLevelRights: krbPrincipalKey:")
				letters, _, _ = strings.Cut(strings.SplitN(letters, "\n", 2)[0], ",")
				for letter, want := range map[string]bool{"r": x.show, "s": x.find, "c": x.compare} {
					if strings.Contains(letters, letter) != want {
						t.Errorf("effective rights %q: %s is not %v\n%s", letters, letter, want, rights)
					}
				}
			})
		}
	}
}
