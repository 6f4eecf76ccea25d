package console_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/web/console"
)

var screenshots = flag.String("screenshots", "", "write a picture of every page to this `folder`")

// A tab is a page of a browser.
type tab struct {
	*site
	ctx     context.Context
	actions int

	mu       sync.Mutex
	problems []string // what the browser has said, and requests to elsewhere
}

// browser is the browser of all tests; each tab has cookies and storage of its own. No page runs for long enough that
// compilers of scripts pay.
var browser = sync.OnceValues(func() (context.Context, error) {
	path, err := exec.LookPath("chromium-headless-shell")
	if err != nil {
		if path, err = exec.LookPath("chromium"); err != nil {
			return nil, err
		}
	}
	ctx, cancel := chromedp.NewContext(context.Background(), chromedp.WithAllocatorOptions(chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.Flag("disable-gpu", true), chromedp.Flag("disable-software-rasterizer", true),
		chromedp.Flag("js-flags", "--no-opt --no-maglev")))
	endBrowser = func() {
		chromedp.Cancel(ctx)
		cancel()
	}
	return ctx, chromedp.Do(ctx)
})

var endBrowser = func() {}

func TestMain(m *testing.M) {
	code := m.Run()
	endBrowser()
	os.Exit(code)
}

// tab opens a tab. Without a browser the test is skipped.
func (s *site) tab() *tab {
	s.t.Helper()
	window, err := browser()
	if errors.Is(err, exec.ErrNotFound) {
		s.t.Skip("SKIPPED: pages in a browser (Debian's chromium-headless-shell missing)")
	} else if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := chromedp.NewContext(window, chromedp.WithNewBrowserContext())
	s.t.Cleanup(cancel)
	b := &tab{site: s, ctx: ctx}
	b.must(chromedp.Listen(ctx, b.hear))
	b.must(call(ctx, cdplog.Enable, cdp.Empty{}))
	return b
}

// visit makes the tab's next requests those of v.
func (b *tab) visit(v *visitor) {
	b.t.Helper()
	u, err := url.Parse(b.url)
	b.must(err)
	b.must(call(b.ctx, network.ClearBrowserCookies, cdp.Empty{}))
	for _, c := range v.http.Jar.Cookies(u) {
		b.must(call(b.ctx, network.SetCookie, network.SetCookieParams{Name: c.Name, Value: c.Value, URL: b.url}))
	}
}

func call[P, R any](ctx context.Context, c cdp.Command[P, R], params P) error {
	_, err := chromedp.Run(ctx, func(ctx context.Context, t *chromedp.Target) (R, error) { return cdp.Call(ctx, t, c, params) })
	return err
}

func (b *tab) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// hear keeps what a browser says that it should not need to say.
func (b *tab) hear(event any) {
	said := ""
	switch e := event.(type) {
	case *cdplog.EventEntryAdded:
		if strings.HasPrefix(e.Entry.Text, "Autofocus processing was blocked") {
			return // a key was pressed before the field had the focus
		}
		// Pages of errors have the HTTP status of an error.
		if e.Entry.Source != cdplog.EntrySourceNetwork || !strings.HasPrefix(e.Entry.Text, "Failed to load resource: the server responded with a status of 4") || strings.Contains(e.Entry.URL, "/static/") {
			said = e.Entry.Text + " " + e.Entry.URL
		}
	case *runtime.EventConsoleAPICalled:
		text, _ := json.Marshal(e.Args)
		said = string(text)
	case *runtime.EventExceptionThrown:
		said = e.ExceptionDetails.Text + " " + e.ExceptionDetails.URL
		if e.ExceptionDetails.Exception != nil {
			said += " " + e.ExceptionDetails.Exception.Description
		}
	case *network.EventRequestWillBeSent:
		// The pictures in inputs of dates are data of the browser itself.
		if !strings.HasPrefix(e.Request.URL, b.url+"/") && !strings.HasPrefix(e.Request.URL, "about:") && !strings.HasPrefix(e.Request.URL, "data:image/svg+xml") {
			said = "request to " + e.Request.URL
		}
	}
	if said != "" {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.problems = append(b.problems, said)
	}
}

// heard returns what the browser has said since the last call.
func (b *tab) heard() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := b.problems
	b.problems = nil
	return all
}

func (b *tab) scheme(name string) {
	b.t.Helper()
	b.must(call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}, {Name: "prefers-reduced-motion", Value: "reduce"}}}))
}

// wide says what of a page is wider than the window.
const wide = `[...document.querySelectorAll(".scroll:has(.stacked)")].filter((e) => innerWidth < 600 && e.scrollWidth > e.clientWidth).map((e) => e.ariaLabel + " is " + e.scrollWidth + " wide").concat(
	document.scrollingElement.scrollWidth > innerWidth ? ["the page is " + document.scrollingElement.scrollWidth + " wide"] : [])`

