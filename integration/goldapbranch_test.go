package integration

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-ldap/ldap/v3"

	"github.com/seed-4dac0d86/ldapd/ldap/control"
)

// TestGoLDAPInBranch uses go-ldap to make a branch and to work in it, both with the
// control and through a listener of the branch. It then causes a conflict, resolves the
// conflict, and merges the branch.
func TestGoLDAPInBranch(t *testing.T) {
	t.Parallel()
	store := filepath.Join(t.TempDir(), "store")
	importInto(t, store, example)
	p := serve(t, store, "--listen", "ldap://127.0.0.1:0", "--listen", "ldap://127.0.0.1:0?branch=go")
	c := p.admin()
	defer c.Close()
	add := ldap.NewAddRequest("cn=go,cn=branches", nil)
	add.Attribute("objectClass", []string{"branch"})
	if err := c.Add(add); err != nil {
		t.Fatal(err)
	}
	in := ldap.NewControlString(control.OIDBranch, true, "go")
	const n = 25
	for i := range n {
		add := ldap.NewAddRequest(fmt.Sprintf("ou=b%d,%s", i, suffix), []ldap.Control{in})
		add.Attribute("objectClass", []string{"organizationalUnit"})
		if err := c.Add(add); err != nil {
			t.Fatal(err)
		}
	}
	find := func(c *ldap.Conn, controls ...ldap.Control) int {
		t.Helper()
		q := ldap.NewSearchRequest(suffix, ldap.ScopeWholeSubtree, ldap.NeverDerefAliases, 0, 0, false, "(ou=b*)", []string{"ou"}, controls)
		r, err := c.SearchWithPaging(q, 10)
		if err != nil {
			t.Fatal(err)
		}
		return len(r.Entries)
	}
	own, err := ldap.DialURL(strings.TrimSuffix(p.urls[1], "?branch=go"))
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	if err := own.Bind(adminDN, adminPassword); err != nil {
		t.Fatal(err)
	}
	if a, b, outside := find(c, in), find(own), find(c); a != n || b != n || outside != 0 {
		t.Errorf("%d entries by the control, %d on the listener of the branch, %d outside", a, b, outside)
	}

	one := fmt.Sprintf("ou=b0,%s", suffix)
	twice := ldap.NewAddRequest(one, nil)
	twice.Attribute("objectClass", []string{"organizationalUnit"})
	if err := c.Add(twice); err != nil {
		t.Fatal(err)
	}
	merge := ldap.NewModifyRequest("cn=go,cn=branches", nil)
	merge.Replace("branchState", []string{"merged"})
	var refused *ldap.Error
	if err := c.Modify(merge); !errors.As(err, &refused) || refused.ResultCode != ldap.LDAPResultAssertionFailed || !strings.Contains(refused.Error(), one) {
		t.Errorf("merging: %v", err)
	}
	if err := c.Del(ldap.NewDelRequest(one, nil)); err != nil {
		t.Fatal(err)
	}
	if out, status := ldapdRun(t, "branch", "rebase", "--store", store, "--ours", "go"); status != 0 {
		t.Errorf("rebase: status %d\n%s", status, out)
	}
	if err := c.Modify(merge); err != nil {
		t.Fatal(err)
	}
	if got := find(c); got != n {
		t.Errorf("%d entries after the merge", got)
	}
}
