package scim_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/seed-4dac0d86/ldapd/web/scim"
)

// judges are the programs from PyPI that judge servers of SCIM.
var judges = []string{"scim2-tester==0.5.2", "scim2-client[httpx2]==0.13.2", "scim2-models==0.12.3", "scim-sanity==0.7.4"}

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

// TestJudges runs the judges against SCIM.
func TestJudges(t *testing.T) {
	packages := t.TempDir()
	install := exec.Command("python3", append([]string{"-m", "pip", "install", "--quiet", "--no-compile", "--target", packages}, judges...)...)
	if out, err := install.CombinedOutput(); err != nil {
		t.Skipf("no %s: %v\n%s", strings.Join(judges, ", "), err, out)
	}
	const password = "secret"
	url := newServer(t).URL + scim.Prefix
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
