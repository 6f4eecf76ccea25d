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

// ReadFile parses rules from a file, one on each line: the name of the place in quotes,
// unless the rule is for the whole directory, and the rule. A line that begins with white
// space continues the previous one. Empty lines, and those that begin with "#", are
// ignored. The error lists every invalid line, with the column.
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

// A line is a rule with its place, on one line of a file or several.
type line struct {
	text   string
	pieces []piece
}

// A piece is what one line of the file has of a rule.
type piece struct {
	number int // of the line
	indent int // characters before it
	at     int // where it begins in the rule, in characters
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

// locate says where in the file an error is.
func (l *line) locate(err error) error {
	var e *Error
	if !errors.As(err, &e) {
		return fmt.Errorf("line %d: %w", l.pieces[0].number, err)
	}
	// The rule is the end of the text, behind its place.
	at := utf8.RuneCountInString(l.text) - utf8.RuneCountInString(e.Rule) + e.Column - 1
	p := l.pieces[0]
	for _, next := range l.pieces[1:] {
		if next.at <= at {
			p = next
		}
	}
	return fmt.Errorf("line %d, column %d: %s", p.number, at-p.at+p.indent+1, e.Text)
}

// ParsePlaced parses a rule after its place, in the form of [Placed.String].
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

// String returns the rule after its place.
func (p Placed) String() string {
	if len(p.Place) == 0 {
		return p.Rule.String()
	}
	return quote(p.Place.String()) + " " + p.Rule.String()
}
