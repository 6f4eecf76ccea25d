package schema

import (
	"bytes"
	"errors"
	"fmt"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

var errNotUTF8 = errors.New("not valid UTF-8")

// A ProhibitedError reports a code point that is prohibited by RFC 4518, 2.4.
type ProhibitedError struct{ Rune rune }

func (e *ProhibitedError) Error() string {
	return fmt.Sprintf("the code point %U cannot be matched (RFC 4518, 2.4)", e.Rune)
}

// asciiExact and asciiFold map each ASCII byte to the result of the Map step (RFC 4518,
// 2.2). asciiFold also maps upper case to lower case. The value 0 means that the step
// removes the byte.
var asciiExact, asciiFold [128]byte

func init() {
	for c := range byte(128) {
		m := c
		switch {
		case '\t' <= c && c <= '\r':
			m = ' '
		case c < ' ', c == 0x7f:
			m = 0
		}
		asciiExact[c] = m
		if 'A' <= m && m <= 'Z' {
			m += 'a' - 'A'
		}
		asciiFold[c] = m
	}
}

// prepareString performs steps 1 to 5 of RFC 4518, 2. It does not handle insignificant
// spaces, which is step 6. It returns newly allocated memory.
func prepareString(v []byte, fold bool) ([]byte, error) {
	if !isASCII(v) {
		return prepareUnicode(v, fold)
	}
	table := asciiTable(fold)
	out := make([]byte, 0, len(v))
	for _, c := range v {
		if m := table[c&0x7f]; m != 0 {
			out = append(out, m)
		}
	}
	return out, nil
}

func asciiTable(fold bool) *[128]byte {
	if fold {
		return &asciiFold
	}
	return &asciiExact
}

func isASCII(v []byte) bool {
	for _, c := range v {
		if c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// stringKey prepares a value or a whole assertion (RFC 4518, 2). Almost all strings are
// ASCII. For a string in ASCII, stringKey makes one allocation, and its loops make no
// calls.
func stringKey(v []byte, fold bool) ([]byte, error) {
	size := len(v) + 2
	for _, c := range v {
		if c >= utf8.RuneSelf {
			b, err := prepareUnicode(v, fold)
			if err != nil {
				return nil, err
			}
			return spaceOut(b), nil
		}
		if c <= ' ' {
			size++
		}
	}
	table := asciiTable(fold)
	out := make([]byte, size)
	out[0] = ' '
	n, pending := 1, false
	for _, c := range v {
		switch m := table[c&0x7f]; {
		case m > ' ':
			if pending {
				out[n], out[n+1] = ' ', ' '
				n, pending = n+2, false
			}
			out[n] = m
			n++
		case m == ' ':
			pending = n > 1
		}
	}
	out[n] = ' '
	return out[:n+1], nil
}

// stringPiece prepares a piece of a substring assertion (RFC 4518, 2.6.1).
func stringPiece(k Piece, v []byte, fold bool) ([]byte, error) {
	b, err := prepareString(v, fold)
	if err != nil {
		return nil, err
	}
	out := make([]byte, 0, len(b)+2+bytes.Count(b, []byte{' '}))
	if k == Initial || len(b) > 0 && isSpaceAt(b, 0) {
		out = append(out, ' ')
	}
	n := len(out)
	if out = appendWords(out, b); len(out) == n {
		return []byte{' '}, nil // the piece contains only spaces
	}
	if k == Final || isSpaceAt(b, len(b)-1) {
		out = append(out, ' ')
	}
	return out, nil
}

// compactKey prepares a value in which spaces and the runes that drop accepts are
// insignificant (RFC 4518, 2.6.2 and 2.6.3). Such a character is significant if a
// combining mark follows it.
func compactKey(v []byte, drop func(r rune) bool) ([]byte, error) {
	b, err := prepareString(v, true)
	if err != nil {
		return nil, err
	}
	out := b[:0]
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if r != ' ' && !drop(r) || marked(b[i+n:]) {
			out = append(out, b[i:i+n]...)
		}
		i += n
	}
	return out, nil
}

func noRune(rune) bool { return false }

// isHyphen reports whether a rune is a hyphen of RFC 4518, 2.6.3.
func isHyphen(r rune) bool {
	switch r {
	case '-', 0x058a, 0x2010, 0x2011, 0x2212, 0xfe63, 0xff0d:
		return true
	}
	return false
}

// folder folds case. It may be used concurrently, although x/text does not promise this
// for all Casers: folding has no state, because it looks at one code point at a time.
var folder = cases.Fold()

// prepareUnicode prepares text that contains characters outside ASCII.
func prepareUnicode(v []byte, fold bool) ([]byte, error) {
	if !utf8.Valid(v) {
		return nil, errNotUTF8
	}
	b := norm.NFKC.Bytes(mapRunes(v, fold))
	if fold {
		b = foldNormal(b)
	}
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if prohibited(r) {
			return nil, &ProhibitedError{r}
		}
		i += n
	}
	return b, nil
}

// foldNormal folds text in NFKC. The folding of RFC 3454, B.2 has a result that stays
// folded under NFKC. To get such a result, Unicode (Standard, 3.13, D146) folds and
// normalises twice. The RFC folds before it normalises, and this package normalises
// first. Most text needs only one round. Span detects when the text is folded.
func foldNormal(b []byte) []byte {
	for range 2 {
		if n, _ := folder.Span(b, true); n == len(b) {
			return b
		}
		b = norm.NFKC.Bytes(foldOnce(b))
	}
	return b
}

// foldOnce folds the text once. It avoids the allocations of Caser.Bytes if the result is
// not much longer than b.
func foldOnce(b []byte) []byte {
	dst := make([]byte, len(b)+16)
	n, _, err := folder.Transform(dst, b, true)
	if err != nil {
		return folder.Bytes(b)
	}
	return dst[:n]
}

// mapRunes performs the Map step (RFC 4518, 2.2). It folds only the characters that
// x/text does not fold.
func mapRunes(v []byte, fold bool) []byte {
	out := make([]byte, 0, len(v)+8)
	for i := 0; i < len(v); {
		r, n := utf8.DecodeRune(v[i:])
		switch {
		case mapsToSpace(r):
			out = append(out, ' ')
		case mapsToNothing(r):
		case fold:
			out = utf8.AppendRune(out, foldCherokee(r))
		default:
			out = append(out, v[i:i+n]...)
		}
		i += n
	}
	return out
}

// foldCherokee folds Cherokee, the only script that x/text does not fold. It folds to
// upper case, because Unicode had no lower-case Cherokee letters before version 8.
func foldCherokee(r rune) rune {
	switch {
	case 0x13f8 <= r && r <= 0x13fd:
		return r - 0x13f8 + 0x13f0
	case 0xab70 <= r && r <= 0xabbf:
		return r - 0xab70 + 0x13a0
	}
	return r
}

func mapsToSpace(r rune) bool {
	switch {
	case r < utf8.RuneSelf:
		return asciiExact[r] == ' '
	case r == 0x85:
		return true
	case r == 0x200b: // ZERO WIDTH SPACE is mapped to nothing
		return false
	}
	return unicode.In(r, unicode.Z)
}

func mapsToNothing(r rune) bool {
	switch {
	case r < utf8.RuneSelf:
		return asciiExact[r] == 0
	case r == 0x034f, // COMBINING GRAPHEME JOINER
		r == 0x1806,                // MONGOLIAN TODO SOFT HYPHEN
		0x180b <= r && r <= 0x180d, // variation selectors
		0xfe00 <= r && r <= 0xfe0f,
		0xe0100 <= r && r <= 0xe01ef, // variation selectors that were assigned after Unicode 3.2
		r == 0xfffc:                  // OBJECT REPLACEMENT CHARACTER
		return true
	}
	return unicode.In(r, unicode.Cc, unicode.Cf)
}

// prohibited reports whether the Prohibit step (RFC 4518, 2.4) prohibits the rune. The
// RFC also prohibits the code points that are unassigned in Unicode 3.2, for example most
// emoji. This function prohibits only those that are unassigned in the Unicode version in
// use.
func prohibited(r rune) bool {
	if r < 0x250 {
		return false
	}
	if r == utf8.RuneError {
		return true
	}
	return !unicode.IsLetter(r) && !unicode.In(r, unicode.M, unicode.N, unicode.P, unicode.S, unicode.Zs, unicode.Cf)
}

// isSpaceAt reports whether b[i] is a space as defined in RFC 4518, 2.6: a space that is
// not followed by a combining mark.
func isSpaceAt(b []byte, i int) bool {
	return b[i] == ' ' && !marked(b[i+1:])
}

// marked reports whether b begins with a combining mark (RFC 4518, appendix A).
func marked(b []byte) bool {
	if len(b) == 0 || b[0] < utf8.RuneSelf {
		return false
	}
	r, _ := utf8.DecodeRune(b)
	return unicode.Is(unicode.M, r)
}

// spaceOut handles the insignificant spaces of a value or a whole assertion (RFC 4518,
// 2.6.1). The result has one space at each end, and two spaces for each run of spaces
// between words.
func spaceOut(b []byte) []byte {
	out := make([]byte, 0, len(b)+2+bytes.Count(b, []byte{' '}))
	return append(appendWords(append(out, ' '), b), ' ')
}

// appendWords appends b without spaces at its ends and with two spaces for each run of
// spaces between words. It appends nothing if b contains only spaces.
func appendWords(out, b []byte) []byte {
	pending := false
	start := len(out)
	for i := range b {
		if isSpaceAt(b, i) {
			pending = true
			continue
		}
		if pending && len(out) > start {
			out = append(out, ' ', ' ')
		}
		pending = false
		out = append(out, b[i])
	}
	return out
}
