package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/go-ldap/ldap/v3"
)

// TestClients runs OpenLDAP's command line clients against the server, on both engines, and
// compares their output with the files in testdata/clients. In these files, commands for
// the shell follow a line "sh". In the commands, $URL and $LDAPI are the URLs of the
// server, $ADMIN contains the options that bind as the administrator, $STAGING contains
// the options that bind as the administrator in the branch staging, and $DATA is the folder
// of the sample directory. Before the commands of a file run, the store contains only the
// sample directory. The flag -rewrite of go test rewrites the files.
func TestClients(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"sh", "ldapsearch", "ldapadd", "ldapmodify", "ldapdelete", "ldapmodrdn", "ldapcompare", "ldapwhoami", "ldappasswd"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("no OpenLDAP clients: %v", err)
		}
	}
	for _, kind := range storeKinds {
		t.Run(kind.name, func(t *testing.T) {
			store := kind.make(t) // one store for all files, because HBase takes long to create tables
			datadriven.Walk(t, "testdata/clients", func(t *testing.T, path string) {
				if kind.name == "hbase" && slices.Contains(beforeStores, filepath.Base(path)) {
					t.Skip("it shows what comes before the store")
				}
				runClients(t, path, store)
			})
		})
	}
}

// beforeStores are the files that show what is the same for all stores. HBase is slow.
var beforeStores = []string{"bind", "policy", "referrals", "rights"}

func runClients(t *testing.T, path, store string) {
	importInto(t, store, example)
	// The length of a socket's path is limited, and paths below t.TempDir may be too long.
	dir, err := os.MkdirTemp("", "ldapd")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	// On a slow machine, a collection would raise the horizon that transcripts show.
	p := serve(t, store, "--retention", "0", "--listen", "ldap://127.0.0.1:0", "--listen", "ldapi://"+filepath.Join(dir, "s"))
	env := append(os.Environ(),
		"LDAPNOINIT=1", // ignore the configuration of this machine
		"LC_ALL=C.UTF-8",
		"URL="+p.urls[0], "LDAPI="+p.urls[1],
		"ADMIN=-x -D "+adminDN+" -w "+adminPassword,
		"STAGING=-x -D "+adminDN+",cn=staging,cn=branches -w "+adminPassword,
		"DATA="+filepath.Dir(example))
	datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
		if d.Cmd != "sh" {
			d.Fatalf(t, "unknown command %s", d.Cmd)
		}
		cmd := exec.Command("sh", "-c", d.Input)
		cmd.Env = env
		out, err := cmd.CombinedOutput()
		text := stable(p, string(out))
		if err != nil {
			text += fmt.Sprintln(err)
		}
		return text
	})
	empty(t, p.admin())
	p.stop()
}

// empty deletes all entries, each after the entries below it.
func empty(t *testing.T, c *ldap.Conn) {
	t.Helper()
	manage := []ldap.Control{ldap.NewControlManageDsaIT(true)}
	r, err := c.Search(ldap.NewSearchRequest(suffix, ldap.ScopeWholeSubtree, ldap.NeverDerefAliases, 0, 0, false, "(objectClass=*)", []string{"1.1"}, manage))
	if err != nil {
		t.Fatal(err)
	}
	depth := func(e *ldap.Entry) int { return strings.Count(e.DN, ",") }
	slices.SortFunc(r.Entries, func(a, b *ldap.Entry) int { return depth(b) - depth(a) })
	for _, e := range r.Entries {
		if err := c.Del(ldap.NewDelRequest(e.DN, manage)); err != nil {
			t.Fatal(err)
		}
	}
}

var changing = []struct {
	what *regexp.Regexp
	text string
}{
	{regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`), "UUID"},
	{regexp.MustCompile(`\b20\d{12}Z`), "TIME"},
	{regexp.MustCompile(`\b20\d{12}\.\d{6}Z#[0-9a-f]{6}#[0-9a-f]{3}#000000`), "CSN"},
	{regexp.MustCompile(`(?m)^New password: .*$`), "New password: ..."},
}

// stable replaces the parts of an output that differ from run to run.
func stable(p *process, out string) string {
	for i, u := range p.urls {
		out = strings.ReplaceAll(out, u, []string{"$URL", "$LDAPI"}[i])
	}
	for _, c := range changing {
		out = c.what.ReplaceAllString(out, c.text)
	}
	return out
}
