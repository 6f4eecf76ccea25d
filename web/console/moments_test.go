package console_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/seed-4dac0d86/ldapd/ldap/control"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/store/txn"
)

// TestMoments looks at an entry at moments that its page offers, and at one that is not kept.
func TestMoments(t *testing.T) {
	s := newSite(t)
	s.modify(s.admin, jdoe, "title", "First")
	if _, err := s.part.DB.Checkpoint(t.Context(), "before-the-merger"); err != nil {
		t.Fatal(err)
	}
	s.modify(s.admin, jdoe, "title", "Second")
	v := s.logged(admin, "secret")
	v.task("see an entry at a checkpoint", func() {
		v.get(dnLink(jdoe))
		v.follow("Moments to choose from")
		v.shows("before-the-merger", "modify by admin", "add by admin", "now")
		for _, a := range nodes(v.doc(), "a") {
			if strings.HasSuffix(textOf(a), "before-the-merger") {
				v.get(attr(a, "href"))
				break
			}
		}
		v.shows("Nothing can be changed here", "First")
	})
	v.follow("Moments to choose from")
	v.get("/tree?base=" + url.QueryEscape(people) + "&find=an&at=before-the-merger")
	v.follow("Moments to choose from")
	if strings.Contains(v.page(), "modify by") {
		t.Errorf("changes of an entry, of the tree: %s", v.page())
	}
	for _, a := range nodes(v.doc(), "a") {
		if has(a, "aria-current") && strings.HasSuffix(textOf(a), "before-the-merger") {
			v.get(attr(a, "href"))
			v.shows("Nothing can be changed here", "anielsen")
			break
		}
	}
	if !strings.HasPrefix(v.at.Path, "/tree") {
		t.Errorf("the moment of the page is not marked: %s", v.page())
	}
	v.get("/moments?to=" + url.QueryEscape("https://elsewhere.example/x"))
	for _, a := range nodes(nodes(v.doc(), "main")[0], "a") {
		if !strings.HasPrefix(attr(a, "href"), "/") {
			t.Errorf("a link to %s", attr(a, "href"))
		}
	}
	// Without the right to read the monitor and the changelog there are only times.
	v = s.logged(jdoe, "opensesame")
	v.get(dnLink(jdoe))
	if strings.Contains(v.page(), "Moments to choose from") {
		t.Error("jdoe is offered the past without the right to it")
	}
	s.ldap(s.admin, &op.Modify{Name: "cn=config", Changes: []op.Modification{op.Change(op.ModAdd, "accessRule", "use-at: allow users to use "+control.OIDAt, "past: allow users to past in (objectClass=person)")}})
	v.get(dnLink(jdoe))
	v.follow("Moments to choose from")
	v.shows("an hour ago")
	if strings.Contains(v.page(), "before-the-merger") || strings.Contains(v.page(), "modify by") {
		t.Errorf("jdoe is shown %s", v.page())
	}
}

// TestFloor checks that pages say since when the past is kept.
func TestFloor(t *testing.T) {
	s := newSite(t)
	if _, err := s.part.DB.Collect(t.Context(), txn.CollectOptions{All: true}); err != nil {
		t.Fatal(err)
	}
	v := s.logged(admin, "secret")
	v.get("/tree?at=" + url.QueryEscape("2020-01-01T00:00:00Z"))
	v.shows("history is kept from")
	v.follow("Moments to choose from")
	v.shows("The past is kept since")
	if strings.Contains(v.page(), "an hour ago") {
		t.Errorf("a moment that is not kept: %s", v.page())
	}
}

// TestSlider chooses a moment with the keys of the slider, and goes back to now with a key.
func TestSlider(t *testing.T) {
	s := newSite(t)
	s.modify(s.admin, jdoe, "title", "First")
	s.modify(s.admin, jdoe, "title", "Second")
	b := s.tab()
	b.visit(s.logged(admin, "secret"))
	b.task("see the entry before its last change", func() {
		b.address(dnLink(jdoe))
		b.to("Now")
		b.press(kb.Enter)
		b.says("modify by admin")
		b.to("Moment: arrow keys go from one to the next")
		b.press(kb.ArrowLeft)
		b.press(kb.ArrowLeft)
		said, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](`document.querySelector("input.when").getAttribute("aria-valuetext") + " " + document.getElementById("at").value`))
		b.must(err)
		if !strings.Contains(said, " by admin r") {
			t.Errorf("the slider says %q", said)
		}
		b.enter()
		b.says("Nothing can be changed here")
	})
	b.task("and now", func() {
		b.actions++
		_, err := chromedp.RunResponse(b.ctx, chromedp.KeyEvent("n"))
		b.must(err)
		b.says("Second")
	})
}
