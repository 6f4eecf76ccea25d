package directory_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/seed-4dac0d86/ldapd/directory"
	"github.com/seed-4dac0d86/ldapd/directory/auth"
	"github.com/seed-4dac0d86/ldapd/ldap/control"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
)

// newClient returns a client of a new directory.
func newClient(t testing.TB) *client {
	p := newPartition(t)
	c := &client{t: t, p: p, d: newDirectory(t, p, directory.Options{Version: "test"})}
	c.s = c.d.NewSession(nil)
	return c
}

// The method "do" runs a command of a transcript and returns what it prints.
func (c *client) do(cmd string, input ...string) string {
	c.t.Helper()
	return c.command(&datadriven.TestData{Cmd: cmd, Input: strings.Join(input, "\n")})
}

// The method "must" runs a command that must succeed.
func (c *client) must(cmd string, input ...string) {
	c.t.Helper()
	if out := c.do(cmd, input...); out != "0\n" {
		c.t.Fatalf("%s %s: %s", cmd, strings.Join(input, "; "), out)
	}
}

// TestWideEntryIsHidden checks access decisions about an entry with very many values. A
// search reads only some attribute types of such an entry: those that the filter tests, and
// those that the access rules test.
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

// TestScramRefusedByRules checks that a user who may not bind receives the same answer as a
// user with a wrong password. SCRAM needs this test, because the last message of SCRAM could
// reveal that the password was right.
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

// TestProxiedByName checks proxied authorization by name. The server looks up the name
// without regard to what the requester may search. Only the right to proxy at the entry of
// that name matters. A requester without this right receives the same answer for all names.
func TestProxiedByName(t *testing.T) {
	d := newUsers(t, directory.Options{Identities: auth.DefaultRules()})
	c := &client{t: t, p: directory.PartitionOf(d), d: d, s: d.NewSession(nil)}
	c.setRules(&datadriven.TestData{Input: "bind: allow everyone to bind\nuse: allow everyone to use *\n" +
		"portal: allow \"uid=ann,dc=example,dc=com\" to proxy in \"uid=bob,dc=example,dc=com\""})
	c.must("bind", "dn: uid=ann,dc=example,dc=com", "password: ann")
	whoami := func(authzID string) string {
		return c.do("extended", "oid: 1.3.6.1.4.1.4203.1.11.3", "control: proxied "+authzID+" critical")
	}
	if out := whoami("u:bob"); out != "0\nvalue: dn:uid=bob,dc=example,dc=com\n" {
		t.Errorf("u:bob: %s", out)
	}
	want := whoami("u:nobody")
	if !strings.HasPrefix(want, "123") {
		t.Errorf("u:nobody: %s", want)
	}
	for _, other := range []string{"u:twin", "u:ann", "dn:cn=one,dc=example,dc=com", "dn:cn=none,dc=example,dc=com", "dn:cn=admin,dc=example,dc=com"} {
		if out := whoami(other); out != want {
			t.Errorf("%s: %s", other, out)
		}
	}
}

// TestAuthzIDByRules checks the rights for a SASL bind with an authorization identity.
// The client needs the right to proxy at the entry of the authorization identity, and the
// right to bind at this entry and at its own entry.
func TestAuthzIDByRules(t *testing.T) {
	d := newUsers(t, directory.Options{Identities: auth.DefaultRules()})
	c := &client{t: t, p: directory.PartitionOf(d), d: d}
	bind := func(authzID string) op.Code {
		return send(t, d.NewSession(inTLS), "PLAIN", []byte(authzID+"\x00ann\x00ann")).Code
	}
	const allow = "bind: allow everyone to bind\nportal: allow \"uid=ann,dc=example,dc=com\" to proxy in \"uid=bob,dc=example,dc=com\" if mechanism plain"
	for rules, want := range map[string]op.Code{
		"bind: allow everyone to bind": op.InvalidCredentials,
		allow:                          op.Success,
		allow + "\nnot: deny everyone to bind in (uid=bob)": op.InvalidCredentials,
		allow + "\nnot: deny everyone to bind in (uid=ann)": op.InvalidCredentials,
	} {
		c.setRules(&datadriven.TestData{Input: rules})
		if got := bind("u:bob"); got != want {
			t.Errorf("%s: as bob %v, want %v", rules, got, want)
		}
		if got := bind("dn:cn=one,dc=example,dc=com"); got != op.InvalidCredentials {
			t.Errorf("%s: as one %v", rules, got)
		}
	}
}

