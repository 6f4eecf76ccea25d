package console_test

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime/multipart"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/net/html"

	"github.com/seed-4dac0d86/ldapd/directory"
	"github.com/seed-4dac0d86/ldapd/directory/access"
	"github.com/seed-4dac0d86/ldapd/directory/auth"
	"github.com/seed-4dac0d86/ldapd/directory/auth/authtest"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/control"
	"github.com/seed-4dac0d86/ldapd/ldap/ldif"
	"github.com/seed-4dac0d86/ldapd/ldap/monitor"
	"github.com/seed-4dac0d86/ldapd/ldap/monitor/scrape"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest"
	"github.com/seed-4dac0d86/ldapd/web"
	"github.com/seed-4dac0d86/ldapd/web/console"
)

const (
	admin  = "cn=admin,dc=example,dc=com"
	people = "ou=people,dc=example,dc=com"
	jdoe   = "uid=jdoe," + people
)

// A site is a console with the sample directory, the access rules of the profile staff, and the
// administrator's client of LDAP operations.
type site struct {
	t       testing.TB
	url     string
	console *console.Console
	dir     *directory.Directory
	part    *partition.Partition
	admin   web.Client
}

func newSite(t *testing.T) *site {
	t.Helper()
	return siteIn(t, tabletest.NewMem(), func(*partition.Partition) error { return nil })
}