// thin takes from a page what axe need not look at again: rows and items that are built like three before them, and a
// header that another page had. Texts of other lengths are another way to be built.
const thin = `const form = (e) => e.tagName + [...e.attributes].map((a) => a.name + (a.name == "class" || a.name == "type" ? a.value : "")).join() +
		[...e.childNodes].map((c) => c.nodeType == 1 ? form(c) : Math.ceil(Math.log2(1 + c.data.trim().length))).join() + ";"
	const seen = {}
	for (const e of document.querySelectorAll("tr, li, option, .value")) {
		const f = form(e)
		if ((seen[f] = (seen[f] ?? 0) + 1) > 3) e.remove()
	}
	for (const e of document.querySelectorAll("header.top")) {
		const f = form(e)
		if (localStorage[f]) e.remove()
		localStorage[f] = 1
	}
	document.querySelector(".symbols").remove(); ""`

// inspect checks the page that is shown for what people without mouse or sight would miss.
const inspect = `axe.run(document, {runOnly: %s, resultTypes: ["violations"], preload: false}).then((r) => r.violations.flatMap((v) => v.nodes.map((n) => v.id + ": " + n.html.slice(0, 200) + " " + n.failureSummary)))`

// looks are the ways to look at a page. No colour depends on the width, and nothing else on the colours: so the first
// look has all of axe's rules, and the second those whose result depends on the colours or the width. For pictures
// there are four looks.
var looks = []struct {
	width         int64
	scheme, rules string
}{
	{1280, "light", allRules},
	{320, "dark", `["color-contrast", "link-in-text-block", "target-size", "scrollable-region-focusable"]`},
	{1280, "dark", allRules},
	{320, "light", allRules},
}

const allRules = `{type: "tag", values: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}`

// look looks at a page, and at what a script does there.
func (b *tab) look(address, name, script, selector string) {
	b.t.Helper()
	shown := looks[:2]
	if *screenshots != "" {
		shown = looks
	}
	for i := range shown {
		b.as(i)
		if i == 0 {
			if err := chromedp.Do(b.ctx, chromedp.Navigate(b.url+address)); err != nil {
				b.t.Errorf("%s: %v", address, err)
				return
			}
			b.act(script, selector)
		}
		b.finds(address, i, wide)
		if *screenshots != "" {
			b.shoot(fmt.Sprintf("%s-%d-%s", name, looks[i].width, looks[i].scheme))
		}
	}
	_, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](thin))
	b.must(err)
	for i := range 2 {
		b.as(i)
		b.finds(address, i, fmt.Sprintf(inspect, looks[i].rules))
	}
}

// as shows the page in the way of a look.
func (b *tab) as(look int) {
	b.t.Helper()
	b.must(chromedp.Do(b.ctx, chromedp.EmulateViewport(looks[look].width, 800)))
	b.scheme(looks[look].scheme)
}

// finds reports what a script finds wrong with a page, and what the browser has said.
func (b *tab) finds(address string, look int, script string) {
	b.t.Helper()
	wrong, err := chromedp.Run(b.ctx, chromedp.Evaluate[[]string](script, chromedp.EvalAwaitPromise))
	b.must(err)
	for _, w := range append(wrong, b.heard()...) {
		b.t.Errorf("%s, %d px, %s: %s", address, looks[look].width, looks[look].scheme, w)
	}
}

// acted are pages with something done on them: a script, and what is then shown.
var acted = []struct{ address, script, selector string }{
	{dnLink(jdoe), `document.querySelector("form.time summary").click()`, "input.when"},
	{"/add?kind=group&parent=" + url.QueryEscape("groups"), `document.querySelector("button[value=parent]").click()`, ".choices"},
	{"/access?edit=cn%3Dconfig", `document.getElementById("rules-text").value += "\nrooms: allow everyone to read roomNumber"; document.querySelector("[name=preview]").click()`, ".diff li"},
	{"/access?edit=cn%3Dconfig", `document.getElementById("rules-text").value = "rooms: alow everyone to read roomNumber"; document.querySelector("[name=preview]").click()`, ".problem"},
}

// act does something on a page and waits for what is then shown.
func (b *tab) act(script, selector string) {
	b.t.Helper()
	if script == "" {
		return
	}
	_, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](script+`; ""`))
	b.must(err)
	for range 100 {
		if there, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](fmt.Sprintf("document.readyState == 'complete' && !!document.querySelector(%q)", selector))); err == nil && there {
			return
		}
		time.Sleep(50 * time.Millisecond) // the next page, or a part of this one, is on its way
	}
	b.t.Errorf("%s leads to no %s", script, selector)
}

