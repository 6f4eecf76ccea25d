package directory_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/seed-4dac0d86/ldapd/directory"
)

// newClient makes one of a new directory.
func newClient(t testing.TB) *client {
	p := newPartition(t)
	c := &client{t: t, p: p, d: newDirectory(t, p, directory.Options{Version: "test"})}
	c.s = c.d.NewSession(nil)
	return c
}

// do runs a command of transcripts and returns what it prints.
func (c *client) do(cmd string, input ...string) string {
	c.t.Helper()
	return c.command(&datadriven.TestData{Cmd: cmd, Input: strings.Join(input, "\n")})
}

// must runs commands that succeed.
func (c *client) must(cmd string, input ...string) {
	c.t.Helper()
	if out := c.do(cmd, input...); out != "0\n" {
		c.t.Fatalf("%s %s: %s", cmd, strings.Join(input, "; "), out)
	}
}

// Filters read of an entry with very many values those types alone that they ask
// about. Decisions must have theirs too.
func TestWideEntryIsHidden(t *testing.T) {
	c := newClient(t)
	c.must("bind", "dn: cn=admin,dc=example,dc=com", "password: secret")
	c.must("add", "dn: dc=example,dc=com", "objectClass: domain", "dc: example")
	c.must("add", "dn: uid=bob,dc=example,dc=com", "objectClass: inetOrgPerson", "uid: bob", "cn: Bob", "sn: Bob", "userPassword: b")
	group := []string{"dn: cn=group,dc=example,dc=com", "objectClass: groupOfNames", "cn: group", "businessCategory: secret"}
	for i := range 2000 {
		group = append(group, fmt.Sprintf("member: uid=%d,dc=example,dc=com", i))
	}
	c.must("add", group...)
	c.setRules(&datadriven.TestData{Input: "all: allow everyone to read *, +, to bind, delete\n" +
		"use: allow everyone to use *\n" +
		"hide: deny users to read, see in (businessCategory=secret)\n" +
		"keep: deny users to delete in (businessCategory=secret)"})
	c.must("bind", "dn: uid=bob,dc=example,dc=com", "password: b")
	for _, filter := range []string{"(objectClass=groupOfNames)", "(cn=group)", "(!(cn=other))", "(member=uid=7,dc=example,dc=com)"} {
		out := c.do("search", "base: dc=example,dc=com", "scope: sub", "attrs: 1.1", "filter: "+filter)
		if strings.Contains(out, "group") {
			t.Errorf("%s finds what is hidden:\n%s", filter, out)
		}
	}
	if out := c.do("search", "base: dc=example,dc=com", "attrs: numSubordinates"); !strings.Contains(out, "numSubordinates: 1") {
		t.Errorf("what is hidden is counted:\n%s", out)
	}
	if out := c.do("delete", "dn: dc=example,dc=com", "control: treeDelete critical"); !strings.HasPrefix(out, "50") {
		t.Errorf("a tree is deleted with what may not be: %s", out)
	}
}

// Who may not bind is refused as a wrong password is, by SCRAM too: its last message
// would say that the password was right.
func TestScramRefusedByRules(t *testing.T) {
	d := newUsers(t, directory.Options{})
	c := &client{t: t, p: directory.PartitionOf(d), d: d}
	c.setRules(&datadriven.TestData{Input: "read: allow everyone to read, bind\nnot: deny everyone to bind in (uid=ann)"})
	right, _ := scramBind(t, d.NewSession(inTLS), "SCRAM-SHA-256", "ann", "ann", "")
	wrong, _ := scramBind(t, d.NewSession(inTLS), "SCRAM-SHA-256", "ann", "other", "")
	if right.Code != wrong.Code || right.Diagnostic != wrong.Diagnostic || string(right.SASLCredentials) != string(wrong.SASLCredentials) {
		t.Errorf("%v %q, of a wrong password %v %q", &right.Result, right.SASLCredentials, &wrong.Result, wrong.SASLCredentials)
	}
}
