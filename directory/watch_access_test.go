package directory_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/seed-4dac0d86/ldapd/directory"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
)

// watchRules let users read everything except employeeNumber, entries whose employeeType is
// hidden, and entries below ou=secret.
const watchRules = `
bind: allow everyone to bind
use: allow everyone to use *
read: allow users to read in "dc=example,dc=com" except (employeeType=hidden), below "ou=secret,dc=example,dc=com"
number: deny users to read employeeNumber
`

// A user watches what the administrator changes.
type user struct {
	*watching
	admin, user *directory.Session
	c           *client
}

func newUser(t *testing.T, rules string) *user {
	t.Helper()
	c := newClient(t)
	u := &user{watching: &watching{t: t, s: c.s}, c: c, admin: c.s, user: c.d.NewSession(nil)}
	c.must("bind", "dn: "+admin, "password: secret")
	c.must("add", "dn: dc=example,dc=com", "objectClass: domain", "dc: example")
	for _, ou := range []string{"people", "secret", "other"} {
		c.must("add", "dn: ou="+ou+",dc=example,dc=com", "objectClass: organizationalUnit", "objectClass: extensibleObject")
	}
	c.must("add", "dn: uid=me,ou=other,dc=example,dc=com", "objectClass: inetOrgPerson", "cn: me", "sn: me", "userPassword: p")
	u.person("uid=a,ou=people")
	u.person("uid=h,ou=people", "employeeType: hidden")
	u.person("uid=s,ou=secret")
	u.rules(rules)
	serve(t, u.user, &op.Bind{Version: 3, Name: "uid=me,ou=other,dc=example,dc=com", Password: []byte("p")})
	t.Cleanup(func() {
		if u.cancel != nil {
			u.cancel()
		}
	})
	return u
}

func (u *user) rules(rules string) { u.c.setRules(&datadriven.TestData{Input: rules}) }

func (u *user) person(name string, more ...string) {
	u.t.Helper()
	u.c.must("add", append([]string{"dn: " + name + ",dc=example,dc=com", "objectClass: inetOrgPerson", "cn: x", "sn: x"}, more...)...)
}

func (u *user) modify(name string, changes ...string) {
	u.t.Helper()
	u.c.must("modify", append([]string{"dn: " + name + ",dc=example,dc=com"}, changes...)...)
}

func (u *user) move(name, rdn, superior string) {
	u.t.Helper()
	u.c.must("modifydn", "dn: "+name+",dc=example,dc=com", "rdn: "+rdn, "superior: "+superior+",dc=example,dc=com")
}

// watches begins the user's search for people.
func (u *user) watches(control op.Control) {
	u.t.Helper()
	u.s = u.user
	u.search("dc=example,dc=com", "(objectClass=inetOrgPerson)", control)
	u.s = u.admin
}

// told reads messages and compares them with the messages in want, in any order. The names
// in want leave out dc=example,dc=com.
func (u *user) told(want string) {
	u.t.Helper()
	var got []string
	for range strings.Split(want, "; ") {
		got = append(got, strings.ReplaceAll(<-u.tape.messages, ",dc=example,dc=com", ""))
	}
	wanted := strings.Split(want, "; ")
	slices.Sort(got) // entries may come in any order
	slices.Sort(wanted)
	if !slices.Equal(got, wanted) {
		u.t.Fatalf("told %q, want %q", got, wanted)
	}
}

// TestSyncByRules checks what the persist stage sends to a user who does not see everything.
// It must send nothing about entries and attributes that the user may not see. If the user
// no longer sees an entry, it must send a deletion.
func TestSyncByRules(t *testing.T) {
	u := newUser(t, watchRules)
	u.watches(syncControl(3))
	u.told("uid=me,ou=other add; uid=a,ou=people add; refreshPresent")
	for _, step := range []struct {
		does string
		do   func()
		told string
	}{
		{"a hidden entry comes", func() { u.person("uid=i,ou=people", "employeeType: hidden") }, "newCookie"},
		{"it changes", func() { u.modify("uid=i,ou=people", "replace sn: y") }, "newCookie"},
		{"it becomes visible", func() { u.modify("uid=i,ou=people", "delete employeeType") }, "uid=i,ou=people add; newCookie"},
		{"a hidden attribute changes", func() { u.modify("uid=i,ou=people", "replace employeeNumber: 1") }, "newCookie"},
		{"a visible one", func() { u.modify("uid=i,ou=people", "replace title: 1") }, "uid=i,ou=people modify; newCookie"},
		{"it becomes hidden", func() { u.modify("uid=i,ou=people", "replace employeeType: hidden") }, "uid=i,ou=people delete; newCookie"},
		{"a hidden entry goes", func() { u.c.must("delete", "dn: uid=i,ou=people,dc=example,dc=com") }, "newCookie"},
		{"an entry comes out", func() { u.move("uid=s,ou=secret", "uid=s", "ou=people") }, "uid=s,ou=people add; newCookie"},
		{"it goes back", func() { u.move("uid=s,ou=people", "uid=s", "ou=secret") }, "uid=s,ou=people delete; newCookie"},
		{"it is moved unseen", func() { u.move("uid=s,ou=secret", "uid=t", "ou=secret") }, "newCookie"},
		{"its place becomes open", func() { u.c.must("modifydn", "dn: ou=secret,dc=example,dc=com", "rdn: ou=open") }, "newCookie"},
	} {
		step.do()
		t.Log(step.does)
		u.told(step.told)
	}
}

