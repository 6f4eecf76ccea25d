package entry

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/seed-4dac0d86/ldapd/schema"
)

func TestID(t *testing.T) {
	id := NewID()
	if id == Root || id == NewID() {
		t.Error("ids are not random")
	}
	back, err := ParseID(strings.ToUpper(id.String()))
	if err != nil || back != id {
		t.Errorf("%v became %v, %v", id, back, err)
	}
	if got := Root.String(); got != "00000000-0000-0000-0000-000000000000" {
		t.Error(got)
	}
	for _, s := range []string{"", "x", "00000000-0000-0000-0000-00000000000"} {
		if id, err := ParseID(s); err == nil {
			t.Errorf("%q parsed as %v", s, id)
		}
	}
}

func TestSortOptions(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"", ""},
		{";", ""},
		{"binary", ""},
		{"Binary;X", ";x"},
		{"lang-DE", ";lang-de"},
		{";x;a;X;a", ";a;x"},
		{"x;;y", ";x;y"},
	} {
		if got := SortOptions(c.in); got != c.want {
			t.Errorf("SortOptions(%q) = %q, want %q", c.in, got, c.want)
		}
	}
}

func TestHasOptions(t *testing.T) {
	for _, c := range []struct {
		have, want string
		is         bool
	}{
		{"", "", true},
		{";a", "", true},
		{"", ";a", false},
		{";a;b;c", ";a;c", true},
		{";a;b", ";a;c", false},
		{";ab", ";a", false},
		{";a", ";ab", false},
		{";x-ab", ";ab", false},
		// These cases test language ranges.
		{";lang-en", ";lang-en-", true},
		{";lang-en-us", ";lang-en-", true},
		{";lang-en-us", ";lang-en", false},
		{";lang-eng", ";lang-en-", false},
		{";lang-de;lang-en-gb", ";lang-en-", true},
		{";lang-de", ";lang-", true},
		{";lang-de;x", ";lang-;x", true},
		{";lang", ";lang-", true}, // ";lang" is not a language tag, but the range matches it too
		{";x", ";lang-", false},
		{";x-a", ";x-", false},
	} {
		if got := HasOptions(c.have, c.want); got != c.is {
			t.Errorf("HasOptions(%q, %q) = %t", c.have, c.want, got)
		}
	}
}

func TestHasRange(t *testing.T) {
	for options, want := range map[string]bool{
		"": false, ";lang-de": false, ";lang": false, ";x-lang-": false, ";lang-de;x-": false,
		";lang-": true, ";lang-de-": true, ";lang-de;lang-en-;x": true,
	} {
		if HasRange(options) != want {
			t.Errorf("HasRange(%q) = %t", options, !want)
		}
	}
}

func TestHasOptionsIsSubset(t *testing.T) {
	options := rapid.SliceOf(rapid.SampledFrom([]string{"a", "b", "ab", "x-a", "lang-de"}))
	rapid.Check(t, func(t *rapid.T) {
		have, want := options.Draw(t, "have"), options.Draw(t, "want")
		set := map[string]bool{}
		for _, o := range have {
			set[o] = true
		}
		subset := true
		for _, o := range want {
			subset = subset && set[o]
		}
		h, w := SortOptions(strings.Join(have, ";")), SortOptions(strings.Join(want, ";"))
		if HasOptions(h, w) != subset {
			t.Fatalf("HasOptions(%q, %q) = %t", h, w, !subset)
		}
	})
}

func TestFind(t *testing.T) {
	cn := schema.Core().Attribute("cn")
	sn := schema.Core().Attribute("sn")
	e := &Entry{Attributes: []Attribute{
		{Type: cn, Options: ";lang-de", Values: [][]byte{[]byte("Käthe")}},
		{Type: cn, Values: [][]byte{[]byte("Kate"), []byte("Katy")}},
	}}
	if got := e.Values(cn); len(got) != 2 || string(got[0]) != "Kate" {
		t.Errorf("%q", got)
	}
	if e.Find(cn, ";lang-en") != nil || e.Find(sn, "") != nil || e.Values(sn) != nil {
		t.Error("found what is not there")
	}
	if got := e.Find(cn, ";lang-de").Description(); got != "cn;lang-de" {
		t.Error(got)
	}
	if got := e.Find(cn, "").Description(); got != "cn" {
		t.Error(got)
	}
}

func BenchmarkHasOptions(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if !HasOptions(";lang-de;x-b", ";lang-de") {
			b.Fatal()
		}
	}
}

// FuzzOptions checks that SortOptions returns its own results unchanged, and that HasOptions(r,
// r) is true for every result r.
func FuzzOptions(f *testing.F) {
	for _, s := range []string{"", "binary", "Lang-DE;x;X", ";;a;", "lang-en-;lang-", "\xff;\u0130"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		form := SortOptions(s)
		if again := SortOptions(form); again != form {
			t.Errorf("%q became %q, then %q", s, form, again)
		}
		if !HasOptions(form, form) || !HasOptions(form, "") || form != "" && HasOptions("", form) {
			t.Errorf("%q has not what it says", form)
		}
	})
}

// FuzzParseID checks that if ParseID accepts a string, String of the parsed ID returns
// the same string in lower case.
func FuzzParseID(f *testing.F) {
	f.Add(NewID().String())
	f.Add("00000000000000000000000000000000")
	f.Add("urn:uuid:00000000-0000-0000-0000-000000000000")
	f.Fuzz(func(t *testing.T, s string) {
		if id, err := ParseID(s); err == nil && !strings.EqualFold(id.String(), s) {
			t.Errorf("%q became %v", s, id)
		}
	})
}
