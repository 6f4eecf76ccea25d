package console_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestPick finds the entries that fields name, without script: what was typed stays, and names that nobody has are
// marked and not refused.
func TestPick(t *testing.T) {
	s := newSite(t)
	v := s.logged(admin, "secret")
	v.task("set a manager", func() {
		v.get(dnLink("uid=asantos,"+people) + "/edit")
		v.submit("Add field", "with", "manager")
		button := ""
		for _, n := range nodes(v.doc(), "button") {
			if attr(n, "name") == "find" {
				button = attr(n, "value")
			}
		}
		v.submit("Find", button, "Nielsen", "title", "typed title")
		v.shows("Found with “Nielsen”", "uid=anielsen,"+people)
		v.submit("Save", "pick-"+button, "uid=anielsen,"+people)
		v.shows("The changes have been made.", "typed title")
	})
	if e := s.entry("uid=asantos," + people); !strings.Contains(e, "manager: uid=anielsen,"+people) || !strings.Contains(e, "typed title") {
		t.Errorf("saved:\n%s", e)
	}
	v.get(dnLink("uid=asantos,"+people) + "/edit")
	if strings.Contains(v.page(), "unknown") || !strings.Contains(v.text, `value="manager"`) {
		t.Errorf("a name that an entry has is marked: %s", v.text)
	}
	v.submit("Show as LDIF", "manager", "uid=nobody,"+people)
	v.shows("This would be changed", "unknown No entry that you may see has this name")
	v.submit("Save")
	v.shows("The changes have been made.")

	v.get("/add?kind=folder&parent=" + url.QueryEscape("people"))
	v.submit("Find", "ou", "below it")
	v.shows("Found with “people”")
	v.submit("Add", "pick-parent", people)
	v.shows("The entry has been added.", "ou=below it,"+people)
	v.follow("Rename or move")
	v.submit("Find", "under", "groups", "rdn", "ou=moved")
	v.shows("ou=groups,dc=example,dc=com")
	v.submit("Rename", "pick-under", "ou=groups,dc=example,dc=com")
	v.shows("The entry has its new name.", "ou=moved,ou=groups,dc=example,dc=com")

	v.get(dnLink("cn=all,ou=groups,dc=example,dc=com") + "/values/member")
	for _, f := range nodes(v.doc(), "form") {
		if paramOf(f, "add") != "" {
			v.post(f, nodes(f, "button")[0], []string{"add", "uid=nobody," + people})
			break
		}
	}
	v.shows("No entry that you may see has this name.")
	if !strings.Contains(s.entry("cn=all,ou=groups,dc=example,dc=com"), "uid=nobody,") {
		t.Error("an unknown name was refused")
	}
}

// TestTypedNames checks that a field for a name offers entries while somebody types.
func TestTypedNames(t *testing.T) {
	s := newSite(t)
	b := s.tab()
	b.visit(s.logged(admin, "secret"))
	b.task("type a name", func() {
		b.address(dnLink("uid=asantos,"+people) + "/move")
		b.fill("Below", "peop")
		_, err := chromedp.Run(b.ctx, chromedp.Poll[bool](`[...document.querySelectorAll("datalist option")].some((o) => o.value === "`+people+`")`))
		b.must(err)
		b.press("le are unknown")
		b.says("No entry that you may see has this name.")
	})
	b.task("Enter renames", func() {
		b.address(dnLink("uid=asantos,"+people) + "/move")
		b.fill("Name", "uid=anasantos")
		b.enter()
		b.says("The entry has its new name.")
	})
}
