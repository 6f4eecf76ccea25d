package schema

import (
	"testing"
	"unicode"
)

// The lists of RFC 4518, 2.2. Each element is a range with its first and last code point.
var (
	rfcNothing = [][2]rune{
		{0x00, 0x08}, {0x0e, 0x1f}, {0x7f, 0x84}, {0x86, 0x9f}, {0xad, 0xad}, {0x34f, 0x34f}, {0x6dd, 0x6dd},
		{0x70f, 0x70f}, {0x1806, 0x1806}, {0x180b, 0x180e}, {0x200b, 0x200f}, {0x202a, 0x202e}, {0x2060, 0x2063},
		{0x206a, 0x206f}, {0xfe00, 0xfe0f}, {0xfeff, 0xfeff}, {0xfff9, 0xfffc}, {0x1d173, 0x1d17a},
		{0xe0001, 0xe0001}, {0xe0020, 0xe007f},
	}
	rfcSpace = [][2]rune{
		{0x09, 0x0d}, {0x20, 0x20}, {0x85, 0x85}, {0xa0, 0xa0}, {0x1680, 0x1680}, {0x2000, 0x200a},
		{0x2028, 0x2029}, {0x202f, 0x202f}, {0x205f, 0x205f}, {0x3000, 0x3000},
	}
)

func TestMapListsOfTheRFC(t *testing.T) {
	for _, c := range []struct {
		ranges [][2]rune
		want   string
	}{{rfcNothing, " ab "}, {rfcSpace, " a  b "}} {
		for _, span := range c.ranges {
			for r := span[0]; r <= span[1]; r++ {
				k, err := stringKey([]byte("a"+string(r)+"b"), true)
				if err != nil || string(k) != c.want {
					t.Errorf("with %U between letters the key is %+q, %v; want %q", r, k, err, c.want)
				}
			}
		}
	}
}

// TestEveryCodePoint checks every code point of the planes 0 and 1 that is not prohibited.
// Preparing a prepared string must change nothing. Code points that differ only in case must
// have the same folded form.
func TestEveryCodePoint(t *testing.T) {
	fold := func(r rune) string {
		b, err := prepareString([]byte(string(r)), true)
		if err != nil {
			return err.Error()
		}
		return string(b)
	}
	for r := rune(0); r <= 0x1ffff; r++ {
		if 0xd800 <= r && r <= 0xdfff || prohibited(r) {
			continue
		}
		checkStable(t, []byte(string(r)), true)
		checkStable(t, []byte(string(r)), false)
		if other := unicode.SimpleFold(r); other > r && fold(r) != fold(other) {
			t.Errorf("%U folds to %+q, %U to %+q", r, fold(r), other, fold(other))
		}
	}
}

func BenchmarkPrepareEveryCodePoint(b *testing.B) {
	var all []byte
	for r := rune(0x100); r < 0x3000; r++ {
		if !prohibited(r) {
			all = append(all, string(r)...)
		}
	}
	b.SetBytes(int64(len(all)))
	for b.Loop() {
		if _, err := prepareString(all, true); err != nil {
			b.Fatal(err)
		}
	}
}
