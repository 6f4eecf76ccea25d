package schema

import (
	"bytes"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// ApproximateOID is the OID of the approximate matching rule of this server. RFC 4511
// leaves the definition of this rule to servers.
const ApproximateOID = "2.25.300340974378039989201964535859391299737"

// approximateKey returns the words of a string, case-folded and without accents and
// apostrophes. All other characters except letters and digits separate words. The key has a
// space before the first word, between words and after the last word: "Müller-Lüdenscheidt,
// J." becomes " muller ludenscheidt j ".
func approximateKey(v []byte) ([]byte, error) {
	b, err := prepareString(v, true)
	if err != nil {
		return nil, err
	}
	out := append(make([]byte, 0, len(b)+2), ' ')
	for _, r := range string(norm.NFKD.Bytes(b)) {
		switch {
		case unicode.IsLetter(r), unicode.IsNumber(r):
			out = utf8.AppendRune(out, r)
		case unicode.Is(unicode.M, r), isApostrophe(r):
			// An accent does not end a word, and neither does the apostrophe in
			// "O'Brien".
		case out[len(out)-1] != ' ':
			out = append(out, ' ')
		}
	}
	if out[len(out)-1] != ' ' {
		out = append(out, ' ')
	}
	return out, nil
}

func isApostrophe(r rune) bool { return r == '\'' || r == 0x2019 || r == 0x2bc }

// matchApproximate reports whether the value contains every word of the assertion in the
// same order. The value may contain other words between these words: "john smith" matches
// "John F. Smith", but not "Smith, John".
func matchApproximate(key, assertion []byte) bool {
	if len(assertion) == 1 {
		return false // the assertion contains no word
	}
	for len(assertion) > 1 {
		end := bytes.IndexByte(assertion[1:], ' ')
		if end < 0 {
			return false
		}
		word := assertion[:end+2]
		i := bytes.Index(key, word)
		if i < 0 {
			return false
		}
		key = key[i+len(word)-1:]
		assertion = assertion[end+1:]
	}
	return true
}

// boundaryAt reports whether a word may begin or end between b[i-1] and b[i].
func boundaryAt(b []byte, i int) bool {
	before, _ := utf8.DecodeLastRune(b[:i])
	after, _ := utf8.DecodeRune(b[i:])
	return !isWordRune(before) || !isWordRune(after)
}

func isWordRune(r rune) bool {
	return r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.Is(unicode.M, r))
}
