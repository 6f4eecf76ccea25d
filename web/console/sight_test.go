package console_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/ldap/op"
)

// TestFirstSight checks what pages say to somebody who sees them for the first time.
func TestFirstSight(t *testing.T) {
	s := newSite(t)
	v := s.logged(jdoe, "opensesame")
	v.get(dnLink(jdoe) + "/edit") // before a rule lets people write objectClass
	if v.shows("inetOrgPerson"); strings.Contains(v.text, `aria-label="objectClass"`) {
		t.Errorf("jdoe is offered to change objectClass: %s", v.page())
	}
	s.rich()
	old := url.QueryEscape(time.Now().UTC().Format(time.RFC3339Nano))
	time.Sleep(2 * time.Millisecond) // a moment includes its whole millisecond
	s.modify(s.admin, jdoe, "title", "Boss")
	s.ldap(s.admin, &op.Add{Name: "cn=new," + people, Attributes: []op.PartialAttribute{op.Attribute("objectClass", "device"), op.Attribute("cn", "new")}})
	visitors := map[string]*visitor{"admin": s.logged(admin, "secret"), "jdoe": s.logged(jdoe, "opensesame"), "": s.visitor()}
	const crowd = "cn=crowd,ou=groups,dc=example,dc=com"
	for _, x := range []struct{ who, address, says, not string }{
		{"jdoe", "/me", `href="#pw">Change your password</a>`, ""},
		{"jdoe", "/me?at=" + old, "John", "Nothing can be changed"},
		{"jdoe", "/me/code?at=" + old, "One-time codes", "Nothing can be changed"},
		{"admin", "/me/code", "The administrator is configured", "no such entry"},
		{"admin", "/?at=" + old, "Nothing can be changed", "Add an entry"},
		{"admin", dnLink(crowd), "More than 100 values", ""},
		{"admin", dnLink(crowd), "Find, add or remove values of member</a>", ""},
		{"admin", dnLink(crowd) + "?at=" + old, "All values of member</a>", "add or remove"},
		{"admin", dnLink(crowd) + "/values/member", "<title>Values of member of crowd", ""},
		{"admin", dnLink(crowd) + "/values/member?find=anielsen", "None of these is among the values", "child-00001"},
		{"admin", dnLink(crowd) + "/values/member?find=nobody-at-all", "is not among the values", "child-00001"},
		{"admin", dnLink(crowd) + "/values/member?find=child-00001", "is a value", "is not among"},
		{"admin", "/add?kind=person&parent=" + url.QueryEscape(people), `<span class="attr">uid</span> <span class="must">required`, `placeholder="ou=`},
		{"admin", dnLink(jdoe) + "/compare?from=now&to=now", "These are the same moment", "Restore"},
		{"admin", dnLink(jdoe) + "/compare?from=" + old + "&to=now", "Restore the first", "the same moment"},
		{"admin", "/changes", "Undo the add of", ""},
		{"admin", "/changes", ": this deletes the entry", ""},
		{"admin", "/changes", `<span class="part" dir="auto">cn</span>`, ""},
		{"admin", "/jobs", `<summary aria-current="true">Operate`, ""},
		{"admin", "/tree", "<summary>Operate", ""},
		{"admin", "/operations", "The first minute is being measured.", "an hour ago"},
		{"jdoe", "/login", "You are logged in as", ""},
		{"", "/login", "", "You are logged in as"},
		{"jdoe", dnLink(jdoe) + "/value/description/7", `href="` + dnLink(jdoe) + `">Entry`, ""},
		{"jdoe", "/no-such-page", "", ">Entry<"},
		{"jdoe", "/jobs", "Ask who runs this directory.", ""},
	} {
		v = visitors[x.who]
		v.get(x.address)
		if !strings.Contains(v.text, x.says) || x.not != "" && strings.Contains(v.text, x.not) {
			t.Errorf("%q at %s: %q, not %q: %s", x.who, x.address, x.says, x.not, v.page())
		}
	}
	v = visitors["admin"]
	v.get("/changes")
	v.follow("Undo")
	v.shows("To undo this, the entry cn=new," + people + " is deleted.")
	v.get(dnLink(jdoe) + "/history")
	v.submit("Compare the two moments")
	v.shows("Boss", "The same at both moments:")
}
