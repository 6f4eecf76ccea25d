package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-ldap/ldap/v3"
	godiff "github.com/google/go-cmp/cmp"
)

// slapdAccess contains access directives of several kinds for the sample directory.
const slapdAccess = `access to attrs=userPassword by self write by anonymous auth by * none
access to dn.subtree="ou=devices,dc=example,dc=com" by * read
access to attrs=employeeNumber,roomNumber by self read by dnattr=manager write by * none
access to dn.regex="^cn=[^,]+,ou=groups,dc=example,dc=com$" attrs=member,entry by dnattr=member read by * none
access to dn.one="ou=people,dc=example,dc=com" filter=(title=*) attrs=mail by group="cn=sales,ou=groups,dc=example,dc=com" write by self read by users search
access to dn.children="ou=people,dc=example,dc=com" by self write by users read by * none
access to * by users read
`

// TestSlapdAccess puts the same questions to a slapd with access directives and to
// ldapd, as several identities. The rules of ldapd are those that the command access
// import makes from the directives. The directives allow no identity to search an entry
// that it may not read, because slapd would then search below that entry, and ldapd
// would not. They allow no identity to compare or to write such an entry either, because
// access import leaves out these rights, with a note.
func TestSlapdAccess(t *testing.T) {
	t.Parallel()
	theirs := startOldSlapd(t, "", slapdAccess)
	text := fmt.Sprintf("database mdb\nsuffix %q\n%s", suffix, slapdAccess)
	store := newStoreWith(t, text, func(out, conf string) string {
		drafts, _, _ := strings.Cut(out, "\n"+conf+":")
		return drafts
	})
	askBoth(t, theirs, store, func(q question, a *answer) *answer {
		a.Matched = "" // slapd discloses no matchedDN
		return a
	})
}

// newStoreWith returns a store with the sample directory, and with the rules that the command
// access import makes from a text. The parameter draftsIn is a function that returns the drafts
// of rules in the output of that command.
func newStoreWith(t *testing.T, text string, draftsIn func(out, file string) string, args ...string) (store string) {
	t.Helper()
	dir := t.TempDir()
	store, file, rules := filepath.Join(dir, "store"), filepath.Join(dir, "access.ldif"), filepath.Join(dir, "rules")
	importInto(t, store, example)
	if !strings.HasPrefix(text, "dn: ") {
		file = filepath.Join(dir, "slapd.conf")
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, status := ldapdRun(t, append(append([]string{"access", "import", "--store", store}, args...), file)...)
	if status != 0 {
		t.Fatal(out)
	}
	drafts := draftsIn(out, file)
	if err := os.WriteFile(rules, []byte(drafts), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, status := ldapdRun(t, "access", "apply", "--store", store, rules); status != 0 {
		t.Fatalf("%s\n%s", drafts, out)
	}
	return store
}

// askBoth puts the questions to another server and to an ldapd with a store, anonymously
// and as two users. It passes each answer to the function compared, and compares what this
// function returns.
func askBoth(t *testing.T, theirs *oldServer, store string, compared func(question, *answer) *answer) {
	t.Helper()
	p := serve(t, store, "--admin-dn", slapdAdmin)
	asked := 0
	for who, password := range map[string]string{"": "", jdoe: "opensesame", asantos: "Pão de queijo"} {
		var conns []*ldap.Conn
		for _, url := range []string{theirs.url, p.url()} {
			c, err := dial(url, who, password)
			if err != nil {
				t.Fatalf("%s as %s: %v", url, who, err)
			}
			defer c.Close()
			conns = append(conns, c)
		}
		for _, q := range accessQuestions(who != "") {
			want, got := compared(q, q.ask(conns[0])), compared(q, q.ask(conns[1]))
			if diff := godiff.Diff(want, got); diff != "" {
				t.Errorf("%s as %q (- the other server, + ldapd):\n%s", q.name, who, diff)
			}
			asked++
		}
	}
	t.Logf("%d questions", asked)
}

func accessQuestions(bound bool) (qs []question) {
	attributes := []string{"cn", "sn", "mail", "title", "employeeNumber", "roomNumber", "member", "telephoneNumber", "objectClass", "ou"}
	for _, f := range []string{"(objectClass=*)", "(uid=*)", "(title=*)", "(mail=*)", "(employeeNumber=10*)", "(roomNumber=*)", "(member=*)",
		"(&(objectClass=person)(cn=j*))", "(|(mail=a*)(sn=smith))"} {
		for _, base := range []string{suffix, peopleDN, "ou=groups," + suffix, devicesDN} {
			qs = append(qs, searching(base, sub, ldap.NeverDerefAliases, 0, f, attributes))
		}
	}
	for _, e := range []string{jdoe, asantos, "uid=wchen," + peopleDN, printer} {
		qs = append(qs, searching(e, base, ldap.NeverDerefAliases, 0, "(objectClass=*)", attributes))
		for _, a := range attributes[:6] {
			qs = append(qs, change("compare "+a+" of "+e, func(c *ldap.Conn) error {
				_, err := c.Compare(e, a, "x")
				return err
			}))
			if bound { // slapd refuses all updates of anonymous clients
				qs = append(qs, change("modify "+a+" of "+e, func(c *ldap.Conn) error {
					r := ldap.NewModifyRequest(e, nil)
					r.Add(a, []string{"x-" + a})
					return c.Modify(r)
				}))
			}
		}
	}
	return qs
}
