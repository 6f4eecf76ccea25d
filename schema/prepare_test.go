package schema

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestStringKey(t *testing.T) {
	for _, c := range []struct{ in, fold, exact string }{
		// Handling of spaces (RFC 4518, 2.6.1).
		{"", "  ", "  "},
		{"   ", "  ", "  "},
		{"foo", " foo ", " foo "},
		{"  Foo   Bar ", " foo  bar ", " Foo  Bar "},
		{"a\tb\nc\r\nd", " a  b  c  d ", " a  b  c  d "},
		{"a\u00a0b\u2003c\u3000d", " a  b  c  d ", " a  b  c  d "},
		{"a\u0085b", " a  b ", " a  b "},
		// A space before a combining mark does not count as a space.
		{"a \u0301b", " a \u0301b ", " a \u0301b "},
		{" \u0301", "  \u0301 ", "  \u0301 "},
		{"\u00b4", "  \u0301 ", "  \u0301 "}, // ACUTE ACCENT decomposes to a space and U+0301
		// Case folding.
		{"STRASSE", " strasse ", " STRASSE "},
		{"Stra\u00dfe", " strasse ", " Stra\u00dfe "},
		{"\u1e9e", " ss ", " \u1e9e "},
		{"\u03a3\u038a\u03a3\u03a5\u03a6\u039f\u03a3", " \u03c3\u03af\u03c3\u03c5\u03c6\u03bf\u03c3 ", " \u03a3\u038a\u03a3\u03a5\u03a6\u039f\u03a3 "},
		{"\u03c3\u03af\u03c3\u03c5\u03c6\u03bf\u03c2", " \u03c3\u03af\u03c3\u03c5\u03c6\u03bf\u03c3 ", " \u03c3\u03af\u03c3\u03c5\u03c6\u03bf\u03c2 "},
		{"\u0130", " i\u0307 ", " \u0130 "}, // I WITH DOT ABOVE
		{"\u212a", " k ", " K "},            // KELVIN SIGN
		{"\ufb01", " fi ", " fi "},          // ligature
		{"\u1f88", " \u1f00\u03b9 ", " \u1f88 "},
		// Characters with canonical or compatibility equivalents, and characters of other
		// widths.
		{"e\u0301", " \u00e9 ", " \u00e9 "},
		{"E\u0301", " \u00e9 ", " \u00c9 "},
		{"\uff21\uff22\uff23\uff11", " abc1 ", " ABC1 "},
		{"\uff76\uff9e", " \u30ac ", " \u30ac "}, // halfwidth katakana with voicing mark
		{"\u2102", " c ", " C "},
		{"\u33a7", " m\u2215s ", " m\u2215s "},
		{"q\u0323\u0307", " q\u0323\u0307 ", " q\u0323\u0307 "},
		{"q\u0307\u0323", " q\u0323\u0307 ", " q\u0323\u0307 "}, // marks in canonical order
		{"\u1100\u1161", " \uac00 ", " \uac00 "},
		// Characters that are mapped to nothing (RFC 4518, 2.2).
		{"co\u00adoperate", " cooperate ", " cooperate "},
		{"zero\u200bwidth\u200d\u2060\ufeff", " zerowidth ", " zerowidth "},
		{"\u200fשלום\u200e", " שלום ", " שלום "},
		{"\u202bא\u202c", " א ", " א "},
		{"a\ufe0fb\u180bc\u034fd\ufffce", " abcde ", " abcde "},
		{"a\x00b\x7fc\x1bd\u0080e", " abcde ", " abcde "},
		{"a\u06ddb\u070f\U000e0041", " ab ", " ab "},
		{"\u00ad \u200b", "  ", "  "},
		// Characters that were assigned after Unicode 3.2.
		{"\U0001f600", " \U0001f600 ", " \U0001f600 "},
	} {
		for fold, want := range map[bool]string{true: c.fold, false: c.exact} {
			got, err := stringKey([]byte(c.in), fold)
			if err != nil || string(got) != want {
				t.Errorf("stringKey(%+q, fold %v) = %+q, %v; want %+q", c.in, fold, got, err, want)
			}
		}
	}
}

