package schema

import (
	"errors"
	"fmt"
	"strings"
)

// Macros are names for OIDs. Schema files of OpenLDAP define them by "objectIdentifier
// name oid" or "objectIdentifier name other:suffix", as in slapd.conf. The keys are in
// lower case.
type Macros map[string]string

// Define adds a macro. A macro may be defined again only with the same OID.
func (m Macros) Define(name, oid string) error {
	oid = m.expand(oid)
	if !numericOID(oid, true) {
		return fmt.Errorf("objectIdentifier %s: %q is neither an OID nor begins with a macro defined before", name, oid)
	}
	key := strings.ToLower(name)
	if old, is := m[key]; is && old != oid {
		return fmt.Errorf("objectIdentifier %s: it is %s already, now %s", name, old, oid)
	}
	m[key] = oid
	return nil
}

// expand returns the OID of "macro" or "macro:suffix". If s does not begin with a macro,
// expand returns s.
func (m Macros) expand(s string) string {
	name, suffix, has := strings.Cut(s, ":")
	oid, known := m[strings.ToLower(name)]
	switch {
	case !known:
		return s
	case has:
		return oid + "." + suffix
	}
	return oid
}

// Expand replaces macros in the OID and the syntax of a definition. It returns the
// definition in the form in which this package prints definitions.
func (m Macros) Expand(d Definition) (Definition, error) {
	p, err := d.parse()
	if err != nil {
		return d, err
	}
	for _, oid := range []*string{&p.oid, &p.syntax} {
		if *oid, err = m.element(*oid); err != nil {
			return d, from(d.Source, malformed(d.Text, 0, err.Error()))
		}
	}
	return Definition{Attribute: elementNames[p.element], Text: p.String(), Source: d.Source, Derive: d.Derive}, nil
}

// element expands a macro. It returns an error if a macro expands to something that is not
// an OID.
func (m Macros) element(s string) (string, error) {
	oid := m.expand(s)
	if oid != s && !numericOID(oid, true) {
		return s, fmt.Errorf("%q stands for %q, which is no OID", s, oid)
	}
	return oid, nil
}

// ParseFile parses the text of a schema file. The file contains definitions, each after a
// word for its kind ("attributetype ( ... )", "attributeTypes: ( ... )"), and macros,
// which ParseFile adds to m. A definition continues on lines that begin with white space.
// Unlike in slapd, it also continues until its parentheses are closed. An empty line ends a
// directive whose parentheses are closed, so that the next one may be indented. A directive
// also ends where another one begins at the start of a line, so that one that lacks a
// parenthesis does not hide those after it. A line whose first character other than spaces is
// "#" is a comment. Any other directive is an error.
func ParseFile(name, text string, m Macros) ([]Definition, error) {
	var out []Definition
	var errs []error
	for line, directive := range directives(text) {
		d, is, err := parseDirective(fmt.Sprintf("%s:%d", name, line), directive, m)
		if err == nil && is {
			out = append(out, d)
		}
		errs = append(errs, err)
	}
	return out, errors.Join(errs...)
}

// parseDirective parses a directive. If the directive is a definition, parseDirective
// returns the definition and true. If the directive defines a macro, parseDirective adds
// the macro to m.
func parseDirective(source, directive string, m Macros) (d Definition, is bool, err error) {
	if fields := strings.Fields(directive); strings.EqualFold(fields[0], "objectidentifier") && len(fields) == 3 {
		if err := m.Define(fields[1], fields[2]); err != nil {
			return d, false, fmt.Errorf("%s: %w", source, err)
		}
		return d, false, nil
	}
	if d, err = label(directive); err != nil {
		return d, true, from(source, err)
	}
	d.Source = source
	d, err = m.Expand(d)
	return d, true, err
}

// directives yields the directives of a schema file, each with the number of its first
// line.
func directives(text string) func(yield func(int, string) bool) {
	return func(yield func(int, string) bool) {
		var b strings.Builder
		var open nesting
		n, began := 0, 0
		for line := range strings.Lines(text) {
			n++
			trimmed := strings.TrimSpace(line)
			if trimmed != "" && trimmed[0] == '#' {
				continue
			}
			ends := trimmed == "" || !isSpace(line[0])
			if b.Len() > 0 && (open.depth <= 0 && ends || begins(line)) {
				if !yield(began, b.String()) {
					return
				}
				b.Reset()
				open = nesting{}
			}
			if trimmed == "" {
				continue
			}
			if b.Len() == 0 {
				began = n
			}
			b.WriteString(line)
			open.add(line)
		}
		if b.Len() > 0 {
			yield(began, b.String())
		}
	}
}

// begins reports whether a line begins with the word of a directive.
func begins(line string) bool {
	word := strings.ToLower(line[:strings.IndexAny(line+" ", " \t\r\n(:{")])
	_, is := elementAliases[word]
	return is || word == "objectidentifier"
}

// nesting counts the open parentheses of a text outside quotes.
type nesting struct {
	depth  int
	quoted bool
}

func (n *nesting) add(line string) {
	for i := range len(line) {
		switch c := line[i]; {
		case c == '\'':
			n.quoted = !n.quoted
		case c == '(' && !n.quoted:
			n.depth++
		case c == ')' && !n.quoted:
			n.depth--
		}
	}
}

// label splits "attributeTypes: ( ... )" into the attribute and the definition. The colon
// is optional, and an index in braces may precede the parenthesis.
func label(text string) (Definition, error) {
	at := strings.IndexByte(text, '(')
	if at < 0 {
		return Definition{}, malformed(text, len(text), `no "(" found; write "attributeTypes: ( OID ... )"`)
	}
	word := strings.TrimSpace(text[:at])
	if i := strings.LastIndexByte(word, '{'); i >= 0 && strings.HasSuffix(word, "}") {
		word = strings.TrimSpace(word[:i])
	}
	word = strings.TrimSpace(strings.TrimSuffix(word, ":"))
	if _, ok := elementAliases[strings.ToLower(word)]; !ok {
		return Definition{}, malformed(text, 0, fmt.Sprintf("%q is not one of %s", word, strings.Join(elementNames[:], ", ")))
	}
	return Definition{Attribute: word, Text: text[at:]}, nil
}
