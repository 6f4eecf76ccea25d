package filter

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Parse parses the string form of a filter (RFC 4515). The outermost parentheses are
// optional, and spaces between filters are allowed. The error is an *Error.
func Parse(s string) (Filter, error) {
	p := parser{s: s}
	p.spaces()
	parse := p.filter
	if p.at < len(s) && s[p.at] != '(' {
		parse = p.content
	}
	f, err := parse(1)
	if err != nil {
		return nil, err
	}
	p.spaces()
	if p.at < len(s) {
		return nil, p.fail("the filter ends here, but there is more")
	}
	return f, nil
}

type parser struct {
	s     string
	at    int
	parts int
}

func (p *parser) fail(format string, args ...any) error {
	return &Error{Filter: p.s, Offset: p.at, Text: fmt.Sprintf(format, args...)}
}

// The method "next" reports whether the text at the cursor begins with s. If so, it moves the
// cursor to the end of s.
func (p *parser) next(s string) bool {
	if !strings.HasPrefix(p.s[p.at:], s) {
		return false
	}
	p.at += len(s)
	return true
}

func (p *parser) spaces() {
	for p.at < len(p.s) && (p.s[p.at] == ' ' || '\t' <= p.s[p.at] && p.s[p.at] <= '\r') {
		p.at++
	}
}

// filter parses a filter in parentheses.
func (p *parser) filter(depth int) (Filter, error) {
	if !p.next("(") {
		return nil, p.fail("expected (")
	}
	if depth > MaxDepth {
		return nil, p.fail("filters nest at most %d levels", MaxDepth)
	}
	p.spaces()
	f, err := p.content(depth)
	if err != nil {
		return nil, err
	}
	switch {
	case p.next(")"):
		return f, nil
	case p.at == len(p.s):
		return nil, p.fail("a ) is missing at the end")
	}
	return nil, p.fail("expected ), or the value has a ( that must be written as \\28")
}

func (p *parser) content(depth int) (Filter, error) {
	if p.parts++; p.parts > MaxParts {
		return nil, p.fail("a filter has at most %d parts", MaxParts)
	}
	switch {
	case p.next("&"):
		parts, err := p.list(depth)
		return And(parts), err
	case p.next("|"):
		parts, err := p.list(depth)
		return Or(parts), err
	case p.next("!"):
		p.spaces()
		f, err := p.filter(depth + 1)
		p.spaces()
		return &Not{f}, err
	}
	return p.item()
}

func (p *parser) list(depth int) ([]Filter, error) {
	var parts []Filter
	for {
		p.spaces()
		if p.at == len(p.s) || p.s[p.at] == ')' {
			return parts, nil
		}
		f, err := p.filter(depth + 1)
		if err != nil {
			return nil, err
		}
		parts = append(parts, f)
	}
}

func (p *parser) item() (Filter, error) {
	attribute := p.description()
	if p.at < len(p.s) && p.s[p.at] == ':' {
		return p.extensible(attribute)
	}
	if attribute == "" {
		return nil, p.fail("expected an attribute description, &, | or !")
	}
	switch {
	case p.next("="):
		return p.equality(attribute)
	case p.next(">="):
		v, err := p.value()
		return &GreaterOrEqual{attribute, v}, err
	case p.next("<="):
		v, err := p.value()
		return &LessOrEqual{attribute, v}, err
	case p.next("~="):
		v, err := p.value()
		return &Approx{attribute, v}, err
	}
	return nil, p.fail("expected =, >=, <=, ~= or := after the attribute description %q", attribute)
}

func (p *parser) description() string {
	start := p.at
	for p.at < len(p.s) && inDescription(p.s[p.at]) {
		p.at++
	}
	return p.s[start:p.at]
}

// inDescription reports whether an attribute description or OID may contain the byte c.
// RFC 4512 does not allow the underscore, but the schemas of some servers use it.
func inDescription(c byte) bool {
	return 'a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' ||
		c == '-' || c == '.' || c == ';' || c == '_'
}

// equality parses the text after "=": a value, a single asterisk, or values separated by
// asterisks.
func (p *parser) equality(attribute string) (Filter, error) {
	v, err := p.value()
	if err != nil || !p.next("*") {
		return &Equal{attribute, v}, err
	}
	f := &Substrings{Attribute: attribute}
	if len(v) > 0 {
		f.Initial = v
	}
	for {
		v, err := p.value()
		if err != nil {
			return nil, err
		}
		if p.next("*") {
			f.Any = append(f.Any, v)
			continue
		}
		if len(v) > 0 {
			f.Final = v
		}
		if f.Initial == nil && f.Any == nil && f.Final == nil {
			return &Present{attribute}, nil
		}
		return f, nil
	}
}

// extensible parses [":dn"] [":" rule] ":=" value, the text after the attribute of an
// extensible match.
func (p *parser) extensible(attribute string) (Filter, error) {
	f := &Extensible{Attribute: attribute}
	if at := p.at; p.next(":") {
		if strings.EqualFold(p.description(), "dn") {
			f.DNAttrs = true
		} else {
			p.at = at
		}
	}
	if !strings.HasPrefix(p.s[p.at:], ":=") && p.next(":") {
		if f.Rule = p.description(); f.Rule == "" {
			return nil, p.fail("expected a matching rule")
		}
	}
	if !p.next(":=") {
		return nil, p.fail("expected := in an extensible match")
	}
	if f.Attribute == "" && f.Rule == "" {
		return nil, p.fail("an extensible match needs an attribute description or a matching rule")
	}
	var err error
	f.Value, err = p.value()
	return f, err
}

// value parses a value and resolves its escapes. The value ends before a parenthesis or
// an asterisk, or at the end of the text.
func (p *parser) value() ([]byte, error) {
	v := []byte{}
	start := p.at
	for p.at < len(p.s) {
		run := p.at
		for p.at < len(p.s) && plain(p.s[p.at]) {
			p.at++
		}
		v = append(v, p.s[run:p.at]...)
		if p.at == len(p.s) || p.s[p.at] != '\\' {
			break
		}
		c, ok := hexPair(p.s[p.at+1:])
		if !ok {
			return nil, p.fail("a backslash must be followed by two hex digits; the backslash itself is written as \\5c")
		}
		v = append(v, c)
		p.at += 3
	}
	if !utf8.ValidString(p.s[start:p.at]) {
		p.at = start
		return nil, p.fail("the value is not UTF-8; write other bytes as \\xx")
	}
	if p.at < len(p.s) && p.s[p.at] == 0 {
		return nil, p.fail("a NUL must be written as \\00")
	}
	return v, nil
}

func plain(c byte) bool {
	switch c {
	case '(', ')', '*', '\\', 0:
		return false
	}
	return true
}

func hexPair(s string) (byte, bool) {
	if len(s) < 2 {
		return 0, false
	}
	hi, lo := hexDigit(s[0]), hexDigit(s[1])
	return hi<<4 | lo&15, hi < 16 && lo < 16
}

// hexDigit returns the value of the hex digit c, or 255 if c is not a hex digit.
func hexDigit(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return c | 0x20 - 'a' + 10
	}
	return 255
}