func (b *tab) shoot(name string) {
	b.t.Helper()
	picture, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	b.must(err)
	b.must(os.WriteFile(filepath.Join(*screenshots, name+".png"), picture, 0o666))
}

// rich adds to the sample directory what is hard to show, and returns the name of an entry with it.
func (s *site) rich() string {
	s.t.Helper()
	add := func(name string, pairs ...string) {
		var attributes []op.PartialAttribute
		for i := 0; i < len(pairs); i += 2 {
			if n := len(attributes); n > 0 && attributes[n-1].Description == pairs[i] {
				attributes[n-1].Values = append(attributes[n-1].Values, []byte(pairs[i+1]))
				continue
			}
			attributes = append(attributes, op.PartialAttribute{Description: pairs[i], Values: [][]byte{[]byte(pairs[i+1])}})
		}
		s.ldap(s.admin, &op.Add{Name: name, Attributes: attributes})
	}
	crowd := []string{"objectClass", "groupOfNames", "cn", "crowd"}
	add("ou=many,dc=example,dc=com", "objectClass", "organizationalUnit", "ou", "many")
	for i := range 250 {
		cn := fmt.Sprintf("child-%05d", i)
		add("cn="+cn+",ou=many,dc=example,dc=com", "objectClass", "device", "cn", cn)
		crowd = append(crowd, "member", "cn="+cn+",ou=many,dc=example,dc=com")
	}
	add("cn=crowd,ou=groups,dc=example,dc=com", crowd...)
	const evil = `<script>alert(1)</script><img src=x onerror=alert(2)>"'`
	name := `cn=\<script\>alert(1)\</script\>\<img src\=x onerror\=alert(2)\>\"',` + people
	add(name, "objectClass", "inetOrgPerson", "cn", evil, "sn", evil, "description", strings.Repeat("x", 10_000), "description", "שלום עולם", "description", "مرحبا \u202eabc",
		"labeledURI", "javascript:alert(1)", "title", strings.Repeat("Chief of Everything ", 20), "mail", strings.Repeat("long", 15)+"@example.com",
		"postalAddress", "Line one$Line two$Line three", "jpegPhoto", `<svg onload="alert(1)">`)
	if err := onlineschema.AddSuffixes(s.t.Context(), s.part, []string{"cn=views"}); err != nil {
		s.t.Fatal(err)
	}
	add("cn=views", "objectClass", "viewContainer")
	add("cn=by-department,cn=views", "objectClass", "totalsView", "viewBase", people, "viewFilter", "(objectClass=posixAccount)",
		"viewGroup", "departmentNumber", "viewTotal", "count", "viewTotal", "sum uidNumber")
	add("cn=phonebook,cn=views", "objectClass", "listView", "viewBase", people, "viewFilter", "(objectClass=person)", "viewOrder", "sn", "viewShow", "telephoneNumber", "description", "Everybody by surname")
	s.ldap(s.admin, &op.Modify{Name: "cn=config", Changes: []op.Modification{{Kind: op.ModAdd, PartialAttribute: op.PartialAttribute{Description: "accessRule", Values: [][]byte{[]byte("codes: allow self to write objectClass, oathTOTPToken, oathSecret")}}}}})
	return name
}

func dnLink(name string) string { return "/entry/" + url.PathEscape("dn:"+name) }

// addresses are pages with arguments, besides those of the routes.
func addresses(evil string) (all []string) {
	q := url.QueryEscape
	all = append(all,
		"/tree?base="+q(people), "/tree?base="+q("ou=many,dc=example,dc=com"), "/tree?base="+q(people)+"&find=nobody-at-all", "/tree?base="+q(people)+"&find=an",
		"/tree?base="+q(people)+"&at=2020-01-01T00:00:00Z", "/search?q=an&columns=cn,mail,telephoneNumber,description,jpegPhoto,objectClass", "/search?q=nobody-at-all", "/search?q="+q("(&(cn=ann)(sn=\\zz))"), "/search?q=child",
		"/search?q=alert&columns=cn,description,labeledURI,title", "/add?kind=person&parent="+q(people), "/add?kind=group", "/add?class=device", "/add?like="+q("dn:"+evil),
		"/schema?name=inetOrgPerson", "/schema?name=member", "/schema?find=nothing-at-all", "/schema?name=nothing", "/views?view="+q("cn=by-department,cn=views"), "/views?view="+q("cn=phonebook,cn=views"),
		"/entry/"+url.PathEscape("dn:ou=none,dc=example,dc=com"), dnLink("cn=crowd,ou=groups,dc=example,dc=com")+"/values/member?find=an", dnLink("cn=by-department,cn=views"), dnLink("ou=many,dc=example,dc=com"), dnLink("cn=crowd,ou=groups,dc=example,dc=com"),
		dnLink(jdoe)+"?at=AT", "/me?at=AT", "/moments?to="+q(dnLink(jdoe)), "/access?edit=cn%3Dconfig", "/access?as="+q(jdoe)+"&name="+q("uid=asantos,"+people), "/search?format=run&q="+q("(uid=jdoe)"),
		"/diff?from=1h&to=now", "/restore?moment=now&name="+q(jdoe), dnLink("ou=many,dc=example,dc=com")+"/delete", "/?at=AT",
	)
	gets := []string{}
	for pattern := range console.Routes {
		if path, ok := strings.CutPrefix(pattern, "GET "); ok {
			gets = append(gets, path)
		}
	}
	slices.Sort(gets)
	for _, path := range append(gets, "/no-such-page") {
		path = strings.NewReplacer("{$}", "", "{at}", "member", "{n}", "0").Replace(path)
		if !strings.Contains(path, "{id}") {
			all = append(all, path)
			continue
		}
		for _, name := range []string{jdoe, evil} {
			all = append(all, strings.Replace(path, "{id}", url.PathEscape("dn:"+name), 1))
		}
	}
	return all
}

