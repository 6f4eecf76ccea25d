package schema

import (
	"errors"
	"fmt"
	"strings"
)

// Macros are names for OIDs, as schema files define them: "objectIdentifier name
// oid" or "name other:suffix" (OpenLDAP's slapd.conf). Names are in lower case.
type Macros map[string]string

// Define adds a macro. A name may be defined again as the same.
func (m Macros) Define(name, oid string) error {
	oid = m.expand(oid)
	if !validNumericOID(oid) {
		return fmt.Errorf("objectIdentifier %s: %q is neither an OID nor begins with a macro defined before", name, oid)
	}
	key := strings.ToLower(name)
	if old, is := m[key]; is && old != oid {
		return fmt.Errorf("objectIdentifier %s: it is %s already, now %s", name, old, oid)
	}
	m[key] = oid
	return nil
}

// expand returns the OID of "macro" or "macro:suffix", or what it was given.
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

// Expand replaces the macros in a definition, which may stand for its OID and
// its syntax, and writes it as this package does.
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
	return Definition{elementNames[p.element], p.String(), d.Source}, nil
}

// element expands a macro to what must be an OID then.
func (m Macros) element(s string) (string, error) {
	oid := m.expand(s)
	if oid != s && !validNumericOID(oid) {
		return s, fmt.Errorf("%q stands for %q, which is no OID", s, oid)
	}
	return oid, nil
}

// ParseFile reads the text of a schema file: definitions with a word before
// them that says what they define ("attributetype ( ... )", "attributeTypes: (
// ... )"), and macros, which are added to m. A definition goes on in lines that
// begin with a space and, beyond what slapd takes, until its parentheses close.
// A "#" begins a comment where it is the first thing of a line. Other
// directives are an error.
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

// parseDirective reads a definition, or defines a macro.
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

// directives yields the directives of a schema file, and the lines they begin
// on.
func directives(text string) func(yield func(int, string) bool) {
	return func(yield func(int, string) bool) {
		var b strings.Builder
		var open nesting
		n, began := 0, 0
		for line := range strings.Lines(text) {
			n++
			trimmed := strings.TrimSpace(line)
			if trimmed == "" || trimmed[0] == '#' {
				continue
			}
			if b.Len() > 0 && open.depth <= 0 && !isSpace(line[0]) {
				if !yield(began, b.String()) {
					return
				}
				b.Reset()
				open = nesting{}
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

// nesting counts the parentheses that are open outside quotes.
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

// label splits "attributeTypes: ( ... )"; the colon may be missing, and an index
// in braces may stand before the parenthesis.
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