// TestPageByNewRules checks that a later page shows the state of the first page. The rules
// in force when the client requests the later page decide what that page shows.
func TestPageByNewRules(t *testing.T) {
	c := newClient(t)
	c.must("bind", "dn: cn=admin,dc=example,dc=com", "password: secret")
	c.must("add", "dn: dc=example,dc=com", "objectClass: domain", "dc: example")
	for _, uid := range []string{"a", "b", "c"} {
		c.must("add", "dn: uid="+uid+",dc=example,dc=com", "objectClass: inetOrgPerson", "uid: "+uid, "cn: "+uid, "sn: "+uid, "userPassword: p")
	}
	const all = "all: allow everyone to read *, +, to bind\nuse: allow everyone to use *\n"
	c.setRules(&datadriven.TestData{Input: all})
	c.must("bind", "dn: uid=a,dc=example,dc=com", "password: p")
	page := func(control string) string {
		return c.do("search", "base: dc=example,dc=com", "scope: one", "attrs: sn", "control: "+control)
	}
	first := page("paged 1 new")
	c.setRules(&datadriven.TestData{Input: all + "sn: deny users to read sn\nhide: deny users to read in (uid=c)"})
	rest := page("paged 3")
	if !strings.Contains(first, "sn: a") || !strings.Contains(rest, "uid=b,") || strings.Contains(rest, "sn:") || strings.Contains(rest, "uid=c,") {
		t.Errorf("%s%s", first, rest)
	}
}

// TestRefusedRules checks that a change of rules is refused if nobody would manage the
// directory afterwards and no administrator is configured. Rules beyond the limits are
// also refused.
func TestRefusedRules(t *testing.T) {
	c := newClient(t)
	c.must("bind", "dn: cn=admin,dc=example,dc=com", "password: secret")
	c.must("add", "dn: dc=example,dc=com", "objectClass: domain", "dc: example")
	c.must("add", "dn: uid=ann,dc=example,dc=com", "objectClass: inetOrgPerson", "uid: ann", "cn: Ann", "sn: Ann", "userPassword: a")
	c.setRules(&datadriven.TestData{Input: "bind: allow everyone to bind\nuse: allow everyone to use *\nboss: allow \"uid=ann,dc=example,dc=com\" to manage"})
	var err error
	if c.d, err = directory.New(c.p, directory.Options{}); err != nil {
		t.Fatal(err)
	}
	c.s = c.d.NewSession(nil)
	c.must("bind", "dn: uid=ann,dc=example,dc=com", "password: a")
	for change, code := range map[string]string{
		"delete accessRule": "53 ",
		"replace accessRule: boss: allow nobody to manage":                                                   "53 ",
		"replace accessRule: boss: allow users to manage in (uid=ann)":                                       "53 ",
		"add accessRule: no: deny everyone to manage":                                                        "53 ",
		"delete accessRule: boss: allow \"uid=ann,dc=example,dc=com\" to manage":                             "53 ",
		"add accessRule: long: allow users to see # " + strings.Repeat("x", 16<<10):                          "19 ",
		"add accessRule: " + manyRules(10000):                                                                "19 ",
		"add accessRule: long: allow users to see # " + strings.Repeat("x", 16<<10-60):                       "0\n",
		"add accessRule: no: deny everyone to manage if not secure":                                          "0\n",
		"replace accessRule: bind: allow everyone to bind | boss: allow users to manage | " + manyRules(100): "0\n",
	} {
		out := c.do("modify", "dn: cn=config", change, "control: noOp critical")
		if code == "0\n" {
			code = "16654 "
		}
		if !strings.HasPrefix(out, code) {
			t.Errorf("%.60s: %s", change, out)
		}
	}
}

