package integration

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-ldap/ldap/v3"
)

// TestImportKilled kills an import into a served store while the import fills its
// branch. On the embedded engine, where the server does the work, the test also kills
// the server. The imported entries must stay invisible. When the same command is run
// again, it must continue the import and make all entries visible at once.
func TestImportKilled(t *testing.T) {
	t.Parallel()
	for _, kind := range storeKinds {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			people := map[string]int{"lsm": 12000, "hbase": 2000}[kind.name]
			store := kind.make(t)
			importInto(t, store, example)
			p := serve(t, store)
			awaitWriter(t, p)
			file := peopleFile(t, people)
			for _, kill := range []string{"command", "server"} {
				if kill == "server" && kind.name == "hbase" {
					continue // on HBase the server has no part in the import
				}
				importing, _ := start(t, nil, "import", "--store", store, file)
				c := p.admin()
				awaitStaged(t, c)
				if kill == "server" {
					p.kill()
				}
				importing.kill()
				if kill == "server" {
					p = serve(t, store)
					awaitWriter(t, p)
					c = p.admin()
				}
				if n, err := countPeople(c); n != 0 || err != nil {
					t.Fatalf("%d people are seen after the import was killed (%v)", n, err)
				}
			}
			out := mustRun(t, "import", "--store", store, file)
			if !strings.Contains(out, fmt.Sprintf("imported %d entries", people)) || !strings.Contains(out, "the import continues in the branch import-people.ldif-") {
				t.Errorf("the second import:\n%s", out)
			}
			awaitPeople(t, p.admin(), people)
			if out := mustRun(t, "branch", "list", "--store", store); out != "" {
				t.Errorf("branches are left: %s", out)
			}
			checkStore(t, store)
		})
	}
}

// peopleFile writes an LDIF file of n people and returns its name.
func peopleFile(t *testing.T, n int) string {
	t.Helper()
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "dn: uid=p%d,%s\nobjectClass: inetOrgPerson\ncn: Person %d\nsn: %d\n\n", i, suffix, i, i)
	}
	file := filepath.Join(t.TempDir(), "people.ldif")
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// awaitStaged waits until an import has made commits in its branch.
func awaitStaged(t *testing.T, c *ldap.Conn) {
	t.Helper()
	r := ldap.NewSearchRequest("cn=branches", ldap.ScopeSingleLevel, ldap.NeverDerefAliases, 0, 0, false, "(&(cn=import-*)(branchCommits>=2))", []string{"branchCommits"}, nil)
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		got, err := c.Search(r)
		if err == nil && len(got.Entries) > 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("no branch of an import: %v", err)
		}
	}
}

// awaitPeople waits until a server shows the people of an import. The server must show
// all of them at once.
func awaitPeople(t *testing.T, c *ldap.Conn, want int) {
	t.Helper()
	eventually(t, "the people are seen", func() error {
		n, err := countPeople(c) // no further page, until the slot of the killed import is recovered
		if err == nil && n != 0 && n != want {
			t.Fatalf("%d people are seen, of %d", n, want)
		}
		if err == nil && n == 0 {
			return errors.New("nobody")
		}
		return err
	})
}

func countPeople(c *ldap.Conn) (int, error) {
	r, err := c.SearchWithPaging(ldap.NewSearchRequest(suffix, ldap.ScopeWholeSubtree, ldap.NeverDerefAliases, 0, 0, false, "(cn=Person *)", []string{"1.1"}, nil), 1000)
	if err != nil {
		return 0, err
	}
	return len(r.Entries), nil
}
