package integration

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-ldap/ldap/v3"
)

var (
	viewedPeople = flag.Int("viewedpeople", 2000, "people whom the views of TestViewsKilled show")
	viewKills    = flag.Int("viewkills", 3, "times that TestViewsKilled kills the server while it builds views")
)

const (
	viewedDN     = "ou=viewed," + suffix
	viewedByDept = "cn=viewed,cn=views"
	viewedList   = "cn=phonebook,cn=views"
)

// TestViewsKilled kills a server again and again while it builds a list and totals, and while
// a client moves people between departments. In the end the views must equal their
// definitions.
func TestViewsKilled(t *testing.T) {
	t.Parallel()
	store := storeKinds[0].make(t)
	mustRun(t, "import", "--store", store, "--suffix", suffix, "--suffix", "cn=views", example, viewedFile(t))
	p := serve(t, store)
	c := p.admin()
	for _, view := range []map[string][]string{
		{"dn": {"cn=views"}, "objectClass": {"viewContainer"}},
		{"dn": {viewedByDept}, "objectClass": {"totalsView"}, "viewBase": {viewedDN}, "viewGroup": {"departmentNumber"}, "viewTotal": {"count"}},
		{"dn": {viewedList}, "objectClass": {"listView"}, "viewBase": {viewedDN}, "viewFilter": {"(objectClass=person)"}, "viewOrder": {"sn"}},
	} {
		r := ldap.NewAddRequest(view["dn"][0], nil)
		for name, values := range view {
			if name != "dn" {
				r.Attribute(name, values)
			}
		}
		if err := c.Add(r); err != nil {
			t.Fatal(err)
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	moved := 0
	// A server builds 2,000 people in some 50 ms, and a million in half a minute.
	building := 50*time.Millisecond + time.Duration(*viewedPeople)*5*time.Microsecond
	for range *viewKills {
		moved += movePeople(t, c, r, rand.N(building))
		p.kill()
		p = serve(t, store)
		c = p.admin()
	}
	moved += movePeople(t, c, r, 10*time.Millisecond)
	awaitViews(t, store)
	t.Logf("%d people were moved; %d views are kept after %d kills", moved, 2, *viewKills)
	compareViewed(t, c)
	p.stop()
	checkStore(t, store)
}

func viewedFile(t *testing.T) string {
	var b strings.Builder
	fmt.Fprintf(&b, "dn: %s\nobjectClass: organizationalUnit\n\n", viewedDN)
	for i := range *viewedPeople {
		fmt.Fprintf(&b, "dn: uid=v%d,%s\nobjectClass: inetOrgPerson\ncn: Person %[1]d\nsn: %[1]d\ndepartmentNumber: %[3]d\n\n", i, viewedDN, i%20)
	}
	return writeIn(t, t.TempDir(), "viewed.ldif", b.String())
}

// movePeople moves people to other departments for some time, and returns their number.
func movePeople(t *testing.T, c *ldap.Conn, r *rand.Rand, length time.Duration) (moved int) {
	t.Helper()
	for end := time.Now().Add(length); time.Now().Before(end); moved++ {
		m := ldap.NewModifyRequest(fmt.Sprintf("uid=v%d,%s", r.IntN(*viewedPeople), viewedDN), nil)
		m.Replace("departmentNumber", []string{strconv.Itoa(r.IntN(20))})
		if err := c.Modify(m); err != nil {
			t.Fatal(err)
		}
	}
	return moved
}

// awaitViews waits until all views of a store are kept.
func awaitViews(t *testing.T, store string) {
	t.Helper()
	eventually(t, "the views are kept", func() error {
		out := mustRun(t, "view", "list", "--store", store)
		for line := range strings.Lines(out) {
			if strings.Contains(line, "cn=views") && !strings.Contains(line, ": kept up to ") {
				return fmt.Errorf("%s", line)
			}
		}
		if !strings.Contains(out, viewedByDept) || !strings.Contains(out, viewedList) {
			return fmt.Errorf("not all views: %s", out)
		}
		return nil
	})
}

// compareViewed compares what the views show with what the people come to.
func compareViewed(t *testing.T, c *ldap.Conn) {
	t.Helper()
	find := func(base string, scope int, filter string, attributes ...string) []*ldap.Entry {
		res, err := c.SearchWithPaging(ldap.NewSearchRequest(base, scope, ldap.NeverDerefAliases, 0, 0, false, filter, attributes, nil), 1000)
		if err != nil {
			t.Fatal(err)
		}
		return res.Entries
	}
	want := map[string]int{}
	for _, e := range find(viewedDN, ldap.ScopeSingleLevel, "(objectClass=person)", "departmentNumber") {
		want[e.GetAttributeValue("departmentNumber")]++
	}
	for _, e := range find(viewedByDept, ldap.ScopeSingleLevel, "(objectClass=*)", "departmentNumber", "viewCount") {
		d := e.GetAttributeValue("departmentNumber")
		if n := e.GetAttributeValue("viewCount"); n != strconv.Itoa(want[d]) {
			t.Errorf("department %s has %d people, and the view says %s", d, want[d], n)
		}
		delete(want, d)
	}
	if len(want) > 0 {
		t.Errorf("the view lacks departments: %v", want)
	}
	seen := map[string]bool{}
	for _, e := range find(viewedList, ldap.ScopeSingleLevel, "(objectClass=*)", "viewEntry") {
		seen[e.GetAttributeValue("viewEntry")] = true
	}
	if len(seen) != *viewedPeople {
		t.Errorf("the list shows %d people of %d", len(seen), *viewedPeople)
	}
}