func manyRules(n int) string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("r%d: allow users to see", i)
	}
	return strings.Join(all, " | ")
}

// TestAccessDiff checks that a modify of rules says who gains and loses what, with no-op and without, and only to
// whoever manages the whole directory.
func TestAccessDiff(t *testing.T) {
	c := newClient(t)
	c.must("bind", "dn: cn=admin,dc=example,dc=com", "password: secret")
	c.must("add", "dn: dc=example,dc=com", "objectClass: domain", "dc: example")
	c.must("add", "dn: uid=ann,dc=example,dc=com", "objectClass: inetOrgPerson", "uid: ann", "cn: Ann", "sn: Ann", "userPassword: a")
	c.setRules(&datadriven.TestData{Input: "bind: allow everyone to bind\nuse: allow everyone to use *\nphones: allow users to show mail\nboss: allow \"uid=ann,dc=example,dc=com\" to manage in \"uid=ann,dc=example,dc=com\""})
	modify := func(name, change string, more ...op.Control) (op.Code, control.AccessDiff) {
		t.Helper()
		var out answers
		c.s.Serve(t.Context(), &op.Message{ID: 9, Request: &op.Modify{Name: name, Changes: changes(lines(change))}, Controls: append(more, op.Control{OID: control.OIDAccessDiff, Critical: true})}, &out)
		var diff control.AccessDiff
		if x := out.done.Control(control.OIDAccessDiff); x != nil {
			var err error
			if diff, err = control.ParseAccessDiff(x.Value); err != nil {
				t.Fatal(err)
			}
		} else if out.done.Code == op.Success {
			t.Errorf("%s: no control", change)
		}
		return out.done.Code, diff
	}
	gains := func(diff control.AccessDiff) bool {
		return len(diff) == 1 && diff[0].Gained && strings.HasPrefix(diff[0].Rights[0], "show telephoneNumber") && strings.Contains(strings.Join(diff[0].Where, " "), "users")
	}
	for range 2 { // nothing was changed
		if code, diff := modify("cn=config", "add accessRule: more: allow users to show telephoneNumber", op.Control{OID: control.OIDNoOp}); code != op.NoOperation || !gains(diff) {
			t.Errorf("%d %v", code, diff)
		}
	}
	if code, diff := modify("cn=config", "add accessRule: more: allow users to show telephoneNumber"); code != op.Success || !gains(diff) {
		t.Errorf("%d %v", code, diff)
	}
	if code, diff := modify("cn=config", "add accessRule: again: allow users to show telephoneNumber"); code != op.Success || len(diff) != 0 {
		t.Errorf("%d %v", code, diff)
	}
	c.must("modify", "dn: dc=example,dc=com", "add accessRule: own: allow self to show sn")
	find := func() string {
		return c.do("search", "base: dc=example,dc=com", "scope: sub", "attrs: accessRule", "filter: (accessRule=*)")
	}
	if out := find(); !strings.HasPrefix(out, "dn: dc=example") || !strings.Contains(out, "own: allow self to show sn") || strings.Contains(out, "uid=ann") {
		t.Errorf("the entries with rules: %s", out)
	}
	c.must("bind", "dn: uid=ann,dc=example,dc=com", "password: a")
	if out := find(); strings.Contains(out, "dn:") {
		t.Errorf("ann finds %s", out)
	}
	if code, diff := modify("uid=ann,dc=example,dc=com", "add accessRule: own: allow self to show sn"); code != op.InsufficientAccessRights || diff != nil {
		t.Errorf("%d %v", code, diff)
	}
}