func TestPrepareFails(t *testing.T) {
	for in, r := range map[string]rune{
		"\ue000": 0xe000, "\U0010fffd": 0x10fffd, // private use
		"a\ufffd":      0xfffd, // REPLACEMENT CHARACTER
		"\ufdd0\uffff": 0xfdd0, // noncharacters
		"\u0378":       0x378,  // unassigned
	} {
		_, err := stringKey([]byte(in), true)
		var p *ProhibitedError
		if !errors.As(err, &p) || p.Rune != r {
			t.Errorf("stringKey(%+q): %v; want %U prohibited", in, err, r)
		}
	}
	for _, in := range []string{"\xff", "a\xc3", "\xed\xa0\x80"} {
		if _, err := stringKey([]byte(in), true); err != errNotUTF8 {
			t.Errorf("stringKey(%q): %v; want %v", in, err, errNotUTF8)
		}
	}
}

func TestStringPiece(t *testing.T) {
	for _, c := range []struct{ in, initial, any, final string }{
		{"foo", " foo", "foo", "foo "},
		{"foo bar  ", " foo  bar ", "foo  bar ", "foo  bar "},
		{"  foo bar", " foo  bar", " foo  bar", " foo  bar "},
		{" Foo ", " foo ", " foo ", " foo "},
		{"   ", " ", " ", " "},
		{"", " ", " ", " "},
		{"\u200b", " ", " ", " "},
		{"\u00c9 \u0301", " é \u0301", "é \u0301", "é \u0301 "},
		{"x\u00a0", " x ", "x ", "x "},
	} {
		for k, want := range map[Piece]string{Initial: c.initial, Any: c.any, Final: c.final} {
			got, err := stringPiece(k, []byte(c.in), true)
			if err != nil || string(got) != want {
				t.Errorf("stringPiece(%d, %+q) = %+q, %v; want %+q", k, c.in, got, err, want)
			}
		}
	}
}

func TestCompactKeys(t *testing.T) {
	for _, c := range []struct{ in, numeric, telephone string }{
		{"  123  456 ", "123456", "123456"},
		{"   ", "", ""},
		{"+1-800-EXT 5", "+1-800-ext5", "+1800ext5"},
		{"1\u20102\u22123\u058a4\ufe635\uff0d6", "", "123456"},
	} {
		if k, err := telephoneKey([]byte(c.in)); err != nil || string(k) != c.telephone {
			t.Errorf("telephoneKey(%q) = %q, %v; want %q", c.in, k, err, c.telephone)
		}
		if isASCII([]byte(c.in)) {
			if k, err := numericKey([]byte(c.in)); err != nil || string(k) != c.numeric {
				t.Errorf("numericKey(%q) = %q, %v; want %q", c.in, k, err, c.numeric)
			}
		}
	}
}

// anyText returns a generator of strings with many runes that preparation changes.
func anyText() *rapid.Generator[string] {
	special := rapid.SampledFrom([]rune{
		' ', '\t', 'A', 'z', 'ß', 'ẞ', 'Σ', 'ς', 'İ', 'ı', 'ﬁ', 'K', 'Ａ', 'ｶ', 'ﾞ', 0x301, 0x323, 0x345, 0xad, 0x200b,
		0x200f, 0xa0, 0x2028, 0xfe0f, 0x1f88, 0x1f80, 0xb4, 0xa8, 0x3a9, 0x2126, 0x1100, 0x1161, 0x11a8, 0x1f600, 0x105d0,
	})
	return rapid.Custom(func(t *rapid.T) string {
		return string(rapid.SliceOfN(rapid.OneOf(special, special, rapid.Rune()), 0, 12).Draw(t, "runes"))
	})
}

func TestPreparationProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := anyText().Draw(t, "in")
		fold := rapid.Bool().Draw(t, "fold")
		k, err := stringKey([]byte(in), fold)
		if err != nil {
			return
		}
		checkSpaces(t, k)
		checkStable(t, []byte(in), fold)
		if strings.ContainsRune(string(k), '\n') {
			t.Fatalf("key %+q has a line feed", k)
		}
	})
}

type fataler interface{ Fatalf(string, ...any) }

