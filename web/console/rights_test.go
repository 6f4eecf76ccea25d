package console_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/seed-4dac0d86/ldapd/directory"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/control"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/ldap/server"
	"github.com/seed-4dac0d86/ldapd/ldap/wire"
	"github.com/seed-4dac0d86/ldapd/ldap/wire/wiretest"
	"github.com/seed-4dac0d86/ldapd/web/console"
)

type sessions struct{ *directory.Directory }

func (s sessions) NewSession(c *server.ConnInfo) server.Session { return s.Directory.NewSession(c) }

// A twin sends what the pages ask the directory over LDAP too, as the same identity, and compares what is answered.
type twin struct {
	*site
	conn     net.Conn
	from     *bufio.Reader
	admin    bool
	page     string // that asks
	messages int
}

func (s *site) twin(name, password string) *twin {
	s.t.Helper()
	near, far := net.Pipe()
	srv := server.New(sessions{s.dir}, server.Options{})
	go srv.ServeConn(far)
	s.t.Cleanup(func() { near.Close() })
	w := &twin{site: s, admin: name == admin, conn: near, from: bufio.NewReader(near)}
	if name != "" {
		if all := w.send(&op.Message{ID: 1, Request: &op.Bind{Version: 3, Name: name, Password: []byte(password)}}); all[0].Response.Code != op.Success {
			s.t.Fatalf("%s: %+v", name, all[0].Response)
		}
	}
	return w
}

// send sends a message and returns the answers.
func (w *twin) send(m *op.Message) (all []*wiretest.Answer) {
	w.t.Helper()
	if _, err := w.conn.Write(wiretest.AppendRequest(nil, m)); err != nil {
		w.t.Fatal(err)
	}
	for {
		a, err := wiretest.Read(w.from)
		if err != nil {
			w.t.Fatal(err)
		}
		all = append(all, a)
		if a.Tag != 0x64 && a.Tag != 0x73 && a.Tag != 0x79 {
			return all
		}
	}
}

func nameOf(r op.Request) string {
	if x, ok := r.(*op.Extended); ok {
		return x.OID
	}
	if name := op.NameOf(r); name != nil {
		return *name
	}
	return ""
}

// once reports whether a request that succeeds cannot be made twice, and not be tried.
func once(r op.Request) bool {
	x, ok := r.(*op.Extended)
	if !ok {
		return !isRead(r) && strings.HasSuffix(nameOf(r), ",cn=branches")
	}
	restore, err := control.ParseRestore(x.Value)
	return x.OID == control.OIDStartJob || x.OID == control.OIDCancelJob || x.OID == control.OIDRestore && err == nil && !restore.DryRun
}

func isRead(r op.Request) bool {
	switch r.(type) {
	case *op.Search, *op.Compare:
		return true
	}
	return false
}

// isUpdate reports whether a request changes something that no-op leaves as it is.
func isUpdate(r op.Request) bool {
	x, ok := r.(*op.Extended)
	return !isRead(r) && (!ok || x.OID == control.OIDPasswordModify)
}

// trace sends a message over LDAP, where an update changes nothing, and then to the directory for the page.
func (w *twin) trace(m *op.Message, to op.Sink) op.Sink {
	if _, ok := m.Request.(*op.Bind); ok || w.page == "" {
		return to
	}
	if search, ok := m.Request.(*op.Search); ok {
		search.TimeLimit = 0 // what is answered shall not depend on how fast this machine is
	}
	w.messages++
	r := &recorder{twin: w, message: m, to: to}
	if once(m.Request) {
		if !w.admin {
			r.want = w.send(m)
		}
		return r
	}
	tried := *m
	if isUpdate(m.Request) && !slices.ContainsFunc(m.Controls, func(c op.Control) bool { return c.OID == control.OIDNoOp }) {
		tried.Controls = append(slices.Clone(m.Controls), op.Control{OID: control.OIDNoOp, Critical: true})
	}
	r.want = w.send(&tried)
	return r
}

// A recorder compares what the page is answered with what LDAP has answered.
type recorder struct {
	*twin
	message   *op.Message
	to        op.Sink
	want, got []*wiretest.Answer
}

func (r *recorder) keep(b []byte) {
	a, err := wiretest.Decode(b)
	if err != nil {
		r.t.Errorf("%s: %v", r.page, err)
		return
	}
	r.got = append(r.got, a)
}

