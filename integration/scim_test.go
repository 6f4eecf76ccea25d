package integration

import (
	"context"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	dir "github.com/seed-4dac0d86/ldapd/directory"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/store/lsm"
	"github.com/seed-4dac0d86/ldapd/web"
	"github.com/seed-4dac0d86/ldapd/web/scim"
)

// scimJudges are the programs from PyPI that judge servers of SCIM.
var scimJudges = []string{"scim2-tester==0.5.2", "scim2-client[httpx2]==0.13.2", "scim2-models==0.12.3", "scim-sanity==0.7.4"}

const runSCIM2Tester = `
import sys
from httpx2 import Client
from scim2_client.engines.httpx2 import SyncSCIMClient
from scim2_tester import Status, check_server
url, name, password = sys.argv[1:]
results = check_server(SyncSCIMClient(Client(base_url=url, auth=(name, password), timeout=60)))
bad = [r for r in results if r.status not in (Status.SUCCESS, Status.COMPLIANT, Status.ACCEPTABLE)]
for r in bad:
    print(r.status.name, r.title, r.resource_type, r.reason, r.data)
print(len(results), "checks")
sys.exit(bool(bad) or len(results) < 100)
`

// TestSCIMJudges runs the judges against SCIM.
func TestSCIMJudges(t *testing.T) {
	packages := t.TempDir()
	install := exec.Command("python3", append([]string{"-m", "pip", "install", "--quiet", "--target", packages}, scimJudges...)...)
	if out, err := install.CombinedOutput(); err != nil {
		t.Skipf("no %s: %v\n%s", strings.Join(scimJudges, ", "), err, out)
	}
	const admin, password = "cn=admin,dc=example,dc=com", "secret"
	url := serveSCIM(t, admin, password)
	for name, args := range map[string][]string{
		"scim2-tester": {"-c", runSCIM2Tester, url, admin, password},
		"scim-sanity":  {"-m", "scim_sanity", "probe", url, "--username", admin, "--password", password, "--i-accept-side-effects"},
	} {
		t.Run(name, func(t *testing.T) {
			c := exec.Command("python3", args...)
			c.Env = append(c.Environ(), "PYTHONPATH="+packages)
			out, err := c.CombinedOutput()
			if err != nil || strings.Contains(string(out), "[WARN]") {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// serveSCIM serves SCIM of an empty directory and returns its address.
func serveSCIM(t *testing.T, admin, password string) string {
	t.Helper()
	ctx := context.Background()
	store, err := lsm.Open(lsm.Options{Path: "store", FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	p, err := partition.Open(ctx, store, partition.Options{Create: true, References: catalog.DefaultReferences()})
	if err != nil {
		t.Fatal(err)
	}
	if err := onlineschema.SetSuffixes(ctx, p, []string{"dc=example,dc=com"}); err != nil {
		t.Fatal(err)
	}
	d, err := dir.New(p, dir.Options{Admin: admin, AdminPassword: password})
	if err != nil {
		t.Fatal(err)
	}
	h, err := scim.New(d, scim.Options{Users: "ou=people", Groups: "ou=groups", UserClass: []string{"inetOrgPerson"}, GroupClass: []string{"groupOfNames"}, UserName: "uid", Member: "member"})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(h)
	t.Cleanup(func() {
		s.Close()
		d.Close()
		p.Close(ctx)
		store.Close()
	})
	c := web.Client{Session: d.NewSession(nil)}
	for _, r := range []op.Request{
		&op.Bind{Version: 3, Name: admin, Password: []byte(password)},
		&op.Add{Name: "dc=example,dc=com", Attributes: []op.PartialAttribute{{Description: "objectClass", Values: [][]byte{[]byte("domain")}}, {Description: "dc", Values: [][]byte{[]byte("example")}}}},
	} {
		if _, err := c.Do(ctx, r, web.Answer{}); err != nil {
			t.Fatal(err)
		}
	}
	return s.URL + scim.Prefix
}
