package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/go-ldap/ldap/v3"
)

// TestMembersTogether runs many clients that add members to one group at three servers. The
// additions must not conflict, so the access logs must show no retry. The clients then
// increment one counter. These increments conflict, so the logs must show retries of them. This
// shows that the logs record retries at all.
func TestMembersTogether(t *testing.T) {
	t.Parallel()
	const group, each = "cn=all," + suffix, 20
	store := storeKinds[1].make(t)
	importInto(t, store, example, bigGroup(t, group))
	dir := t.TempDir()
	var all [3]*process
	for i := range all {
		all[i] = serve(t, store, "--log-access", filepath.Join(dir, fmt.Sprint(i)))
		awaitWriter(t, all[i])
	}
	together := func(each int, change func(r *ldap.ModifyRequest, client, n int)) (retries int) {
		before := countRetries(t, dir)
		var g sync.WaitGroup
		for client := range clients {
			c := all[client%len(all)].admin()
			g.Go(func() {
				for n := range each {
					r := ldap.NewModifyRequest(group, nil)
					change(r, client, n)
					modify := func() error { return c.Modify(r) }
					err := persist(modify)
					for code(err) == ldap.LDAPResultBusy {
						err = persist(modify)
					}
					if err != nil {
						t.Errorf("client %d: %v", client, err)
					}
				}
			})
		}
		g.Wait()
		return countRetries(t, dir) - before
	}
	if n := together(each, func(r *ldap.ModifyRequest, client, n int) {
		r.Add("member", []string{fmt.Sprintf("cn=%d of %d", n, client)})
	}); n > 0 {
		t.Errorf("%d additions of members were tried again", n)
	}
	if n := together(each/5, func(r *ldap.ModifyRequest, _, _ int) { r.Increment("uidNumber", "1") }); n == 0 {
		t.Error("none of many increments of one number was tried again")
	} else {
		t.Logf("%d members were added without a retry; %d increments of one number took %d", clients*each, clients*each/5, n)
	}
	for _, p := range all {
		p.stop()
	}
	checkStore(t, store)
}

// bigGroup writes an LDIF file of a group that is large already, because the addition
// that makes a group large would conflict with concurrent additions.
func bigGroup(t *testing.T, name string) (file string) {
	var b strings.Builder
	fmt.Fprintf(&b, "dn: %s\nobjectClass: groupOfNames\nobjectClass: extensibleObject\nuidNumber: 0\n", name)
	for n := range 150 {
		fmt.Fprintf(&b, "member: cn=old %d\n", n)
	}
	file = filepath.Join(t.TempDir(), "group.ldif")
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// countRetries returns the number of retries in the access logs in a folder.
func countRetries(t *testing.T, dir string) (retries int) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(b)) {
			var operation struct{ Retries int }
			if err := json.Unmarshal([]byte(line), &operation); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			retries += operation.Retries
		}
	}
	return retries
}
