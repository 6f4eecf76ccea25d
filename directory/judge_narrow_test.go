package directory_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/seed-4dac0d86/ldapd/directory"
	"github.com/seed-4dac0d86/ldapd/ldap/monitor"
)

// newNarrow returns a client of a directory with a hundred people in ou=people. It also
// returns a function that returns how many entries the last search looked at.
func newNarrow(t *testing.T) (c *client, candidates func() int) {
	t.Helper()
	var last monitor.Observation
	p := newPartition(t)
	d := newDirectory(t, p, directory.Options{Observers: []monitor.Observer{func(o *directory.Observation) { last = *o }}})
	c = &client{t: t, p: p, d: d, s: d.NewSession(nil)}
	c.must("bind", "dn: "+admin, "password: secret")
	c.must("add", "dn: dc=example,dc=com", "objectClass: domain", "dc: example")
	for _, ou := range []string{"people", "groups"} {
		c.must("add", "dn: ou="+ou+",dc=example,dc=com", "objectClass: organizationalUnit", "ou: "+ou)
	}
	for i := range 100 {
		c.must("add", fmt.Sprintf("dn: uid=p%d,ou=people,dc=example,dc=com", i), "objectClass: inetOrgPerson", fmt.Sprintf("uid: p%d", i), "cn: P", "sn: P",
			fmt.Sprintf("departmentNumber: %d", i%20), fmt.Sprintf("manager: uid=p%d,ou=people,dc=example,dc=com", i/10), "userPassword: p")
	}
	c.must("add", "dn: cn=g,ou=groups,dc=example,dc=com", "objectClass: groupOfNames", "cn: g", "member: uid=p7,ou=people,dc=example,dc=com")
	return c, func() int { return last.Candidates + last.Rows }
}

// bindBy sets rules and then binds as the person uid=p7.
func (c *client) bindBy(rules string) {
	c.t.Helper()
	c.setRules(&datadriven.TestData{Input: "bind: allow everyone to bind\nuse: allow everyone to use *\n" + rules})
	c.s = c.d.NewSession(nil)
	c.must("bind", "dn: uid=p7,ou=people,dc=example,dc=com", "password: p")
}

// found returns the RDNs that a search finds.
func (c *client) found(input ...string) string {
	c.t.Helper()
	var names []string
	out := c.do("search", append(input, "attrs: 1.1")...)
	for line := range strings.Lines(out) {
		if name, ok := strings.CutPrefix(line, "dn: "); ok {
			rdn, _, _ := strings.Cut(name, ",")
			names = append(names, rdn)
		}
	}
	if !strings.HasSuffix(out, "0\n") {
		return out
	}
	return strings.Join(names, " ")
}

// TestVisibilityInPlan checks how many entries a search for all entries looks at, under
// rules that let the requester see only some entries.
func TestVisibilityInPlan(t *testing.T) {
	c, candidates := newNarrow(t)
	for _, test := range []struct {
		name, rules, base, scope string
		found                    string
		most                     int
	}{
		{"only oneself", "own: allow self to read\ntop: allow users to see in only \"dc=example,dc=com\"", "dc=example,dc=com", "children", "uid=p7", 1},
		{"oneself and the top", "own: allow self to read\ntop: allow users to see in children", "dc=example,dc=com", "sub", "dc=example uid=p7", 2},
		{"nothing below", "own: allow self to read\ntop: allow users to see in only \"ou=groups,dc=example,dc=com\"", "ou=groups,dc=example,dc=com", "children", "", 1},
		{"nothing below, by places", "top: allow users to read in only \"ou=groups,dc=example,dc=com\", only \"dc=example,dc=com\"", "ou=groups,dc=example,dc=com", "children", "", 0},
		{"elsewhere everything", "top: allow users to see in only \"dc=example,dc=com\", only \"ou=people,dc=example,dc=com\"\nall: allow users to read in \"ou=groups,dc=example,dc=com\"", "ou=people,dc=example,dc=com", "children", "", 0},
		{"its manager", "top: allow users to see in only \"dc=example,dc=com\"\nboss: allow its manager to read", "dc=example,dc=com", "children", "uid=p70 uid=p71 uid=p72 uid=p73 uid=p74 uid=p75 uid=p76 uid=p77 uid=p78 uid=p79", 10},
		{"same", "top: allow users to see in only \"dc=example,dc=com\"\nteam: allow same departmentNumber to read", "dc=example,dc=com", "children", "uid=p27 uid=p47 uid=p67 uid=p7 uid=p87", 5},
		{"an indexed filter", "top: allow users to see in only \"dc=example,dc=com\"\nsome: allow users to read in \"dc=example,dc=com\" (|(departmentNumber=3)(uid=p9))", "dc=example,dc=com", "children", "uid=p23 uid=p3 uid=p43 uid=p63 uid=p83 uid=p9", 6},
		{"all of several", "top: allow users to see in only \"dc=example,dc=com\"\nown: allow self to read\nboss: allow its manager to write title", "dc=example,dc=com", "children", "uid=p7 uid=p70 uid=p71 uid=p72 uid=p73 uid=p74 uid=p75 uid=p76 uid=p77 uid=p78 uid=p79", 11},
		{"its members", "top: allow users to see in only \"dc=example,dc=com\"\nin: allow its member to read", "dc=example,dc=com", "children", "cn=g", 1},
		{"less by a denial", "top: allow users to see in only \"dc=example,dc=com\"\nboss: allow its manager to read\nno: deny users to read in (departmentNumber=10)", "dc=example,dc=com", "children", "uid=p71 uid=p72 uid=p73 uid=p74 uid=p75 uid=p76 uid=p77 uid=p78 uid=p79", 10},
		{"not by classes", "top: allow users to see in only \"dc=example,dc=com\"\npeople: allow users to read in (objectClass=groupOfNames)", "dc=example,dc=com", "children", "cn=g", 103},
		{"nothing is narrow", "all: allow users to see in \"dc=example,dc=com\"\nown: allow self to read", "ou=groups,dc=example,dc=com", "sub", "cn=g ou=groups", 104},
		{"manage", "top: allow users to see in only \"dc=example,dc=com\"\nown: allow self to manage", "dc=example,dc=com", "children", "uid=p7", 1},
	} {
		c.bindBy(test.rules)
		if got := c.found("base: "+test.base, "scope: "+test.scope, "filter: (objectClass=*)"); got != test.found {
			t.Errorf("%s: %s, want %s", test.name, got, test.found)
		}
		if n := candidates(); n > test.most {
			t.Errorf("%s: %d candidates, want %d", test.name, n, test.most)
		}
	}
}

