package console_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/control"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/web"
)

// modify replaces the value of an attribute over LDAP.
func (s *site) modify(c web.Client, name, attribute, value string) {
	s.t.Helper()
	s.ldap(c, &op.Modify{Name: name, Changes: []op.Modification{{Kind: op.ModReplace, PartialAttribute: op.PartialAttribute{Description: attribute, Values: [][]byte{[]byte(value)}}}}})
}

// bound returns a client of LDAP operations that has bound.
func (s *site) bound(name, password string) web.Client {
	s.t.Helper()
	c := web.Client{Session: s.dir.NewSession(nil)}
	s.ldap(c, &op.Bind{Version: 3, Name: name, Password: []byte(password)})
	return c
}

// TestPast does what people do with the past, without script.
func TestPast(t *testing.T) {
	s := newSite(t)
	before := s.entry(jdoe)
	s.modify(s.bound(jdoe, "opensesame"), jdoe, "telephoneNumber", "+41 44 000 00 00")
	v := s.logged(admin, "secret")
	v.task("find who changed what", func() {
		v.get("/search")
		v.submit("Search", "q", "jdoe")
		v.follow("jdoe")
		v.follow("History")
		v.shows("modify", "telephoneNumber: +41 44 000 00 00", "add")
		v.submit("Compare the two moments")
		v.shows("+41 44 555 01 00", "+41 44 000 00 00", "The same at both moments:")
	})
	v.task("undo it", func() {
		v.follow("History")
		v.follow("Undo")
		v.shows("jdoe made this change", "telephoneNumber: +41 44 555 01 00")
		v.submit("Undo")
		v.shows("The change has been undone.")
	})
	if now := s.entry(jdoe); now != before {
		t.Errorf("undone, the entry is\n%s\nnot\n%s", now, before)
	}
	s.ldap(s.admin, &op.Delete{Name: jdoe})
	v.task("restore a deleted entry", func() {
		v.get("/changes")
		v.follow("jdoe")
		v.shows("deleted")
		v.follow("Restore")
		v.shows("comes back with the last password", "changetype: add")
		v.submit("Restore")
		v.shows("The entry is as it was then.", "John Doe")
	})
	s.logged(jdoe, "opensesame")
	v.task("undo a delete with what was below", func() {
		s.ldap(s.admin, &op.Delete{Name: people}, op.Control{OID: control.OIDTreeDelete, Critical: true})
		v.get("/changes")
		v.follow("Undo")
		v.submit("Undo")
		v.shows("The change has been undone.")
	})
	if now := s.entry(jdoe); sorted(now) != sorted(before) {
		t.Errorf("the entry is\n%s\nnot\n%s", now, before)
	}
	v.task("undo an add", func() {
		s.ldap(s.admin, &op.Add{Name: "ou=new," + people, Attributes: []op.PartialAttribute{{Description: "objectClass", Values: [][]byte{[]byte("organizationalUnit")}}}})
		v.get("/changes")
		v.follow("Undo")
		v.submit("Undo")
	})
	if now := s.entry("ou=new," + people); strings.Contains(now, "dn:") {
		t.Errorf("there is still\n%s", now)
	}
}

// TestUndoTogether undoes a commit of several entries: in one commit, or not at all and with the name of the entry in
// the way.
func TestUndoTogether(t *testing.T) {
	s := newSite(t)
	const asantos, fresh = "uid=asantos," + people, "ou=fresh,dc=example,dc=com"
	before := s.entry(jdoe)
	together := func(title string) {
		t.Helper()
		start, err := s.admin.Do(t.Context(), &op.Extended{OID: control.OIDStartTransaction}, web.Answer{})
		if err != nil {
			t.Fatal(err)
		}
		in := op.Control{OID: control.OIDTransaction, Critical: true, Value: start.Value}
		s.ldap(s.admin, &op.Modify{Name: jdoe, Changes: []op.Modification{op.Change(op.ModReplace, "title", title)}}, in)
		s.ldap(s.admin, &op.Delete{Name: asantos}, in)
		s.ldap(s.admin, &op.Add{Name: fresh, Attributes: []op.PartialAttribute{op.Attribute("objectClass", "organizationalUnit")}}, in)
		end := control.EndTransaction{Commit: true, ID: string(start.Value)}
		if _, err := s.admin.Do(t.Context(), &op.Extended{OID: control.OIDEndTransaction, Value: end.Encode()}, web.Answer{}); err != nil {
			t.Fatal(err)
		}
	}
	together("together")
	v := s.logged(admin, "secret")
	v.get("/changes")
	v.follow("Undo")
	v.shows("These", "made in one commit", "changetype: add", "the entry "+fresh+" is deleted")
	v.submit("Undo")
	v.shows("The change has been undone.")
	if s.entry(jdoe) != before || !strings.Contains(s.entry(asantos), "dn: ") || strings.Contains(s.entry(fresh), "dn: ") {
		t.Errorf("not as before: %s %s %s", s.entry(jdoe), s.entry(asantos), s.entry(fresh))
	}
	log := s.ldap(s.admin, &op.Search{Base: "cn=changelog", Scope: op.SingleLevel, Filter: filter.MustParse("(objectClass=*)"), Attributes: []string{"changeRevision"}})
	_, revision, _ := strings.Cut(log[len(log)-1], "changeRevision: ")
	if n := strings.Count(strings.Join(log, ""), revision); n < 3 {
		t.Errorf("%d changes have the revision of the last one: it should be one commit", n)
	}
	together("again")
	v.get("/changes")
	v.follow("Undo")
	s.modify(s.admin, jdoe, "description", "meanwhile")
	v.submit("Undo")
	v.shows(jdoe+": it was changed again since", "Nothing has been changed")
	if v.status != http.StatusConflict || strings.Contains(s.entry(asantos), "dn: ") || !strings.Contains(s.entry(fresh), "dn: ") {
		t.Errorf("%d, or half undone", v.status)
	}
}

