package directory_test

import (
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestHolesOfPeers tries faults of access control that other servers had. The comment at
// each case describes the fault.
func TestHolesOfPeers(t *testing.T) {
	me := "dn: uid=me,ou=people,dc=example,dc=com"
	for _, test := range []struct {
		name, rules string
		ask         func(c *client) string
		want        string
	}{
		// An index decided the filter, and the entry was sent without a further check.
		{"389-ds #5170: candidates that an index decides", "read: allow users to read uid, cn, to show title in \"dc=example,dc=com\" except (uid=x)",
			func(c *client) string { return c.people("(|(uid=x)(title=then)(uid=y))", "sort uid") }, "y=then"},
		// The right to search an attribute was enough to dereference it.
		{"CVE-2019-14824: dereference", "read: allow users to read objectClass, uid, member\ntitle: allow users to find title",
			func(c *client) string {
				return c.do("search", "base: cn=g,ou=other,dc=example,dc=com\nattrs: 1.1\ncontrol: deref member:title,uid critical")
			}, "dn: cn=g,ou=other,dc=example,dc=com\n  member -> uid=x,ou=people,dc=example,dc=com\n    uid: x\n0\n"},
		// The result code or the diagnostic of a bind revealed whether the entry
		// exists.
		{"389-ds #4609: bind", "other: allow users to see in only \"dc=none\"", func(c *client) string {
			return differences(c.do("bind", "dn: uid=x,ou=people,dc=example,dc=com", "password: wrong"), c.do("bind", "dn: uid=none,ou=people,dc=example,dc=com", "password: wrong"),
				c.do("bind", "dn: uid=none,ou=none,dc=example,dc=com", "password: wrong"))
		}, "same"},
		// A requester without any right learned from the answer whether the entry
		// exists.
		{"CVE-2016-4992: add, delete, modify, compare", "see: allow users to see in only \"dc=example,dc=com\"", func(c *client) string {
			all := []string{}
			for _, uid := range []string{"x", "none"} {
				name := "dn: uid=" + uid + ",ou=people,dc=example,dc=com"
				out := c.do("add", name, "objectClass: inetOrgPerson", "cn: x", "sn: x") + c.do("delete", name) + c.do("modify", name, "replace title: x") +
					c.do("compare", name, "assert: title=then") + c.do("modifydn", name, "rdn: uid=z") + c.do("search", "base: "+name[4:])
				all = append(all, strings.ReplaceAll(out, "uid="+uid, "uid=*"))
			}
			return differences(all...)
		}, "same"},
		// A rename needed no right.
		{"CVE-2015-1854: rename", "read: allow users to read\nwrite: allow users to write *, to move, receive",
			func(c *client) string { return c.do("modifydn", me, "rdn: uid=other") }, "50 (the access rules do not allow this)\n"},
		// An OR failed as a whole because one of its parts could not be searched.
		{"389-ds #5476: OR", "read: allow users to read uid", func(c *client) string { return c.people("(|(title=then)(uid=y)(!(title=x)))", "sort uid") }, "y"},
		// A rule that excepted one attribute also covered attributes that were added to the
		// schema later.
		{"exclusion: reserved attributes", "read: allow users to read *, + except title",
			func(c *client) string {
				return c.do("search", "base: uid=me,ou=people,dc=example,dc=com\nattrs: userPassword accessRule pwdHistory title")
			}, me + "\n0\n"},
		// Without rules, everybody could read everything. With a single rule, only
		// those whom the rule names could read anything.
		{"defaults: what no rule allows", "other: allow users to see in only \"dc=none\"", func(c *client) string { return c.people("(uid=*)", "sort uid") }, "32 (no entry dc=example,dc=com)\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := test.ask(newPast(t, test.rules, nil)); got != test.want {
				t.Errorf("%s\nwant %s", got, test.want)
			}
		})
	}
	t.Run("RFC 2820 G4: who gets the name gets no right", func(t *testing.T) {
		c := newPast(t, "x: allow \"uid=x,ou=people,dc=example,dc=com\" to read", func(*client) {})
		c.must("bind", "dn: "+admin, "password: secret")
		c.must("delete", "dn: uid=x,ou=people,dc=example,dc=com")
		c.must("add", "dn: uid=x,ou=people,dc=example,dc=com", "objectClass: inetOrgPerson", "cn: x", "sn: x", "userPassword: p")
		c.must("bind", "dn: uid=x,ou=people,dc=example,dc=com", "password: p")
		if got := c.people("(uid=*)", "sort uid"); got != "32 (no entry dc=example,dc=com)\n" {
			t.Error(got)
		}
	})
}

// differences returns "same" if all texts are equal, and otherwise the texts.
func differences(texts ...string) string {
	for _, s := range texts {
		if s != texts[0] {
			return strings.Join(texts, "----\n")
		}
	}
	return "same"
}

// TestRulesThatLockOut checks that denials never lock out the administrator, and lock out a
// user who manages the directory only if they deny managing too.
func TestRulesThatLockOut(t *testing.T) {
	c := newPast(t, "boss: allow \"uid=me,ou=people,dc=example,dc=com\" to manage\nno: deny everyone to read\nshut: deny everyone to edit", nil)
	c.must("modify", "dn: uid=x,ou=people,dc=example,dc=com", "replace title: now") // denials of other rights have no effect on a user with the right to manage
	c.must("modify", "dn: cn=config", "delete accessRule: no: deny everyone to read")
	c.setRules(&datadriven.TestData{Input: "no: deny everyone to bind, manage, read, edit\nuse: deny everyone to use *"})
	if out := c.do("bind", "dn: uid=me,ou=people,dc=example,dc=com", "password: p"); !strings.HasPrefix(out, "49") {
		t.Errorf("a bind that rules deny: %s", out)
	}
	c.must("bind", "dn: "+admin, "password: secret")
	c.must("modify", "dn: cn=config", "replace accessRule: bind: allow everyone to bind")
}
