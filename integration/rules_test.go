package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-ldap/ldap/v3"
)

// applyRules puts rules in force in a store that may be served, and returns what the command
// prints and its exit status.
func applyRules(t *testing.T, store, rules string) (string, int) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "rules")
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	return ldapdRun(t, "access", "apply", "--store", store, file)
}

const firstRules = `bind: allow everyone to bind
use: allow everyone to use *
see: allow users to read objectClass, cn, uid
`

// TestManyRules puts as many rules in force as a directory can have, in the store of a
// running server. The server must apply them, and one more rule must be refused.
func TestManyRules(t *testing.T) {
	t.Parallel()
	store := filepath.Join(t.TempDir(), "store")
	importInto(t, store, example)
	p := serve(t, store)
	c, err := dial(p.url(), jdoe, "opensesame")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	many := func(n int) string {
		var b strings.Builder
		b.WriteString(firstRules)
		for i := range n - 3 {
			fmt.Fprintf(&b, "r%d: allow %q to read title in \"ou=people,dc=example,dc=com\" (departmentNumber=%d)\n", i, []string{jdoe, asantos}[i%2], i)
		}
		return b.String()
	}
	begun := time.Now()
	if out, status := applyRules(t, store, many(10000)); status != 0 {
		t.Fatal(out)
	}
	applied := time.Since(begun)
	var first, later time.Duration
	for i := range 20 {
		begun = time.Now()
		if got, err := searchDN(c, suffix, ldap.ScopeWholeSubtree, "(uid=asantos)"); err != nil || len(got) != 1 {
			t.Fatalf("%v, %v", got, err)
		}
		if took := time.Since(begun); i == 0 {
			first = took
		} else {
			later = max(later, took)
		}
	}
	t.Logf("10,000 rules: put in force in %v; the first search took %v, the slowest of the others %v", applied, first, later)
	if out, status := applyRules(t, store, many(10001)); status == 0 || !strings.Contains(out, "10001 rules are more than the 10000 that a directory can have") {
		t.Errorf("10,001 rules: exit status %d, %s", status, out)
	}
	admin := p.connect(adminDN, adminPassword)
	add := ldap.NewModifyRequest("cn=config", nil)
	add.Add("accessRule", []string{"onemore: allow users to read title"})
	if err := admin.Modify(add); code(err) != ldap.LDAPResultConstraintViolation || !strings.Contains(err.Error(), "10001 rules") {
		t.Errorf("one more by LDAP: %v", err)
	}
	if got, err := searchDN(c, suffix, ldap.ScopeWholeSubtree, "(uid=asantos)"); err != nil || len(got) != 1 {
		t.Errorf("afterwards: %v, %v", got, err)
	}
}

// TestRulesOfChangingEntries renames, moves, deletes and restores the group that a rule
// names, and makes a circle of groups, while clients search. After each step, the test
// checks whether the group's members have the right that the rule grants.
func TestRulesOfChangingEntries(t *testing.T) {
	t.Parallel()
	store := filepath.Join(t.TempDir(), "store")
	importInto(t, store, example)
	p := serve(t, store)
	admin := p.connect(adminDN, adminPassword)
	const team = "cn=team,ou=groups,dc=example,dc=com"
	group := func(name string, members ...string) {
		t.Helper()
		add := ldap.NewAddRequest(name, nil)
		add.Attribute("objectClass", []string{"groupOfNames"})
		add.Attribute("member", members)
		if err := admin.Add(add); err != nil {
			t.Fatal(err)
		}
	}
	group(team, jdoe)
	if out, status := applyRules(t, store, firstRules+fmt.Sprintf("team: allow group %q to read title\n", team)); status != 0 {
		t.Fatal(out)
	}
	stop := searchOften(t, p.url())
	defer stop()
	step := func(what string, want bool, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		c, err := dial(p.url(), jdoe, "opensesame")
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		got, err := searchDN(c, suffix, ldap.ScopeWholeSubtree, "(title=*)")
		if err != nil || len(got) > 0 != want {
			t.Errorf("%s: the member finds %d titles, %v", what, len(got), err)
		}
	}
	step("the rule", true, nil)
	step("renamed", true, admin.ModifyDN(ldap.NewModifyDNRequest(team, "cn=crew", true, "")))
	step("moved", true, admin.ModifyDN(ldap.NewModifyDNRequest("cn=crew,ou=groups,dc=example,dc=com", "cn=team", true, devicesDN)))
	step("moved back", true, admin.ModifyDN(ldap.NewModifyDNRequest("cn=team,"+devicesDN, "cn=team", true, "ou=groups,dc=example,dc=com")))
	before := time.Now()
	time.Sleep(10 * time.Millisecond)
	step("deleted", false, admin.Del(ldap.NewDelRequest(team, nil)))
	group(team, jdoe)
	step("another group of the name", false, nil)
	step("that one deleted", false, admin.Del(ldap.NewDelRequest(team, nil)))
	if out, status := ldapdRun(t, "restore", "--store", store, "--at", before.UTC().Format(time.RFC3339Nano), team); status != 0 {
		t.Fatal(out)
	}
	step("restored", true, nil)
	group("cn=a,ou=groups,dc=example,dc=com", "cn=b,ou=groups,dc=example,dc=com", jdoe)
	group("cn=b,ou=groups,dc=example,dc=com", team)
	circle := ldap.NewModifyRequest(team, nil)
	circle.Replace("member", []string{"cn=a,ou=groups,dc=example,dc=com"})
	step("a circle of groups", true, admin.Modify(circle))
	left := ldap.NewModifyRequest("cn=a,ou=groups,dc=example,dc=com", nil)
	left.Delete("member", []string{jdoe})
	step("out of the circle", false, admin.Modify(left))
}

// searchOften searches again and again as one user, until stop is called. Every search
// must succeed.
func searchOften(t *testing.T, url string) (stop func()) {
	t.Helper()
	end := make(chan struct{})
	var wait sync.WaitGroup
	for range 2 {
		c, err := dial(url, jdoe, "opensesame")
		if err != nil {
			t.Fatal(err)
		}
		wait.Go(func() {
			defer c.Close()
			for {
				select {
				case <-end:
					return
				default:
				}
				if got, err := searchDN(c, suffix, ldap.ScopeWholeSubtree, "(uid=asantos)"); err != nil || len(got) != 1 {
					t.Errorf("a search meanwhile: %v, %v", got, err)
					return
				}
			}
		})
	}
	return sync.OnceFunc(func() {
		close(end)
		wait.Wait()
	})
}