var unnamed = regexp.MustCompile(`[^A-Za-z0-9]+`)

// slug returns the name of a picture of a page.
func slug(n int, who, address string) string {
	text, err := url.PathUnescape(strings.ReplaceAll(address, "dc=example,dc=com", ""))
	if err != nil {
		text = address
	}
	text = strings.Trim(unnamed.ReplaceAllString(strings.ReplaceAll(text, ",dc=example,dc=com", ""), "-"), "-")
	return fmt.Sprintf("%02d-%s-%s", n, who, text[:min(len(text), 50)])
}

// TestPages looks at every page in a browser: with axe-core at what people need who do not see well or use no
// mouse, at what the browser says, and at where its requests go.
func TestPages(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	axe, err := os.ReadFile("testdata/axe-4.14.1.min.js")
	if err != nil {
		t.Fatal(err)
	}
	if sum := sha256.Sum256(axe); hex.EncodeToString(sum[:]) != "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c" {
		t.Fatalf("axe-core is another file: %x", sum)
	}
	tabs := []*tab{s.tab(), s.tab()}
	evil := s.rich()
	moment := url.QueryEscape(time.Now().UTC().Format(time.RFC3339Nano))
	type errand struct {
		who, address     string
		n                int
		script, selector string
	}
	all := addresses(evil)
	var errands []errand
	for _, a := range all {
		errands = append(errands, errand{who: "admin", address: strings.Replace(a, "at=AT", "at="+moment, 1), n: len(errands)})
	}
	for _, a := range []string{"/me", "/me/code", "/tree", "/search", dnLink(jdoe), dnLink(jdoe) + "/edit", "/servers", "/store", "/views"} {
		errands = append(errands, errand{who: "jdoe", address: a, n: len(errands)})
	}
	for _, a := range []string{"/login", "/login?done=out", "/tree", dnLink(jdoe)} {
		errands = append(errands, errand{who: "nobody", address: a, n: len(errands)})
	}
	log := s.logged(admin, "secret")
	for _, page := range []string{"/changes", dnLink("ou=many,dc=example,dc=com") + "/history"} { // the newest change, and one that cannot be undone
		log.get(page)
		errands = append(errands, errand{who: "admin", address: regexp.MustCompile(`/undo\?number=\d+`).FindString(log.text), n: len(errands)})
	}
	for _, a := range acted {
		errands = append(errands, errand{"admin", a.address, len(errands), a.script, a.selector})
	}
	visitors := map[string]*visitor{"admin": s.logged(admin, "secret"), "jdoe": s.logged(jdoe, "opensesame"), "nobody": s.visitor()}
	queue := make(chan errand, len(errands))
	for _, e := range errands {
		v := visitors[e.who]
		v.get(e.address)
		if v.status >= http.StatusInternalServerError {
			t.Errorf("%s: %d %s", e.address, v.status, v.page())
		}
		// Downloads, parts of pages, and pages that lead to others are not looked at.
		if strings.HasPrefix(v.header.Get("Content-Type"), "text/html") && strings.Contains(v.text, "<main") && v.at.RequestURI() == e.address {
			queue <- e
		}
	}
	close(queue)
	if len(queue) < 50 {
		t.Errorf("only %d pages", len(queue))
	}
	var looking sync.WaitGroup
	for _, b := range tabs {
		b.must(call(b.ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: string(axe)}))
		looking.Go(func() {
			who := ""
			for e := range queue {
				if e.who != who {
					who = e.who
					b.visit(visitors[who])
				}
				b.look(e.address, slug(e.n, e.who, e.address), e.script, e.selector)
			}
		})
	}
	looking.Wait()
}