// siteIn returns the console of a directory in an empty store, which fill fills first.
func siteIn(t testing.TB, store table.Store, fill func(*partition.Partition) error) *site {
	t.Helper()
	ctx, quiet := context.Background(), slog.New(slog.DiscardHandler)
	p, err := partition.Open(ctx, store, partition.Options{Create: true, Schema: schema.Core(), Log: quiet})
	if err == nil {
		err = onlineschema.AddSuffixes(ctx, p, []string{"dc=example,dc=com"})
	}
	if err == nil {
		err = onlineschema.SetAccess(ctx, p, partition.By{}, func(s *partition.Snapshot, _ []partition.AccessRule) ([]partition.AccessRule, error) {
			return access.Profile("staff", s.Schema(), []string{"dc=example,dc=com"})
		})
	}
	if err == nil {
		err = fill(p)
	}
	if err != nil {
		t.Fatal(err)
	}
	m := monitor.New("test")
	registry := scrape.Registry(m)
	// What the command registers reads the embedded engine; these stand for it.
	for name, value := range map[string]float64{"store_compaction_debt_bytes": 5 << 20, "gc_last_success_timestamp_seconds": 0, "head_age_seconds": 0.25, "cache_hit_ratio": 0.5} {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Name: "ldapd_" + name})
		g.Set(value)
		registry.MustRegister(g)
	}
	d, err := directory.New(p, directory.Options{Admin: admin, AdminPassword: "secret", Passwords: auth.New(0, authtest.Cheap), Log: quiet, Metrics: m, Observers: []monitor.Observer{m.Observe},
		Jobs: []string{"check", "gc [--all]"}, StartJob: func(who, name string, arguments []string) (int, error) {
			if name != "gc" || len(arguments) > 1 {
				return 0, errors.New("its arguments are gc [--all]")
			}
			ctx, j := m.Jobs.Begin(ctx, name, who, arguments)
			fmt.Fprintln(j, "collecting")
			go func() { <-ctx.Done(); j.End(ctx.Err()) }()
			return j.Number(), nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	w, err := web.Open(web.Options{Listen: []string{"http://127.0.0.1:0"}, Idle: 30 * time.Minute, Session: 8 * time.Hour, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	c := console.New(w, d)
	c.Register()
	w.Serve(d)
	t.Cleanup(func() {
		w.Close(ctx)
		d.Close()
		p.Close(ctx)
	})
	s := &site{t: t, url: w.URLs()[0], console: c, dir: d, part: p, admin: web.Client{Session: d.NewSession(nil)}}
	s.ldap(s.admin, &op.Bind{Version: 3, Name: admin, Password: []byte("secret")})
	f, err := os.Open("../../testdata/ldif/example.ldif")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for r, err := range ldif.NewReader(f, ldif.Options{}).Records() {
		if err != nil {
			t.Fatal(err)
		}
		s.ldap(s.admin, &op.Add{Name: r.DN, Attributes: r.Attributes})
	}
	return s
}

// ldap runs an operation that must succeed, and returns the entries found.
func (s *site) ldap(c web.Client, r op.Request, controls ...op.Control) (found []string) {
	s.t.Helper()
	found, err := ask(s.t.Context(), c, r, controls...)
	if err != nil {
		s.t.Fatalf("%T %v: %v", r, op.NameOf(r), err)
	}
	return found
}

// ask runs an operation and returns the entries found, in LDIF.
func ask(ctx context.Context, c web.Client, r op.Request, controls ...op.Control) (found []string, err error) {
	controls = append(controls, op.Control{OID: control.OIDManageDsaIT, Critical: true})
	if _, ok := r.(*op.Bind); ok {
		controls = nil
	}
	_, err = c.Do(ctx, r, web.Answer{Entry: func(e *op.SearchEntry) error {
		var b strings.Builder
		w := ldif.NewWriter(&b)
		if err := w.WriteEntry(e.Name, e.Attributes); err != nil {
			return err
		}
		if err := w.Flush(); err != nil {
			return err
		}
		found = append(found, b.String())
		return nil
	}}, controls...)
	return found, err
}

// entry returns an entry as the administrator sees it.
func (s *site) entry(name string) string {
	s.t.Helper()
	var b strings.Builder
	_, err := s.admin.Do(s.t.Context(), &op.Search{Base: name, Filter: filter.MustParse("(objectClass=*)")}, web.Answer{Entry: func(e *op.SearchEntry) error {
		w := ldif.NewWriter(&b)
		if err := w.WriteEntry(e.Name, e.Attributes); err != nil {
			return err
		}
		return w.Flush()
	}})
	if err != nil {
		return err.Error()
	}
	return b.String()
}

// A visitor is a browser without script: it follows links and fills in forms, and counts both.
type visitor struct {
	*site
	http    *http.Client
	actions int

	at     *url.URL // of the page
	status int
	header http.Header
	text   string     // of the page, as it was sent
	parsed *html.Node // see doc
}

func (s *site) visitor() *visitor {
	jar, err := cookiejar.New(nil)
	if err != nil {
		s.t.Fatal(err)
	}
	return &visitor{site: s, http: &http.Client{Jar: jar}}
}

// logged returns a visitor who has logged in.
func (s *site) logged(name, password string) *visitor {
	s.t.Helper()
	v := s.visitor()
	v.get("/login")
	v.submit("Log in", "name", name, "password", password)
	if v.status != http.StatusOK || strings.HasPrefix(v.at.Path, "/login") {
		s.t.Fatalf("%s: %d at %s", name, v.status, v.at)
	}
	return v
}

// get types an address.
func (v *visitor) get(address string) {
	v.t.Helper()
	r, err := http.NewRequestWithContext(v.t.Context(), http.MethodGet, v.url+address, nil)
	if err != nil {
		v.t.Fatal(err)
	}
	v.send(r)
}

func (v *visitor) send(r *http.Request) {
	v.t.Helper()
	v.actions++
	answer, err := v.http.Do(r)
	if err != nil {
		v.t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		v.t.Fatal(err)
	}
	v.at, v.status, v.header, v.text, v.parsed = answer.Request.URL, answer.StatusCode, answer.Header, string(body), nil
}

// doc returns the page.
func (v *visitor) doc() *html.Node {
	v.t.Helper()
	if v.parsed == nil {
		var err error
		if v.parsed, err = html.Parse(strings.NewReader(v.text)); err != nil {
			v.t.Fatal(err)
		}
	}
	return v.parsed
}

// nodes returns the elements with a name, in the order of the page.
func nodes(n *html.Node, name string) (all []*html.Node) {
	for c := range n.Descendants() {
		if c.Type == html.ElementNode && c.Data == name {
			all = append(all, c)
		}
	}
	return all
}

func attr(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

func has(n *html.Node, name string) bool {
	for _, a := range n.Attr {
		if a.Key == name {
			return true
		}
	}
	return false
}

func textOf(n *html.Node) string {
	var b strings.Builder
	for c := range n.Descendants() {
		if c.Type == html.TextNode {
			b.WriteString(c.Data)
		}
	}
	return strings.TrimSpace(b.String())
}

// follow follows the first link with a text.
func (v *visitor) follow(text string) {
	v.t.Helper()
	for _, a := range nodes(v.doc(), "a") {
		if textOf(a) == text {
			to, err := v.at.Parse(attr(a, "href"))
			if err != nil {
				v.t.Fatal(err)
			}
			v.get(strings.TrimPrefix(to.String(), v.url))
			return
		}
	}
	v.t.Fatalf("no link %q at %s: %s", text, v.at, v.page())
}

// page returns the text of what is in main.
func (v *visitor) page() string {
	for _, m := range nodes(v.doc(), "main") {
		return strings.Join(strings.Fields(textOf(m)), " ")
	}
	return v.text
}

// submit presses the first button with a text, in its form, with fields filled in. A field is named by its
// parameter, by its label, or by its attribute, and then the first of the attribute's values is meant.
func (v *visitor) submit(button string, fields ...string) {
	v.t.Helper()
	for _, b := range nodes(v.doc(), "button") {
		if textOf(b) != button {
			continue
		}
		form := b.Parent
		for form.Data != "form" {
			form = form.Parent
		}
		v.post(form, b, fields)
		return
	}
	v.t.Fatalf("no button %q at %s: %s", button, v.at, v.page())
}

func (v *visitor) post(form, button *html.Node, fields []string) {
	v.t.Helper()
	values := formValues(form)
	for i := 0; i < len(fields); i += 2 {
		name := paramOf(form, fields[i])
		if name == "" {
			v.t.Fatalf("no field %q in the form at %s", fields[i], v.at)
		}
		values.Set(name, fields[i+1])
	}
	if n := attr(button, "name"); n != "" {
		values.Set(n, attr(button, "value"))
	}
	to, err := v.at.Parse(attr(form, "action"))
	if err != nil {
		v.t.Fatal(err)
	}
	if !strings.EqualFold(attr(form, "method"), "post") {
		to.RawQuery = values.Encode()
		v.get(strings.TrimPrefix(to.String(), v.url))
		return
	}
	body, kind := strings.NewReader(values.Encode()), "application/x-www-form-urlencoded"
	if attr(form, "enctype") == "multipart/form-data" {
		body, kind = multipartOf(values)
	}
	r, err := http.NewRequestWithContext(v.t.Context(), http.MethodPost, to.String(), body)
	if err != nil {
		v.t.Fatal(err)
	}
	r.Header.Set("Content-Type", kind)
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	v.send(r)
}

func multipartOf(values url.Values) (*strings.Reader, string) {
	var b strings.Builder
	w := multipart.NewWriter(&b)
	for name, all := range values {
		for _, value := range all {
			w.WriteField(name, value)
		}
	}
	w.Close()
	return strings.NewReader(b.String()), w.FormDataContentType()
}

// formValues returns what the form would send as it is.
func formValues(form *html.Node) url.Values {
	values := url.Values{}
	for n := range form.Descendants() {
		name := attr(n, "name")
		switch {
		case n.Type != html.ElementNode || name == "":
		case n.Data == "input" && attr(n, "type") == "file":
		case n.Data == "input" && (attr(n, "type") == "checkbox" || attr(n, "type") == "radio"):
			if has(n, "checked") {
				values.Add(name, cmp.Or(attr(n, "value"), "on"))
			}
		case n.Data == "input":
			values.Add(name, attr(n, "value"))
		case n.Data == "textarea":
			var b strings.Builder
			for c := range n.Descendants() {
				b.WriteString(c.Data)
			}
			values.Add(name, strings.ReplaceAll(b.String(), "\n", "\r\n"))
		case n.Data == "select":
			for _, o := range nodes(n, "option") {
				if has(o, "selected") {
					value := textOf(o)
					if has(o, "value") {
						value = attr(o, "value")
					}
					values.Set(name, value)
				}
			}
		}
	}
	return values
}

// paramOf returns the parameter of a field.
func paramOf(form *html.Node, field string) string {
	for n := range form.Descendants() {
		if n.Type == html.ElementNode && attr(n, "name") == field {
			return field
		}
	}
	for n := range form.Descendants() { // the attribute's name, in the parameter before that of its value
		if name := attr(n, "name"); n.Type == html.ElementNode && strings.HasPrefix(name, "a") && attr(n, "value") == field {
			return "n" + name[1:]
		}
	}
	return ""
}

// shows checks that the page has all texts.
func (v *visitor) shows(texts ...string) {
	v.t.Helper()
	for _, text := range texts {
		if !strings.Contains(v.page(), text) {
			v.t.Errorf("no %q at %s (%d): %s", text, v.at, v.status, v.page())
		}
	}
}

// task checks that a task took at most six actions.
func (v *visitor) task(name string, do func()) {
	v.t.Helper()
	v.actions = 0
	do()
	if v.actions > 6 {
		v.t.Errorf("%s: %d actions", name, v.actions)
	}
}

// TestTasks does what people do, without script.
func TestTasks(t *testing.T) {
	s := newSite(t)
	v := s.visitor()
	v.task("log in", func() {
		v.get("/")
		v.submit("Log in", "name", admin, "password", "secret")
		v.shows("Overview", "dc=example,dc=com")
	})
	v.task("find a person by part of a name", func() {
		v.get("/search")
		v.submit("Search", "q", "nielsen")
		v.follow("anielsen")
		v.shows("Anders Nielsen", "uid=anielsen,"+people)
	})
	before := time.Now().UTC().Format(time.RFC3339Nano)
	v.task("change a phone", func() {
		v.follow("Edit")
		v.submit("Save", "telephoneNumber", "+41 44 000 00 00")
		v.shows("The changes have been made.", "+41 44 000 00 00")
	})
	v.task("see it as it was", func() {
		v.submit("Show", "at", before)
		v.shows("Nothing can be changed here")
		if strings.Contains(v.page(), "+41 44 000 00 00") {
			t.Error("the past has the new number")
		}
		v.follow("people")
		v.shows("Nothing can be changed here", "anielsen")
	})
	v.task("add a person", func() {
		v.get("/tree?base=" + url.QueryEscape(people))
		v.follow("Add below")
		v.follow("Person")
		v.submit("Add", "cn", "New Comer", "sn", "Comer", "uid", "newcomer", "userPassword", "seven green lanterns")
		v.shows("The entry has been added.", "New Comer")
	})
	v.task("add to a group", func() {
		v.get("/entry/" + url.PathEscape("dn:cn=all,ou=groups,dc=example,dc=com") + "/values/member")
		v.submit("Find", "find", "newcomer")
		v.submit("Add")
		v.shows("The value has been added.")
	})
	if !strings.Contains(s.entry("cn=all,ou=groups,dc=example,dc=com"), "uid=newcomer,"+people) {
		t.Error("not in the group")
	}
	v.task("remove from it", func() {
		v.submit("Find", "find", "newcomer")
		v.shows("is a value")
		v.submit("Remove")
		v.shows("The value has been removed.")
	})
	if strings.Contains(s.entry("cn=all,ou=groups,dc=example,dc=com"), "uid=newcomer,"+people) {
		t.Error("still in the group")
	}
	v.task("rename", func() {
		v.get("/entry/" + url.PathEscape("dn:uid=newcomer,"+people))
		v.follow("Rename or move")
		v.submit("Rename", "rdn", "uid=oldcomer")
		v.shows("The entry has its new name.", "uid=oldcomer,"+people)
	})
	v.task("delete", func() {
		v.follow("Delete")
		v.submit("Delete")
		v.shows("The entry has been deleted.")
	})
	v.task("log out", func() {
		v.submit("Log out")
		v.shows("You have logged out.", "Log in")
	})
	one := s.logged("jdoe", "opensesame")
	two := s.logged(jdoe, "opensesame")
	one.task("change one's password", func() {
		one.follow("jdoe")
		one.submit("Change the password", "old", "opensesame", "new", "a quiet harbour wall", "again", "a quiet harbour wall")
		one.shows("The password has been changed.", "John Doe")
	})
	two.get("/me")
	two.shows("Log in")
	s.logged(jdoe, "a quiet harbour wall")
}

// TestPassword checks what the page says of passwords that cannot be.
func TestPassword(t *testing.T) {
	v := newSite(t).logged("jdoe", "opensesame")
	for _, c := range []struct{ old, new, again, says string }{
		{"opensesame", "one two three four", "one two three five", "not the same"},
		{"wrong", "one two three four", "one two three four", "old password is wrong"},
		{"opensesame", "", "", "Type your present password"},
	} {
		v.get("/me")
		v.submit("Change the password", "old", c.old, "new", c.new, "again", c.again)
		v.shows(c.says, "John Doe")
	}
}

// TestChangedUnderneath checks that a form does not overwrite what somebody else has changed meanwhile, and that it
// sends only what differs.
func TestChangedUnderneath(t *testing.T) {
	s := newSite(t)
	v := s.logged(admin, "secret")
	v.get("/entry/" + url.PathEscape("dn:"+jdoe) + "/edit")
	s.ldap(s.admin, &op.Modify{Name: jdoe, Changes: []op.Modification{{Kind: op.ModReplace, PartialAttribute: op.PartialAttribute{Description: "title", Values: [][]byte{[]byte("Chief")}}}}})
	v.submit("Save", "telephoneNumber", "+41 1")
	v.shows("Somebody has changed this entry", "+41 1")
	if v.status != http.StatusConflict || strings.Contains(s.entry(jdoe), "+41 1") {
		t.Errorf("status %d, or it was saved", v.status)
	}
	v.submit("Save")
	v.shows("The changes have been made.", "Chief", "+41 1")
	whole := s.entry(jdoe)
	v.follow("Edit")
	v.submit("Save")
	v.shows("Nothing was different")
	if again := s.entry(jdoe); again != whole {
		t.Errorf("a form that was not touched has changed the entry:\n%s\n%s", whole, again)
	}
}

// TestOwnEntry checks that the form of somebody's own entry has what they may change, and that nothing else
// changes with it.
func TestOwnEntry(t *testing.T) {
	s := newSite(t)
	v := s.logged(jdoe, "opensesame")
	whole := s.entry(jdoe)
	v.get("/me")
	v.follow("Edit")
	for _, name := range []string{"cn", "uidNumber", "employeeNumber"} {
		if paramOf(nodes(v.doc(), "form")[2], name) != "" {
			t.Errorf("%s is in the form", name)
		}
	}
	v.submit("Save", "telephoneNumber", "+41 1")
	v.shows("The changes have been made.")
	if got, want := s.entry(jdoe), strings.Replace(whole, "telephoneNumber: +41 44 555 01 00", "telephoneNumber: +41 1", 1); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestParts checks that a part of a page that cannot be shown is no whole page.
func TestParts(t *testing.T) {
	v := newSite(t).visitor()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, v.url+"/tree/children?base="+url.QueryEscape(people), nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("HX-Request", "true")
	if v.send(r); v.status != http.StatusNotFound || strings.Contains(v.text, "<html") || !strings.Contains(v.text, "<li") {
		t.Errorf("%d %s", v.status, v.text)
	}
}

// TestMistakes checks that nothing that was typed is lost when the directory or the form refuses it.
func TestMistakes(t *testing.T) {
	v := newSite(t).logged(admin, "secret")
	v.get("/entry/" + url.PathEscape("dn:"+jdoe) + "/edit")
	v.submit("Save", "uidNumber", "many", "title", "typed title")
	if v.status != http.StatusUnprocessableEntity {
		t.Errorf("status %d", v.status)
	}
	v.shows("some values are not right")
	if got := formValues(nodes(v.doc(), "form")[2]); !strings.Contains(got.Encode(), "typed+title") || !strings.Contains(got.Encode(), "many") {
		t.Errorf("lost: %v", got)
	}
	v.submit("Save", "uidNumber", "10000", "sn", "")
	v.shows("requires attribute sn")
	v.submit("Show as LDIF", "sn", "Doe", "title", "Chief")
	v.shows("This would be changed", "title: Chief")
	v.get("/entry/" + url.PathEscape("dn:"+jdoe) + "/edit")
	v.submit("Add field", "with", "mobile")
	v.submit("Save", "mobile", "+41 79 1")
	v.shows("The changes have been made.", "+41 79 1")
}

// TestFilters checks that a filter with a mistake shows where it is.
func TestFilters(t *testing.T) {
	v := newSite(t).logged(admin, "secret")
	v.get("/search?q=" + url.QueryEscape(`(&(cn=ann)(sn=\\zz))`))
	v.shows("The filter is not right")
	if v.status != http.StatusUnprocessableEntity || len(nodes(v.doc(), "mark")) != 1 {
		t.Errorf("status %d: %s", v.status, v.page())
	}
	v.get("/search?q=" + url.QueryEscape("(uid=jdoe)") + "&format=csv&columns=cn,description")
	if !strings.Contains(v.text, "cn,description\n") || !strings.Contains(v.text, `"Doe, John`) && !strings.Contains(v.text, "John Doe") {
		t.Errorf("CSV: %s", v.text)
	}
	v.get("/search?q=" + url.QueryEscape("(uid=jdoe)") + "&format=ldif")
	if !strings.Contains(v.text, "dn: "+jdoe+"\n") {
		t.Errorf("LDIF: %s", v.text)
	}
	v.get("/search?q=" + url.QueryEscape("(objectClass=person)") + "&sort=-cn&columns=cn")
	if i, j := strings.Index(v.page(), "Zoe"), strings.Index(v.page(), "Aino"); j < 0 || i > j {
		t.Errorf("not in reverse order: %s", v.page())
	}
}

// TestFormulas checks that a spreadsheet takes no value for a formula.
func TestFormulas(t *testing.T) {
	s := newSite(t)
	s.ldap(s.admin, &op.Modify{Name: jdoe, Changes: []op.Modification{{Kind: op.ModReplace, PartialAttribute: op.PartialAttribute{Description: "title", Values: [][]byte{[]byte("=1+1")}}}}})
	v := s.logged(admin, "secret")
	v.get("/search?q=" + url.QueryEscape("(uid=jdoe)") + "&format=csv&columns=title")
	if !strings.Contains(v.text, ",'=1+1\n") {
		t.Errorf("CSV: %s", v.text)
	}
}

// TestMarkup checks that values with markup stay text, on every page that shows them.
func TestMarkup(t *testing.T) {
	s := newSite(t)
	const evil = `<script>alert(1)</script><img src=x onerror=alert(2)>"'`
	name := `cn=\<script\>alert(1)\</script\>\<img src\=x onerror\=alert(2)\>\"',` + people
	s.ldap(s.admin, &op.Add{Name: name, Attributes: []op.PartialAttribute{
		{Description: "objectClass", Values: [][]byte{[]byte("inetOrgPerson")}}, {Description: "cn", Values: [][]byte{[]byte(evil)}}, {Description: "sn", Values: [][]byte{[]byte(evil)}},
		{Description: "description", Values: [][]byte{[]byte(strings.Repeat("x", 10_000)), []byte("שלום\u202e")}},
		{Description: "labeledURI", Values: [][]byte{[]byte("javascript:alert(1)")}}, {Description: "jpegPhoto", Values: [][]byte{[]byte(`<svg onload="alert(1)">`)}}}})
	v := s.logged(admin, "secret")
	entry := "/entry/" + url.PathEscape("dn:"+name)
	for _, page := range []string{entry, entry + "/edit", entry + "/move", entry + "/delete", entry + "/password", "/tree?base=" + url.QueryEscape(people),
		"/search?q=alert", "/add?like=" + url.QueryEscape("dn:"+name), "/search?q=" + url.QueryEscape("("+evil), "/tree?find=" + url.QueryEscape(evil) + "&base=" + url.QueryEscape(people)} {
		v.get(page)
		if v.status >= 500 {
			t.Errorf("%s: %d %s", page, v.status, v.page())
		}
		for _, script := range nodes(v.doc(), "script") {
			if !strings.HasPrefix(attr(script, "src"), "/static/") {
				t.Errorf("%s: a script that is not ours", page)
			}
		}
		for n := range v.doc().Descendants() {
			if has(n, "onerror") || has(n, "onload") || has(n, "style") || strings.HasPrefix(attr(n, "href"), "javascript:") {
				t.Errorf("%s: <%s %v>", page, n.Data, n.Attr)
			}
		}
	}
	v.get(entry + "/value/jpegPhoto/0?size=23")
	if v.header.Get("Content-Type") != "application/octet-stream" || !strings.Contains(v.header.Get("Content-Security-Policy"), "sandbox") {
		t.Errorf("SVG is sent as %v", v.header)
	}
}

// TestSameRights checks that pages show each identity what it could read over LDAP, and no more.
func TestSameRights(t *testing.T) {
	s := newSite(t)
	for _, c := range []struct{ name, password string }{{"", ""}, {jdoe, "opensesame"}, {admin, "secret"}} {
		v, direct := s.visitor(), web.Client{Session: s.dir.NewSession(nil)}
		if c.name != "" {
			v = s.logged(c.name, c.password)
			s.ldap(direct, &op.Bind{Version: 3, Name: c.name, Password: []byte(c.password)})
		}
		for _, f := range []string{"(objectClass=*)", "(employeeNumber=1010)", "(cn=*son*)", "(userPassword=*)"} {
			r := &op.Search{Base: "dc=example,dc=com", Scope: op.WholeSubtree, Filter: filter.MustParse(f), Attributes: []string{"*"}}
			want, err := ask(t.Context(), direct, r)
			v.get("/search?format=ldif&base=dc%3Dexample,dc%3Dcom&q=" + url.QueryEscape(f))
			if err != nil {
				if v.status < 400 {
					t.Errorf("%q %s: %v over LDAP, %d on a page", c.name, f, err, v.status)
				}
				continue
			}
			for _, e := range want {
				if strings.Contains(e, "\nobjectClass: referral\n") {
					continue // a referral, which pages do not show
				}
				if !strings.Contains(v.text, e) {
					t.Errorf("%q %s: lacks\n%s", c.name, f, e)
				}
			}
			if got := strings.Count(v.text, "dn: ") + strings.Count(v.text, "dn:: "); got > len(want) {
				t.Errorf("%q %s: %d entries, over LDAP %d", c.name, f, got, len(want))
			}
		}
		v.get("/entry/" + url.PathEscape("dn:"+jdoe) + "/ldif")
		if visible := strings.Contains(v.text, "employeeNumber"); visible != (c.name != "") {
			t.Errorf("%q sees jdoe's employeeNumber: %v", c.name, visible)
		}
		v.get("/servers")
		if isAdmin := c.name == admin; (v.status == http.StatusOK) != isAdmin {
			t.Errorf("%q: /servers %d", c.name, v.status)
		}
		v.get("/entry/" + url.PathEscape("dn:cn=all,ou=groups,dc=example,dc=com") + "/values/member")
		if c.name == jdoe {
			v.submit("Remove")
			v.shows("Forbidden")
		}
	}
}

// TestLocalPaths checks that log in leads only to this server.
func TestLocalPaths(t *testing.T) {
	s := newSite(t)
	for _, to := range []string{"https://elsewhere.example/", "//elsewhere.example/", `/\elsewhere.example`, "javascript:alert(1)"} {
		v := s.visitor()
		v.get("/login?to=" + url.QueryEscape(to))
		v.submit("Log in", "name", admin, "password", "secret")
		if !strings.HasPrefix(v.at.String(), s.url+"/") || v.status != http.StatusOK {
			t.Errorf("%s leads to %s", to, v.at)
		}
	}
}

// TestFiles checks that embedded files are what they were reviewed as, and that browsers keep them.
func TestFiles(t *testing.T) {
	body, err := os.ReadFile("static/htmx-4.0.1.min.js")
	if err != nil {
		t.Fatal(err)
	}
	if sum := sha256.Sum256(body); hex.EncodeToString(sum[:]) != "a0abb04f2f45a1f89d1d4844023245537e5e6014c87b144553e0607b4cc32130" {
		t.Errorf("htmx is another file: %x", sum)
	}
	v := newSite(t).logged(admin, "secret")
	v.http.Transport = &http.Transport{DisableCompression: true} // so that lengths are those on the wire
	v.get("/")
	size, requests := len(v.text), 1
	for _, n := range append(nodes(v.doc(), "script"), nodes(v.doc(), "link")...) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, v.url+attr(n, "src")+attr(n, "href"), nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept-Encoding", "gzip")
		v.send(r)
		size, requests = size+len(v.text), requests+1
		if v.status != http.StatusOK || !strings.Contains(v.header.Get("Cache-Control"), "immutable") {
			t.Errorf("%s: %d %v", v.at, v.status, v.header)
		}
	}
	if size > 45_000 || requests > 5 {
		t.Errorf("the first page takes %d requests of %d octets", requests, size)
	}
}