// TestVisibilityOfWideEntries checks that a search finds two special entries that the rules
// let the user see: an entry with very many values, and an entry whose uniqueMember consists
// of the user's name and a bit string.
func TestVisibilityOfWideEntries(t *testing.T) {
	c, _ := newNarrow(t)
	group := []string{"dn: cn=wide,ou=groups,dc=example,dc=com", "objectClass: groupOfNames", "cn: wide", "owner: uid=p7,ou=people,dc=example,dc=com", "member: uid=p7,ou=people,dc=example,dc=com"}
	for i := range 2000 {
		group = append(group, fmt.Sprintf("member: uid=%d,dc=example,dc=com", i))
	}
	c.must("add", group...)
	c.must("add", "dn: cn=unique,ou=groups,dc=example,dc=com", "objectClass: groupOfUniqueNames", "cn: unique", "uniqueMember: uid=p7,ou=people,dc=example,dc=com#'01'B")
	for _, rule := range []string{"allow its owner to read", "allow its member to read", "allow its uniqueMember to read", "allow users to read in (cn=wide)"} {
		c.bindBy("top: allow users to see in only \"dc=example,dc=com\"\nr: " + rule)
		want := "cn=wide"
		switch {
		case strings.Contains(rule, "member"):
			want = "cn=g cn=wide"
		case strings.Contains(rule, "uniqueMember"):
			want = "cn=unique"
		}
		if got := c.found("base: dc=example,dc=com", "scope: children", "filter: (objectClass=*)"); got != want {
			t.Errorf("%s: %s", rule, got)
		}
	}
}

// TestMembersOfWideGroups tests whether people are members of a group with very many members,
// while members come and go. The first people whom a search tests are looked up in the index,
// and the others in the group.
func TestMembersOfWideGroups(t *testing.T) {
	c, _ := newNarrow(t)
	const wide = "cn=wide,ou=groups,dc=example,dc=com"
	member := func(i int) string { return fmt.Sprintf("member: uid=p%d,ou=people,dc=example,dc=com", i) }
	group := []string{"dn: " + wide, "objectClass: groupOfNames", "cn: wide"}
	in := map[int]bool{}
	for i := range 2000 {
		if i < 50 {
			in[i] = true
			group = append(group, member(i))
		}
		group = append(group, fmt.Sprintf("member: uid=%d,dc=example,dc=com", i))
	}
	c.must("add", group...)
	for _, change := range []struct {
		kind string
		who  int
	}{{"add", 70}, {"delete", 3}, {"add", 3}, {"delete", 0}, {"add", 99}, {"delete", 70}} {
		out := strings.Fields(c.found("base: dc=example,dc=com", "scope: sub", "filter: (&(sn=P)(!(memberOf="+wide+")))"))
		if len(out) != 100-len(in) || slices.ContainsFunc(out, func(rdn string) bool { i, _ := strconv.Atoi(rdn[len("uid=p"):]); return in[i] }) {
			t.Fatalf("before %s %d: not members: %v", change.kind, change.who, out)
		}
		for i := range 100 {
			got := c.found("base: dc=example,dc=com", "scope: sub", fmt.Sprintf("filter: (&(uid=p%d)(memberOf=%s))", i, wide))
			if (got != "") != in[i] {
				t.Fatalf("before %s %d: member p%d: found %q", change.kind, change.who, i, got)
			}
		}
		c.must("modify", "dn: "+wide, change.kind+" "+member(change.who))
		if in[change.who] = true; change.kind == "delete" {
			delete(in, change.who)
		}
	}
}

// TestVisibilityOfPages changes the access rules between two pages, so that the search would
// have another plan. The next page must be refused.
func TestVisibilityOfPages(t *testing.T) {
	c, _ := newNarrow(t)
	const top = "top: allow users to see in only \"dc=example,dc=com\"\n"
	c.bindBy(top + "boss: allow its manager to read")
	const search = "base: dc=example,dc=com\nscope: children\nattrs: 1.1\ncontrol: paged 4"
	seen := strings.Count(c.do("search", search+" new"), "dn: ") + strings.Count(c.do("search", search), "dn: ")
	if seen != 8 {
		t.Errorf("%d entries on two pages", seen)
	}
	c.setRules(&datadriven.TestData{Input: "bind: allow everyone to bind\nuse: allow everyone to use *\n" + top + "team: allow same departmentNumber to read"})
	if got := c.do("search", search); !strings.HasPrefix(got, "53 ") {
		t.Errorf("a page by other rules: %s", got)
	}
}
