package acl

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/seed-4dac0d86/ldapd/dn"
)

// MaxRules is how many rules a directory can have.
const MaxRules = 10000

// ReadFile reads rules of a file, a line each: the name of the place in quotes,
// unless the rule is for the whole directory, and the rule. A line that begins with
// white space goes on with the one before. Empty lines, and those that begin with
// "#", are left out. The error names every line that is wrong.
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
			bad = append(bad, fmt.Errorf("line %d: %w", l.number, err))
			continue
		}
		all = append(all, p)
	}
	if len(all) > MaxRules {
		bad = append(bad, fmt.Errorf("%d rules are more than the %d that a directory can have", len(all), MaxRules))
	}
	return all, errors.Join(bad...)
}

type line struct {
	number int
	text   string
}

func logicalLines(text string) (all []line) {
	number := 0
	for s := range strings.Lines(text) {
		number++
		trimmed := strings.TrimSpace(s)
		switch {
		case trimmed == "" || strings.HasPrefix(trimmed, "#"):
		case (s[0] == ' ' || s[0] == '\t') && len(all) > 0:
			all[len(all)-1].text += " " + trimmed
		default:
			all = append(all, line{number, trimmed})
		}
	}
	return all
}

// ParsePlaced reads a rule with its place in front, as [Placed.String] prints it.
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

// String prints the rule behind its place.
func (p Placed) String() string {
	if len(p.Place) == 0 {
		return p.Rule.String()
	}
	return quote(p.Place.String()) + " " + p.Rule.String()
}