// TestSyncOfNewRules checks that a change of rules or groups changes the content, so that
// the client receives additions and deletions.
func TestSyncOfNewRules(t *testing.T) {
	u := newUser(t, watchRules)
	u.watches(syncControl(3))
	u.told("uid=me,ou=other add; uid=a,ou=people add; refreshPresent")
	const base = "bind: allow everyone to bind\nuse: allow everyone to use *\n"
	people := base + "read: allow users to read in \"ou=people,dc=example,dc=com\", only \"dc=example,dc=com\"\n"
	for _, step := range []struct {
		does string
		do   func()
		told string
	}{
		{"other rules, of other users", func() { u.rules(watchRules + "x: allow \"uid=a,ou=people,dc=example,dc=com\" to manage") }, "newCookie"},
		{"more and less", func() { u.rules(people) }, "uid=me,ou=other delete; uid=h,ou=people add; newCookie"},
		{"less of an entry", func() { u.rules(people + "no: deny users to read cn in (uid=a)") }, "uid=a,ou=people modify; newCookie"},
		{"a group", func() {
			u.c.must("add", "dn: cn=g,ou=other,dc=example,dc=com", "objectClass: groupOfNames", "member: uid=a,ou=people,dc=example,dc=com")
		}, "newCookie"},
		{"a rule for it", func() {
			u.rules(people + "g: allow group \"cn=g,ou=other,dc=example,dc=com\" to read in below \"ou=secret,dc=example,dc=com\"")
		}, "uid=a,ou=people modify; newCookie"},
		{"a member", func() { u.modify("cn=g,ou=other", "add member: uid=me,ou=other,dc=example,dc=com") }, "uid=s,ou=secret add; newCookie"},
		{"no member", func() { u.modify("cn=g,ou=other", "delete member: uid=me,ou=other,dc=example,dc=com") }, "uid=s,ou=secret delete; newCookie"},
		{"a rule about members", func() {
			u.rules(people + "g: allow users to read in (memberOf=cn=g,ou=other,dc=example,dc=com)\np: allow its parent's owner to read")
		}, "newCookie"},
		{"members come", func() { u.modify("cn=g,ou=other", "add member: uid=s,ou=secret,dc=example,dc=com") }, "uid=s,ou=secret add; newCookie"},
		{"and go", func() { u.modify("cn=g,ou=other", "delete member: uid=s,ou=secret,dc=example,dc=com") }, "uid=s,ou=secret delete; newCookie"},
		{"the parent changes", func() { u.modify("ou=secret", "add owner: uid=me,ou=other,dc=example,dc=com") }, "uid=s,ou=secret add; newCookie"},
		{"everything", func() { u.rules(base + "read: allow everyone to read *, +") },
			"uid=me,ou=other add; uid=a,ou=people modify; uid=h,ou=people modify; uid=s,ou=secret modify; newCookie"},
		{"the identity goes", func() { u.c.must("delete", "dn: uid=me,ou=other,dc=example,dc=com") }, "done 8 "},
	} {
		step.do()
		t.Log(step.does)
		u.told(step.told)
	}
}

// TestWatchEndsWithItsAccount checks that a search that waits for changes ends when one of two
// accounts is disabled: the account of the session, or the account that the proxied
// authorization control names. No later change may be sent.
func TestWatchEndsWithItsAccount(t *testing.T) {
	const me, other = "uid=me,ou=other", "uid=a,ou=people"
	for name, control := range map[string]op.Control{"sync": syncControl(3), "persistent search": psearchControl()} {
		for _, disabled := range []string{me, other} {
			u := newUser(t, watchRules+"act: allow \""+me+",dc=example,dc=com\" to proxy")
			first := []op.Control{control}
			if disabled == other {
				first = append(first, op.Control{OID: "2.16.840.1.113730.3.4.18", Critical: true, Value: []byte("dn:" + other + ",dc=example,dc=com")})
			}
			u.s = u.user
			u.search("ou=people,dc=example,dc=com", "(objectClass=inetOrgPerson)", first...)
			u.s = u.admin
			if name == "sync" {
				u.told(other + " add; refreshPresent")
			} else {
				u.told(other)
			}
			u.modify(disabled, "replace pwdAccountLockedTime: 000001010000Z")
			u.modify(other, "replace title: secret")
			for got := range u.tape.messages {
				if strings.HasPrefix(got, "done 8 ") {
					break
				}
				t.Errorf("%s of %s: %q", name, disabled, got)
				if strings.HasPrefix(got, "done") {
					break
				}
			}
		}
	}
}

