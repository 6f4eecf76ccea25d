package hbase

import (
	"fmt"
	"regexp/syntax"
	"strings"
	"unicode/utf8"
)

// anyRune matches every byte sequence that Go may read as one character of a row key. Go
// reads keys as UTF-8, with one to four bytes per character, while the server reads
// bytes.
const anyRune = `.{1,4}`

// javaPattern translates a Go regular expression into a regular expression for the server
// (java.util.regex over ISO-8859-1 with DOTALL). The result matches at least the same
// keys. javaPattern widens parts of the expression that Java may interpret differently
// than Go. It also widens parts that match differently because the server reads bytes. So
// letters beyond ASCII and case-insensitive letters become any character, and boundaries
// of lines and words are dropped. javaPattern returns false if Go cannot parse the
// expression.
func javaPattern(expr string) (string, bool) {
	re, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return "", false
	}
	var b strings.Builder
	writeJava(&b, re)
	return b.String(), true
}

func writeJava(b *strings.Builder, re *syntax.Regexp) {
	switch re.Op {
	case syntax.OpNoMatch:
		b.WriteString(`(?!)`)
	case syntax.OpLiteral:
		writeLiteral(b, re)
	case syntax.OpCharClass:
		writeClass(b, re.Rune)
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		b.WriteString(anyRune)
	case syntax.OpBeginText:
		b.WriteString(`\A`)
	case syntax.OpEndText:
		b.WriteString(`\z`)
	case syntax.OpCapture:
		writeGroup(b, re.Sub[0], "")
	case syntax.OpStar:
		writeRepeat(b, re.Sub[0], "*")
	case syntax.OpPlus:
		writeRepeat(b, re.Sub[0], "+")
	case syntax.OpQuest:
		writeGroup(b, re.Sub[0], "?")
	case syntax.OpRepeat:
		writeGroup(b, re.Sub[0], bounds32(re.Min, re.Max))
	case syntax.OpConcat:
		for _, s := range re.Sub {
			writeJava(b, s)
		}
	case syntax.OpAlternate:
		writeAlternate(b, re.Sub)
	}
}

func bounds32(lo, hi int) string {
	if hi < 0 {
		return fmt.Sprintf("{%d,}", lo)
	}
	return fmt.Sprintf("{%d,%d}", lo, hi)
}

func writeGroup(b *strings.Builder, re *syntax.Regexp, suffix string) {
	b.WriteString(`(?:`)
	writeJava(b, re)
	b.WriteString(`)` + suffix)
}

// writeRepeat writes ".*" without a group. With a group inside the repetition, the server
// would try every way to split the key.
func writeRepeat(b *strings.Builder, re *syntax.Regexp, suffix string) {
	if re.Op == syntax.OpAnyChar || re.Op == syntax.OpAnyCharNotNL {
		b.WriteString(`.` + suffix)
		return
	}
	writeGroup(b, re, suffix)
}

func writeAlternate(b *strings.Builder, subs []*syntax.Regexp) {
	b.WriteString(`(?:`)
	for i, s := range subs {
		if i > 0 {
			b.WriteByte('|')
		}
		writeJava(b, s)
	}
	b.WriteByte(')')
}

func writeLiteral(b *strings.Builder, re *syntax.Regexp) {
	for _, r := range re.Rune {
		if r >= utf8.RuneSelf || re.Flags&syntax.FoldCase != 0 {
			b.WriteString(anyRune)
			continue
		}
		writeBytes(b, []byte{byte(r)})
	}
}

// writeClass writes a class of ASCII characters. It writes any other class as any
// character.
func writeClass(b *strings.Builder, ranges []rune) {
	if n := len(ranges); n == 0 || ranges[n-1] >= utf8.RuneSelf {
		b.WriteString(anyRune)
		return
	}
	b.WriteByte('[')
	for i := 0; i < len(ranges); i += 2 {
		fmt.Fprintf(b, `\x%02x-\x%02x`, ranges[i], ranges[i+1])
	}
	b.WriteByte(']')
}
