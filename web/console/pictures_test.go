package console_test

import (
	"bytes"
	"cmp"
	"flag"
	"image"
	"image/color"
	"image/png"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/seed-4dac0d86/ldapd/ldap/op"
)

var pictures = flag.String("pictures", "", "write the pictures of docs/console.md to this `folder`")

// TestPictures walks through what docs/console.md shows: how a search is run, an entry, its history, two moments of it,
// what a restore would change, and what other access rules would.
func TestPictures(t *testing.T) {
	s := newSite(t)
	s.modify(s.admin, "uid=jsmith,"+people, "userPassword", "opensesame")
	jsmith := s.bound("uid=jsmith,"+people, "opensesame")
	s.modify(jsmith, "uid=jsmith,"+people, "mobile", "+41 79 555 01 02")
	before := "before-the-move"
	if _, err := s.part.DB.Checkpoint(t.Context(), before); err != nil {
		t.Fatal(err)
	}
	s.modify(s.admin, "uid=jsmith,"+people, "roomNumber", "4.12")
	s.modify(s.admin, "uid=jsmith,"+people, "title", "Head of Engineering")
	s.ldap(s.admin, &op.Modify{Name: "uid=jsmith," + people, Changes: []op.Modification{op.Change(op.ModReplace, "telephoneNumber", "+41 44 555 77 00"), op.Change(op.ModAdd, "description", "moved on Monday")}})
	b := s.tab()
	b.must(chromedp.Do(b.ctx, chromedp.EmulateViewport(1280, 800)))
	b.scheme("light")
	b.visit(s.logged(admin, "secret"))
	q, who := url.QueryEscape, dnLink("uid=jsmith,"+people)
	for _, p := range []struct{ name, address, script, selector, says string }{
		{"search", "/search?format=run&columns=cn,mail,title&q=" + q("(&(objectClass=person)(cn=j*))"), "", "", "entries examined"},
		{"entry", who, `document.querySelector("form.time summary").click()`, "input.when", before},
		{"history", who + "/history", "", "", "Compare the two moments"},
		{"compare", who + "/compare?to=now&from=" + before, "", "", "moved on Monday"},
		{"restore", "/restore?moment=" + before + "&name=" + q("uid=jsmith,"+people), "", "", "in one commit"},
		{"access", "/access?edit=cn%3Dconfig", `document.getElementById("rules-text").value += "\n\nrooms: allow users to write roomNumber in (objectClass=person)"; document.querySelector("[name=preview]").click()`, ".diff li", "These rules can be saved"},
	} {
		b.address(p.address)
		b.act(p.script, p.selector)
		b.says(p.says)
		if *pictures != "" {
			b.picture(filepath.Join(*pictures, p.name+".png"))
		}
	}
}

// maxPicture is the size of a picture of the documentation, in octets.
const maxPicture = 60_000

// picture writes what the window shows, in at most 256 colours: those that it has most of, and of the others that are nearly
// the same one each.
func (b *tab) picture(name string) {
	b.t.Helper()
	shot, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	b.must(err)
	from, err := png.Decode(bytes.NewReader(shot))
	b.must(err)
	count := map[color.Color]int{}
	for y := range from.Bounds().Dy() {
		for x := range from.Bounds().Dx() {
			count[from.At(x, y)]++
		}
	}
	var palette color.Palette
	near := map[[3]uint32]bool{}
	for _, c := range slices.SortedFunc(maps.Keys(count), func(a, b color.Color) int { return cmp.Compare(count[b], count[a]) }) {
		r, g, b, _ := c.RGBA()
		if key := [3]uint32{r >> 12, g >> 12, b >> 12}; len(palette) < 64 || !near[key] && len(palette) < 256 {
			near[key], palette = true, append(palette, c)
		}
	}
	to := image.NewPaletted(from.Bounds(), palette)
	for y := range from.Bounds().Dy() {
		for x := range from.Bounds().Dx() {
			to.Set(x, y, from.At(x, y))
		}
	}
	var out bytes.Buffer
	b.must((&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, to))
	if out.Len() > maxPicture {
		b.t.Errorf("%s has %d octets, more than %d", name, out.Len(), maxPicture)
	}
	b.must(os.WriteFile(name, out.Bytes(), 0o666))
}