// sorted returns the lines of an entry in their order, so that the order of values does not count.
func sorted(text string) string {
	lines := strings.Split(text, "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// TestUndoRefused checks that a change is not undone over a later one, and with the password again only.
func TestUndoRefused(t *testing.T) {
	s := newSite(t)
	s.modify(s.admin, jdoe, "title", "first")
	v := s.logged(admin, "secret")
	v.get("/changes")
	v.follow("Undo")
	s.modify(s.admin, jdoe, "title", "second")
	v.submit("Undo")
	v.shows(jdoe+": it was changed again since", "by cn=admin")
	if !strings.Contains(s.entry(jdoe), "title: second") {
		t.Error("the later change is gone")
	}
	s.modify(s.admin, jdoe, "userPassword", "seven green lanterns")
	v.get("/changes")
	v.shows("userPassword changed")
	v.follow("Undo")
	v.shows("Nothing is different from then", "passwords have no history")
	one := s.logged(jdoe, "seven green lanterns")
	one.get(v.at.RequestURI())
	if one.status != http.StatusNotFound && one.status != http.StatusForbidden {
		t.Errorf("jdoe sees how to undo a change: %d", one.status)
	}
}

// TestDifference compares two moments.
func TestDifference(t *testing.T) {
	s := newSite(t)
	before := time.Now().UTC().Format(time.RFC3339Nano)
	time.Sleep(2 * time.Millisecond) // a moment includes its whole millisecond
	s.modify(s.admin, jdoe, "title", "Boss")
	v := s.logged(admin, "secret")
	v.get("/diff")
	v.submit("Compare", "from", before, "base", people)
	v.shows("1 change leads from one to the other", "title: Boss")
	v.follow("LDIF")
	if !strings.Contains(v.text, "dn: "+jdoe+"\nchangetype: modify\n") {
		t.Errorf("the file is %s", v.text)
	}
	v.get("/diff?from=never&to=now")
	if v.status != http.StatusUnprocessableEntity {
		t.Errorf("a moment that is none: %d", v.status)
	}
}

// TestPastRights checks that pages of the past show to others what LDAP would.
func TestPastRights(t *testing.T) {
	s := newSite(t)
	s.modify(s.admin, jdoe, "title", "Boss")
	for _, page := range []string{"/changes", "/entry/" + url.PathEscape("dn:"+jdoe) + "/history", "/diff?from=1h&to=now", "/restore?moment=1s&name=" + url.QueryEscape(jdoe), "/undo?number=1"} {
		for _, v := range []*visitor{s.visitor(), s.logged(jdoe, "opensesame")} {
			v.get(page)
			if v.status < 400 && strings.Contains(v.page(), "Boss") {
				t.Errorf("%s shows a change: %s", page, v.page())
			}
		}
		v := s.logged(jdoe, "opensesame")
		if v.get("/entry/" + url.PathEscape("dn:"+jdoe)); strings.Contains(v.page(), "History") {
			t.Error("there is a link to a history that jdoe may not see")
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, v.url+page, strings.NewReader(""))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		v.send(r)
		if v.status < 400 {
			t.Errorf("a post to %s: %d", page, v.status)
		}
	}
}

// TestManyChanges checks that the pages of changes are bounded.
func TestManyChanges(t *testing.T) {
	s := newSite(t)
	var names []string
	for _, e := range s.ldap(s.admin, &op.Search{Base: "dc=example,dc=com", Scope: op.WholeSubtree, Filter: filter.MustParse("(objectClass=person)"), Attributes: []string{"sn"}}) {
		if _, rest, ok := strings.Cut(e, "dn: "); ok {
			name, _, _ := strings.Cut(rest, "\n")
			names = append(names, name)
		}
	}
	s.modify(s.bound(jdoe, "opensesame"), jdoe, "mobile", "+41 79 555 01 01")
	for i := range 1_000 {
		name := names[i%len(names)]
		if i%8 == 0 {
			name = jdoe // who has more than a page of changes
		}
		s.modify(s.admin, name, "description", fmt.Sprint(i, strings.Repeat(" wörds", 200)))
	}
	v := s.logged(admin, "secret")
	for _, page := range []string{"/changes", "/changes?who=admin", "/changes?who=nobody+here", "/changes?since=2020-01-01T00:00&until=2036-01-01T00:00",
		"/entry/" + url.PathEscape("dn:"+jdoe) + "/history", "/diff?from=1h&to=now"} {
		v.get(page)
		if v.status >= 400 && !strings.HasPrefix(page, "/diff") || len(v.text) > 200_000 {
			t.Errorf("%s: %d, %d octets", page, v.status, len(v.text))
		}
	}
	v.get("/entry/" + url.PathEscape("dn:"+jdoe) + "/history")
	v.follow("Earlier changes")
	v.shows("+41 79 555 01 01")
	v.get("/changes")
	v.shows("description: 999 wörds", "description: 900 wörds")
	v.follow("Earlier changes")
	v.shows("description: 899 wörds", "description: 800 wörds")
	for v.get("/changes?who=jdoe"); !strings.Contains(v.page(), "+41 79 555 01 01"); {
		v.follow("Earlier changes")
	}
}