func (r *recorder) Entry(e *op.SearchEntry) error {
	r.keep(wire.AppendEntry(nil, r.message.ID, e))
	return r.to.Entry(e)
}

func (r *recorder) Reference(urls []string, cs []op.Control) error {
	r.keep(wire.AppendReference(nil, r.message.ID, urls, cs))
	return r.to.Reference(urls, cs)
}

func (r *recorder) Intermediate(oid string, value []byte, cs []op.Control) error {
	r.keep(wire.AppendIntermediate(nil, r.message.ID, oid, value, cs))
	return r.to.Intermediate(oid, value, cs)
}

func (r *recorder) Done(x *op.Response) error {
	r.keep(wire.AppendResponse(nil, r.message.ID, r.message.Request, x))
	if r.want != nil {
		got, want := plain(r.message, r.got), plain(r.message, r.want)
		if got != want {
			r.t.Errorf("%s: %T %v\nthe page is answered\n%s\nLDAP\n%s", r.page, r.message.Request, nameOf(r.message.Request), got, want)
		}
	}
	return r.to.Done(x)
}

// plain returns answers as text, without what differs from one moment to the next.
func plain(m *op.Message, all []*wiretest.Answer) string {
	var b strings.Builder
	for _, a := range all {
		code := a.Response.Code
		if isUpdate(m.Request) && (code == op.Success || code == op.NoOperation) {
			return "done" // with a diagnostic, a password or a control that no-op leaves out
		}
		fmt.Fprintf(&b, "%d %s %q %q\n", a.Tag&0x1f, a.Name, a.URLs, a.Response.Diagnostic)
		for _, x := range a.Attributes {
			fmt.Fprintf(&b, "  %s", x.Description)
			if !strings.HasSuffix(a.Name, "cn=monitor") { // else it is counting
				fmt.Fprintf(&b, ": %q", x.Values)
			}
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%d", code)
		for _, c := range a.Response.Controls {
			fmt.Fprintf(&b, " %s", c.OID)
			if c.OID != control.OIDPagedResults && c.OID != control.OIDExplain { // a cookie, a duration
				fmt.Fprintf(&b, "=%x", c.Value)
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// TestSameOverLDAP checks, for four identities, that whatever any page asks the directory is answered over LDAP as it is
// to the page.
func TestSameOverLDAP(t *testing.T) {
	s := newSite(t)
	evil := s.rich()
	const reader = "uid=asantos," + people
	s.ldap(s.admin, &op.Modify{Name: "cn=config", Changes: []op.Modification{op.Change(op.ModAdd, "accessRule",
		`watch: allow "`+reader+`" to read in "cn=monitor"`, `follow: allow "`+reader+`" to read in "cn=changelog"`, `old: allow "`+reader+`" to past`)}})
	s.ldap(s.admin, &op.Modify{Name: "cn=config", Changes: []op.Modification{op.Change(op.ModAdd, "accessRule", "own-past: allow users to past in (objectClass=person)")}})
	found := s.ldap(s.admin, &op.Search{Base: "cn=config", Filter: filter.MustParse("(objectClass=*)"), Attributes: []string{"accessRule"}})
	rules := strings.Join(regexp.MustCompile(`accessRule: (.*(?:\n .*)*)`).FindAllString(strings.Join(found, ""), -1), "\n")
	log := s.logged(admin, "secret")
	log.get("/changes")
	undo := regexp.MustCompile(`/undo\?number=\d+`).FindString(log.text)
	if undo == "" || rules == "" {
		t.Fatal("no change to undo, or no rules")
	}
	undo = strings.TrimPrefix(undo, "/undo?")
	asked := map[string]int{} // messages by pattern
	for n, who := range []struct{ name, password string }{{"", ""}, {jdoe, "opensesame"}, {reader, "opensesame"}, {admin, "secret"}} {
		v := s.visitor()
		if who.name == reader {
			s.modify(s.admin, reader, "userPassword", who.password)
		}
		if who.name != "" {
			v = s.logged(who.name, who.password)
		}
		w := s.twin(who.name, who.password)
		s.console.Trace(w.trace)
		victim := fmt.Sprintf("cn=victim %d,%s", n, people)
		s.ldap(s.admin, &op.Add{Name: victim, Attributes: []op.PartialAttribute{op.Attribute("objectClass", "person"), op.Attribute("sn", "x"), op.Attribute("userPassword", "seven green lanterns")}})
		visit := func(method, address string, form url.Values) {
			w.page = fmt.Sprintf("%s as %q: %s %s", method, who.name, address, form.Encode())
			r, err := http.NewRequestWithContext(t.Context(), method, s.url+address, strings.NewReader(form.Encode()))
			if err != nil {
				t.Fatal(err)
			}
			if form != nil {
				r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
				r.Header.Set("Sec-Fetch-Site", "same-origin")
			}
			before := w.messages
			v.send(r)
			for pattern := range console.Routes {
				if like(pattern, method, address) {
					asked[pattern] += w.messages - before
				}
			}
			w.page = ""
		}
		for _, address := range append(addresses(evil), "/search?q=jdoe&format=csv", "/search?q=jdoe&format=run", "/access?as=x&name="+url.QueryEscape(jdoe), "/access?edit=cn%3Dconfig", "/undo?"+undo,
			"/diff?from=1h&to=now", "/restore?moment=1h&name="+url.QueryEscape(jdoe), "/names?param=under&under=niel", "/moments?to="+url.QueryEscape(dnLink(jdoe)), "/tree/children?base="+url.QueryEscape(people)) {
			visit(http.MethodGet, strings.Replace(address, "at=AT", "at="+url.QueryEscape("now"), 1), nil)
		}
		form := func(text string) url.Values {
			q, err := url.ParseQuery(text)
			if err != nil {
				t.Fatal(err)
			}
			return q
		}
		q := url.QueryEscape
		for _, p := range []struct{ address, form string }{
			{dnLink(victim) + "/edit", "a0=description&o0=&n0=changed&save=1"}, {dnLink(victim) + "/edit", "a0=description&o0=&n0=changed&preview=1"},
			{dnLink(victim) + "/values/seeAlso", "add=" + q(jdoe)}, {dnLink(victim) + "/values/seeAlso", "remove=" + q(jdoe)},
			{dnLink(victim) + "/password", "new=five+blue+lanterns"}, {"/accounts", "name=" + q(victim)},
			{"/add", "parent=" + q(people) + "&naming=cn&a0=objectClass&n0=device&a1=cn&n1=added+" + fmt.Sprint(n)},
			{dnLink(victim) + "/move", "rdn=cn%3Dmoved+" + fmt.Sprint(n) + "&under=" + q(people)}, {dnLink("cn=moved "+fmt.Sprint(n)+","+people) + "/delete", ""}, {dnLink(victim) + "/delete", "subtree=1"},
			{"/me", "old=wrong&new=five+blue+lanterns&again=five+blue+lanterns"}, {"/me/check", "new=short"}, {"/me/code", "secret=JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP&code=123456"},
			{"/access", "edit=cn%3Dconfig&preview=1&was=" + q(strings.ReplaceAll(rules, "accessRule: ", "")) + "&rules=" + q("bind: allow everyone to bind")},
			{"/branches", "do=make&branch=b" + fmt.Sprint(n)}, {"/branches", "do=discard&branch=b" + fmt.Sprint(n)}, {"/jobs", "name=gc&arguments=--all"}, {"/jobs", "cancel=1"},
			{"/restore", "moment=now&name=" + q(victim)}, {"/undo", undo},
		} {
			visit(http.MethodPost, p.address, form(p.form))
		}
		s.console.Trace(nil)
		t.Logf("%q: %d messages", who.name, w.messages)
	}
	for pattern := range console.Routes {
		if asked[pattern] == 0 && !slices.Contains([]string{"GET /login", "POST /login", "POST /logout", "GET /schema", "/"}, pattern) {
			t.Errorf("no page of %s has asked anything", pattern)
		}
	}
}

// like reports whether an address is one of a pattern.
func like(pattern, method, address string) bool {
	path, _, _ := strings.Cut(address, "?")
	text := regexp.MustCompile(`\{[a-z]+\}`).ReplaceAllString(strings.Replace(pattern, "{$}", "", 1), "[^/]+")
	return regexp.MustCompile("^" + text + "$").MatchString(method + " " + path)
}