// TestSyncCookieByRules checks what a refresh stage with a cookie sends. If the rules are
// the same as at the time of the cookie, and the difference can be sent in one step, the
// refresh stage sends the difference. Otherwise it sends the whole content, so that it shows
// nothing of the states between.
func TestSyncCookieByRules(t *testing.T) {
	u := newUser(t, watchRules)
	refresh := func(want string) {
		t.Helper()
		cookie := ""
		if u.tape != nil {
			cookie = u.tape.cookie
		}
		u.watches(withCookie(1, cookie))
		u.told(want)
	}
	const whole = "done 0 cookie=true deletes=false"
	const different = "done 0 cookie=true deletes=true"
	refresh("uid=me,ou=other add; uid=a,ou=people add; " + whole)
	refresh(different)
	u.modify("uid=a,ou=people", "replace employeeNumber: 1")
	u.modify("uid=h,ou=people", "replace title: 1")
	refresh(different)
	u.modify("uid=a,ou=people", "replace title: 1")
	refresh("uid=a,ou=people add; " + different)
	u.modify("uid=a,ou=people", "replace employeeType: hidden")
	u.modify("uid=h,ou=people", "delete employeeType")
	refresh("syncIdSet deletes=true; uid=h,ou=people add; " + different)
	first := u.tape.cookie
	u.rules(watchRules + "no: deny users to read sn")
	refresh("uid=me,ou=other add; uid=h,ou=people add; " + whole)
	refresh(different)
	u.rules(watchRules)
	u.tape.cookie = first // the rules are again the same as at the time of this cookie
	refresh(different)
	u.modify("uid=h,ou=people", "replace title: secret")
	u.move("uid=h,ou=people", "uid=h", "ou=secret")
	u.modify("uid=h,ou=secret", "delete title")
	u.move("uid=h,ou=secret", "uid=h", "ou=people")
	refresh("uid=me,ou=other add; uid=h,ou=people add; " + whole)
}

// TestPersistentSearchByRules checks that a persistent search reports changes as the user
// sees them, and that it ends when the access rules for the user change.
func TestPersistentSearchByRules(t *testing.T) {
	u := newUser(t, watchRules)
	u.watches(psearchControl())
	u.told("uid=me,ou=other; uid=a,ou=people")
	for _, step := range []struct {
		do   func()
		told string
	}{
		{func() { u.person("uid=i,ou=people", "employeeType: hidden") }, ""},
		{func() { u.modify("uid=i,ou=people", "replace sn: y") }, ""},
		{func() { u.modify("uid=i,ou=people", "delete employeeType") }, "uid=i,ou=people change 1"},
		{func() { u.modify("uid=i,ou=people", "replace employeeNumber: 1") }, ""},
		{func() { u.modify("uid=i,ou=people", "replace title: 1") }, "uid=i,ou=people change 4"},
		{func() { u.move("uid=i,ou=people", "uid=i", "ou=other") }, "uid=i,ou=other change 8 from uid=i,ou=people"},
		{func() { u.move("uid=i,ou=other", "uid=i", "ou=secret") }, "uid=i,ou=other change 2"},
		{func() { u.move("uid=i,ou=secret", "uid=i", "ou=people") }, "uid=i,ou=people change 1"},
		{func() { u.modify("uid=i,ou=people", "replace employeeType: hidden") }, "uid=i,ou=people change 2"},
		{func() { u.c.must("delete", "dn: uid=i,ou=people,dc=example,dc=com") }, ""},
		{func() { u.rules(watchRules + "x: allow \"uid=a,ou=people,dc=example,dc=com\" to manage") }, ""},
		{func() { u.modify("uid=a,ou=people", "replace title: 1") }, "uid=a,ou=people change 4"},
		{func() { u.rules("bind: allow everyone to bind\nuse: allow everyone to use *") }, "done 53 "},
	} {
		step.do()
		if step.told != "" { // an unwanted message would fail the check of a later step
			u.told(step.told)
		}
	}
}

// TestWatchIsRefusedByRules checks when a search that waits for changes is refused: if the
// rules do not allow the control that requests the changes, or if the rules do not let the
// user see the base of the search.
func TestWatchIsRefusedByRules(t *testing.T) {
	for rules, code := range map[string]int{
		"bind: allow everyone to bind\nuse: allow everyone to use * except 1.3.6.1.4.1.4203.1.9.1.1\nread: allow users to read": 50,
		"bind: allow everyone to bind\nuse: allow everyone to use *":                                                            32,
	} {
		u := newUser(t, rules)
		u.watches(syncControl(1))
		u.told(fmt.Sprintf("done %d ", code))
	}
}
