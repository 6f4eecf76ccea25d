package integration

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-ldap/ldap/v3"
)

var groupedPeople = flag.Int("memberships", 40, "people of TestMemberships")

// A membershipTree has people, and groups whose members are people and later groups. So no
// group is in itself.
type membershipTree struct {
	people int
	groups [][]string // the names of the members of each group
}

func personInTree(i int) string { return fmt.Sprintf("uid=u%d,%s", i, suffix) }
func groupInTree(i int) string  { return fmt.Sprintf("cn=g%d,%s", i, suffix) }

func newMembershipTree(people int, r *rand.Rand) *membershipTree {
	tree := &membershipTree{people: people, groups: make([][]string, people/2)}
	for g := range tree.groups {
		if g > 0 {
			above := r.IntN(g)
			tree.groups[above] = append(tree.groups[above], groupInTree(g))
		}
	}
	for p := range people {
		for _, g := range r.Perm(len(tree.groups))[:5] {
			tree.groups[g] = append(tree.groups[g], personInTree(p))
		}
	}
	return tree
}

// write writes the tree as LDIF.
func (m *membershipTree) write(t *testing.T) (file string) {
	var b strings.Builder
	for p := range m.people {
		fmt.Fprintf(&b, "dn: %s\nobjectClass: account\nuid: u%d\n\n", personInTree(p), p)
	}
	for g, members := range m.groups {
		fmt.Fprintf(&b, "dn: %s\nobjectClass: groupOfNames\ncn: g%d\n", groupInTree(g), g)
		for _, name := range members {
			fmt.Fprintf(&b, "member: %s\n", name)
		}
		b.WriteString("\n")
	}
	file = filepath.Join(t.TempDir(), "groups.ldif")
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// of returns the names of the groups that an entry is in. If nested is set, it includes the
// groups of these groups.
func (m *membershipTree) of(name string, nested bool) (groups []string) {
	for next := []string{name}; len(next) > 0; next = next[1:] {
		for g, members := range m.groups {
			group := groupInTree(g)
			if !slices.Contains(members, next[0]) || slices.Contains(groups, group) {
				continue
			}
			if groups = append(groups, group); nested {
				next = append(next, group)
			}
		}
	}
	slices.Sort(groups)
	return groups
}

// TestMemberships compares memberOf and isMemberOf of people, and searches by them, with the
// definition. The groups are changed at one of two servers, and read at both.
func TestMemberships(t *testing.T) {
	t.Parallel()
	for _, kind := range storeKinds {
		t.Run(kind.name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			tree := newMembershipTree(*groupedPeople, r)
			store := kind.make(t)
			importInto(t, store, example, tree.write(t))
			servers := []*process{serve(t, store)}
			if kind.name == "hbase" {
				servers = append(servers, serve(t, store))
			}
			awaitWriter(t, servers[0])
			tree.compare(t, servers, r)
			for range 10 {
				tree.change(t, servers[0], r)
			}
			tree.compare(t, servers, r)
		})
	}
}

// change moves a person from one group to another.
func (m *membershipTree) change(t *testing.T, server *process, r *rand.Rand) {
	from := r.IntN(len(m.groups))
	at := slices.IndexFunc(m.groups[from], func(name string) bool { return strings.HasPrefix(name, "uid=") })
	to := slices.IndexFunc(m.groups, func(members []string) bool { return at >= 0 && !slices.Contains(members, m.groups[from][at]) })
	if at < 0 || to < 0 || len(m.groups[from]) == 1 {
		return
	}
	name := m.groups[from][at]
	m.groups[from] = slices.Delete(m.groups[from], at, at+1)
	m.groups[to] = append(m.groups[to], name)
	leave := ldap.NewModifyRequest(groupInTree(from), nil)
	leave.Delete("member", []string{name})
	enter := ldap.NewModifyRequest(groupInTree(to), nil)
	enter.Add("member", []string{name})
	c := server.admin()
	for _, modify := range []*ldap.ModifyRequest{leave, enter} {
		if err := c.Modify(modify); err != nil {
			t.Fatal(err)
		}
	}
}

// compare compares what the servers show of the memberships of up to 100 people with the
// definition. The second server shows a commit of the first one a moment later, so what it
// shows may differ for a while.
func (m *membershipTree) compare(t *testing.T, servers []*process, r *rand.Rand) {
	t.Helper()
	var took []time.Duration // of searches for isMemberOf
	for _, server := range servers {
		c := server.admin()
		for _, p := range r.Perm(m.people)[:min(m.people, 100)] {
			for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
				began := time.Now()
				wrong := m.wrongAbout(t, c, p)
				took = append(took, time.Since(began))
				if wrong == "" {
					break
				}
				if time.Now().After(end) {
					t.Fatal(wrong)
				}
			}
		}
	}
	slices.Sort(took)
	t.Logf("a search for memberOf and isMemberOf, and one by each: p50 %v, p99 %v", took[len(took)/2], took[len(took)*99/100])
}

// wrongAbout returns what a server shows wrongly of the memberships of a person, or "".
func (m *membershipTree) wrongAbout(t *testing.T, c *ldap.Conn, person int) string {
	t.Helper()
	name := personInTree(person)
	uid := fmt.Sprintf("(uid=u%d)", person)
	found, err := c.Search(ldap.NewSearchRequest(suffix, ldap.ScopeWholeSubtree, ldap.NeverDerefAliases, 0, 0, false, uid, []string{"memberOf", "isMemberOf"}, nil))
	if err != nil || len(found.Entries) != 1 {
		t.Fatalf("%s: %v", name, err)
	}
	for attribute, nested := range map[string]bool{"memberOf": false, "isMemberOf": true} {
		want := m.of(name, nested)
		got := slices.Sorted(slices.Values(found.Entries[0].GetAttributeValues(attribute)))
		if !slices.Equal(got, want) {
			return fmt.Sprintf("%s of %s is %v, want %v", attribute, name, got, want)
		}
		group := groupInTree(person % len(m.groups))
		by, err := searchDN(c, suffix, ldap.ScopeWholeSubtree, fmt.Sprintf("(&%s(%s=%s))", uid, attribute, group))
		if err != nil {
			t.Fatal(err)
		}
		if in := slices.Contains(want, group); in != (len(by) == 1) {
			return fmt.Sprintf("the search by %s=%s finds %v, and the group is one of %s: %v", attribute, group, by, name, in)
		}
	}
	return ""
}
