package console_test

import (
	"context"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// focused returns what a screen reader says of the element that has the focus, or "hidden" if it cannot be seen.
const focused = `(e => { const r = e.getBoundingClientRect(); return r.width * r.height == 0 || e == document.body ? "hidden"
	: (e.labels?.[0]?.textContent || e.ariaLabel || e.textContent || e.name).trim().replace(/\s+/g, " ") })(document.activeElement)`

// press presses keys that lead to no other page.
func (b *tab) press(keys string) {
	b.t.Helper()
	b.must(chromedp.Do(b.ctx, chromedp.KeyEvent(keys)))
}

// shortcut presses a key that the page itself takes. The protocol sends a character apart from its key, even if the
// page has taken the key.
func (b *tab) shortcut(key string) {
	b.t.Helper()
	b.must(call(b.ctx, input.DispatchKeyEvent, input.DispatchKeyEventParams{Type: "rawKeyDown", Key: key}))
}

// to moves the focus by Tab to the next element with a name, or one that begins with what is before "…".
func (b *tab) to(name string) {
	b.t.Helper()
	var passed []string
	for range 150 {
		b.press(kb.Tab)
		now, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](focused))
		b.must(err)
		if begin, ok := strings.CutSuffix(name, "…"); now == name || ok && strings.HasPrefix(now, begin) {
			return
		}
		passed = append(passed, now)
	}
	b.t.Fatalf("Tab does not reach %q: %q", name, passed)
}

// fill goes to a field and types. What was in the field is selected, so the text replaces it.
func (b *tab) fill(pairs ...string) {
	b.t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		b.to(pairs[i])
		b.press(pairs[i+1])
	}
}

// enter presses Enter, which leads to another page.
func (b *tab) enter() {
	b.t.Helper()
	b.actions++
	ctx, cancel := context.WithTimeout(b.ctx, 20*time.Second)
	defer cancel()
	if _, err := chromedp.RunResponse(ctx, chromedp.KeyEvent(kb.Enter)); err != nil {
		b.t.Fatalf("Enter leads to no page: %v", err)
	}
}

// open goes to elements with Enter.
func (b *tab) open(names ...string) {
	b.t.Helper()
	for _, name := range names {
		b.to(name)
		b.enter()
	}
}

// address types an address.
func (b *tab) address(to string) {
	b.t.Helper()
	b.actions++
	b.must(chromedp.Do(b.ctx, chromedp.Navigate(b.url+to)))
}

// says waits until the page shows all texts.
func (b *tab) says(texts ...string) {
	b.t.Helper()
	page := ""
	for range 100 {
		var err error
		page, err = chromedp.Run(b.ctx, chromedp.Evaluate[string](`document.querySelector("main").innerText`))
		b.must(err)
		missing := false
		for _, text := range texts {
			missing = missing || !strings.Contains(page, text)
		}
		if !missing {
			return
		}
		time.Sleep(50 * time.Millisecond) // a part of the page is on its way
	}
	b.t.Fatalf("no %q: %s", texts, page)
}

// task checks that a task took at most six actions, and no word of the browser.
func (b *tab) task(name string, do func()) {
	b.t.Helper()
	b.actions = 0
	do()
	if b.actions > 6 {
		b.t.Errorf("%s: %d actions", name, b.actions)
	}
	for _, said := range b.heard() {
		b.t.Errorf("%s: %s", name, said)
	}
}

// TestKeyboard does what people do, with the keyboard alone.
func TestKeyboard(t *testing.T) {
	s := newSite(t)
	s.rich()
	b := s.tab()
	b.task("log in", func() {
		b.address("/")
		b.fill("Name", admin, "Password", "secret") // a key that is pressed before autofocus is lost
		b.enter()
		b.says("Overview", "dc=example,dc=com")
	})
	b.task("find a person by part of a name", func() {
		b.shortcut("/")
		b.press("nielsen")
		b.enter()
		b.open("anielsen")
		b.says("Anders Nielsen", "uid=anielsen,"+people)
	})
	before := time.Now().UTC().Format(time.RFC3339Nano)
	b.task("change a phone", func() {
		b.open("Edit")
		b.fill("telephoneNumber", "+41 44 000 00 00")
		b.enter()
		b.says("The changes have been made.", "+41 44 000 00 00")
	})
	b.task("find who changed what", func() {
		b.open("History")
		b.says("admin", "+41 44 000 00 00")
	})
	b.task("undo it", func() {
		b.open("Undo the modify…")
		b.says("Undo a change", "+41 44 555 06 50")
		b.open("Undo")
		b.says("The change has been undone.")
	})
	if !strings.Contains(s.entry("uid=anielsen,"+people), "+41 44 555 06 50") {
		t.Error("the phone is not as it was")
	}
	b.task("see the tree as it was", func() {
		b.address("/tree?base=" + url.QueryEscape(people))
		b.to("Now")
		b.press(kb.Enter)
		b.fill("Show the directory at", before)
		b.enter()
		b.says("Nothing can be changed here")
		b.open("anielsen")
		b.says("Nothing can be changed here", "+41 44 555 06 50")
	})
	b.task("open a part of the tree", func() {
		b.address("/tree")
		b.to("Entries below example")
		b.press(kb.Enter)
		b.says("people", "groups")
	})
	b.task("add a person", func() {
		b.address("/tree?base=" + url.QueryEscape(people))
		b.open("Add below", "Person")
		b.fill("cn", "New Comer", "sn", "Comer", "uid", "newcomer", "userPassword", "seven green lanterns")
		b.enter()
		b.says("The entry has been added.", "New Comer")
	})
	const crowd = "cn=crowd,ou=groups,dc=example,dc=com"
	b.task("add to a group", func() {
		b.address(dnLink(crowd) + "/values/member")
		b.fill("Find or add", "newcomer")
		b.enter()
		b.open("Add")
		b.says("The value has been added.")
	})
	if !strings.Contains(s.entry(crowd), "uid=newcomer,"+people) {
		t.Error("not in the group")
	}
	b.task("remove from it", func() {
		b.fill("Find or add", "newcomer")
		b.enter()
		b.open("Remove")
		b.says("The value has been removed.")
	})
	if strings.Contains(s.entry(crowd), "uid=newcomer,"+people) {
		t.Error("still in the group")
	}
	b.task("log out", func() {
		b.open("Log out")
		b.says("You have logged out.")
	})
	b.task("change one's password", func() {
		b.fill("Name", "jdoe", "Password", "opensesame")
		b.enter()
		b.open("jdoe")
		b.fill("Present password", "opensesame", "New password", "a quiet harbour wall")
		b.says("This password can be used.")
		b.fill("New password, again", "a quiet harbour wall")
		b.enter()
		b.says("The password has been changed.")
	})
	s.logged(jdoe, "a quiet harbour wall")
}
