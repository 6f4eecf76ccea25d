package acl

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/seed-4dac0d86/ldapd/dn"
)

// MaxRules is the maximum number of rules in a directory.
const MaxRules = 10000

// ReadFile parses rules from a file. Each line is the name of the place in quotes,
// followed by the rule; the line of a rule for the whole directory has no place. A line
// that begins with white space continues the previous line. ReadFile ignores empty lines
// and lines that begin with "#". The error lists every invalid line.
func ReadFile(r io.Reader) ([]Placed, error) {
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	var all []Placed
	var bad []error
	for _, l := range logicalLines(string(text)) {
		p, err := ParsePlaced(l.text)
		if err != nil {
			bad = append(bad, l.locate(err))
			continue
		}
		all = append(all, p)
	}
	if len(all) > MaxRules {
		bad = append(bad, fmt.Errorf("%d rules are more than the %d that a directory can have", len(all), MaxRules))
	}
	return all, errors.Join(bad...)
}

// A line is a logical line of the file: the text of a rule with its place. The text may
// continue on further lines of the file.
type line struct {
	text   string
	pieces []piece
}

// A piece is the part of a rule's text that is on one line of the file.
type piece struct {
	number int // number of the line in the file
	indent int // number of characters before the piece in its line
	at     int // offset of the piece in the rule's text, in characters
}

func logicalLines(text string) (all []line) {
	number := 0
	for s := range strings.Lines(text) {
		number++
		trimmed := strings.TrimSpace(s)
		p := piece{number: number, indent: utf8.RuneCountInString(s[:len(s)-len(strings.TrimLeftFunc(s, unicode.IsSpace))])}
		switch {
		case trimmed == "" || strings.HasPrefix(trimmed, "#"):
		case p.indent > 0 && len(all) > 0:
			l := &all[len(all)-1]
			l.text += " "
			p.at = utf8.RuneCountInString(l.text)
			l.text, l.pieces = l.text+trimmed, append(l.pieces, p)
		default:
			all = append(all, line{trimmed, []piece{p}})
		}
	}
	return all
}

// Lines returns the lines of a text with rules as ReadFile joins them.
func Lines(text string) (all []string) {
	for _, l := range logicalLines(text) {
		all = append(all, l.text)
	}
	return all
}

// locate adds the line and column in the file to an error about a rule.
func (l *line) locate(err error) error {
	var e *Error
	if !errors.As(err, &e) {
		return fmt.Errorf("line %d: %w", l.pieces[0].number, err)
	}
	// The text consists of the place and the rule. So the rule begins at the difference between
	// the two lengths.
	at := utf8.RuneCountInString(l.text) - utf8.RuneCountInString(e.Rule) + e.Column - 1
	p := l.pieces[0]
	for _, next := range l.pieces[1:] {
		if next.at <= at {
			p = next
		}
	}
	return fmt.Errorf("line %d, column %d: %s", p.number, at-p.at+p.indent+1, e.Text)
}

// ParsePlaced parses a quoted place and a rule, in the form of [Placed.String].
func ParsePlaced(s string) (p Placed, err error) {
	if rest, ok := strings.CutPrefix(s, `"`); ok {
		l := lexer{s: s}
		size, err := l.quoted()
		if err != nil {
			return p, err
		}
		if p.Place, err = dn.Parse(rest[:size-2]); err != nil {
			return p, err
		}
		s = s[size:]
	}
	p.Rule, err = Parse(strings.TrimSpace(s))
	return p, err
}

// String returns the quoted place, followed by the rule. It returns only the rule if the
// rule applies to the whole directory.
func (p Placed) String() string {
	if len(p.Place) == 0 {
		return p.Rule.String()
	}
	return quote(p.Place.String()) + " " + p.Rule.String()
}
