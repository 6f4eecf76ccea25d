package acl

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// An Error reports what is wrong with a rule, and where.
type Error struct {
	Rule   string // text of the rule
	Column int    // position of the error, in characters, from 1
	Text   string
}

func (e *Error) Error() string {
	return fmt.Sprintf("rule %q, column %d: %s", e.Rule, e.Column, e.Text)
}

// tokenKind is the kind of a token.
type tokenKind uint8

const (
	end tokenKind = iota
	word
	quoted // quoted text without its quotation marks, with its escapes
	parens // a filter with its parentheses
	comma
	equals
)

// A token is a piece of the text of a rule. The token is glued if no space precedes it.
type token struct {
	kind  tokenKind
	text  string
	at    int
	glued bool
}

func (t token) String() string {
	switch t.kind {
	case end:
		return "the end"
	case quoted:
		return quote(t.text)
	}
	return t.text
}

// A lexer splits a rule into tokens.
type lexer struct {
	s  string
	at int
}

// fail returns an Error at a byte offset of the rule.
func (l *lexer) fail(offset int, format string, args ...any) error {
	return &Error{Rule: l.s, Column: utf8.RuneCountInString(l.s[:offset]) + 1, Text: fmt.Sprintf(format, args...)}
}

// next returns the token at the lexer's position and advances past it.
func (l *lexer) next() (token, error) {
	start := l.at
	for l.at < len(l.s) && (l.s[l.at] == ' ' || l.s[l.at] == '\t' || l.s[l.at] == '\n' || l.s[l.at] == '\r') {
		l.at++
	}
	t := token{at: l.at, glued: l.at == start}
	if l.at == len(l.s) || l.s[l.at] == '#' {
		return t, nil
	}
	var size int
	var err error
	switch c := l.s[l.at]; {
	case c == ',':
		t.kind, size = comma, 1
	case c == '=':
		t.kind, size = equals, 1
	case c == '"':
		t.kind = quoted
		size, err = l.quoted()
	case c == '(':
		t.kind = parens
		size, err = l.parens()
	case isWord(c):
		t.kind = word
		for size < len(l.s)-l.at && isWord(l.s[l.at+size]) {
			size++
		}
	default:
		r, _ := utf8.DecodeRuneInString(l.s[l.at:])
		return t, l.fail(l.at, "%q has no meaning here; names and values with such characters stand in quotes", r)
	}
	if err != nil {
		return t, err
	}
	t.text = l.s[l.at : l.at+size]
	if t.kind == quoted {
		t.text = t.text[1 : size-1]
	}
	l.at += size
	return t, nil
}

// isWord reports whether the character c may be in a word: a description, number,
// address, time or time zone.
func isWord(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-.;_:/*+@'", c) >= 0
}

// quoted returns the length of the quoted text at the position of the lexer.
func (l *lexer) quoted() (int, error) {
	for i := l.at + 1; i < len(l.s); i++ {
		switch l.s[i] {
		case '\\':
			i++
		case '"':
			return i + 1 - l.at, nil
		}
	}
	return 0, l.fail(l.at, "the quotation mark is never closed")
}

// parens returns the length of the filter at the position of the lexer. Parentheses in
// values are escaped (RFC 4515, 3), so all unescaped parentheses are balanced.
func (l *lexer) parens() (int, error) {
	depth := 0
	for i := l.at; i < len(l.s); i++ {
		switch l.s[i] {
		case '(':
			depth++
		case ')':
			if depth--; depth == 0 {
				return i + 1 - l.at, nil
			}
		}
	}
	return 0, l.fail(l.at, "the parenthesis is never closed")
}