// checkSpaces checks that the spaces in a key conform to RFC 4518, 2.6.1.
func checkSpaces(t fataler, k []byte) {
	if !utf8.Valid(k) || len(k) < 2 || k[0] != ' ' || k[len(k)-1] != ' ' {
		t.Fatalf("key %+q is not UTF-8 between spaces", k)
	}
	run := 0
	for i := 1; i < len(k) && len(k) > 2; i++ {
		switch {
		case isSpaceAt(k, i):
			run++
		case run != 0 && (run != 2):
			t.Fatalf("key %+q has a run of %d spaces before byte %d", k, run, i)
		default:
			run = 0
		}
	}
	if len(k) > 2 && run != 1 {
		t.Fatalf("key %+q ends in %d spaces", k, run)
	}
}

// checkStable checks that preparing a prepared string changes nothing. (This is not true
// of keys: a value that begins with a combining mark gets another space before the mark.)
func checkStable(t fataler, v []byte, fold bool) {
	once, err := prepareString(v, fold)
	if err != nil {
		return
	}
	if twice, err := prepareString(once, fold); err != nil || !bytes.Equal(once, twice) {
		t.Fatalf("%+q is prepared as %+q, and that as %+q, %v", v, once, twice, err)
	}
}

// TestASCIIPathAgrees checks that the code for ASCII strings has the same results as the
// general code.
func TestASCIIPathAgrees(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.SliceOfN(rapid.ByteRange(0, 127), 0, 20).Draw(t, "in")
		fold := rapid.Bool().Draw(t, "fold")
		slow, err := prepareUnicode(in, fold)
		if err != nil {
			t.Fatal(err)
		}
		fast, err := stringKey(in, fold)
		if err != nil || !bytes.Equal(fast, spaceOut(slow)) {
			t.Fatalf("%q: fast %q, slow %q, %v", in, fast, spaceOut(slow), err)
		}
		prepared, err := prepareString(in, fold)
		if err != nil || !bytes.Equal(prepared, slow) {
			t.Fatalf("%q: prepared %q, slow %q, %v", in, prepared, slow, err)
		}
	})
}

// TestPiecesOfAValueMatch checks that a value that is cut into pieces at any positions
// matches the pieces in upper case, unless a piece consists of spaces.
func TestPiecesOfAValueMatch(t *testing.T) {
	rule := Core().Rule("caseIgnoreSubstringsMatch")
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(rapid.StringMatching(`[a-zA-Zäß ]{1,6}`), 1, 5).Draw(t, "words")
		value := strings.Join(words, "")
		first := rapid.Bool().Draw(t, "initial given")
		last := rapid.Bool().Draw(t, "final given")
		pieces := words
		if !first {
			pieces = append([]string{""}, pieces...)
		}
		if !last {
			pieces = append(pieces[:len(pieces):len(pieces)], "")
		}
		if len(pieces) < 2 {
			return
		}
		k, err := rule.Key([]byte(value))
		if err != nil {
			t.Fatal(err)
		}
		assertion := strings.ToUpper(strings.Join(pieces, "*"))
		a, err := rule.Assertion([]byte(assertion))
		if err != nil {
			t.Fatal(err)
		}
		blank := func(s string) bool { return strings.Trim(s, " ") == "" }
		for _, w := range words {
			// A piece that consists of spaces is prepared to one space. The prepared
			// value may no longer contain this space.
			if blank(w) {
				return
			}
		}
		if !rule.Match(k, a) {
			t.Fatalf("%q (key %q) is not found by %q", value, k, assertion)
		}
	})
}

func FuzzPrepare(f *testing.F) {
	for _, s := range []string{"", "foo  Bar", "Stra\u00dfe \u03a3", "\u200f\u0301 \u00b4", "\uff76\uff9e\xff", "\ue000"} {
		f.Add([]byte(s), true)
		f.Add([]byte(s), false)
	}
	f.Fuzz(func(t *testing.T, v []byte, fold bool) {
		k, err := stringKey(v, fold)
		if err != nil {
			return
		}
		checkSpaces(t, k)
		checkStable(t, v, fold)
		for _, p := range []Piece{Initial, Any, Final} {
			if _, err := stringPiece(p, v, fold); err != nil {
				t.Fatalf("%+q has a key but no piece: %v", v, err)
			}
		}
	})
}
