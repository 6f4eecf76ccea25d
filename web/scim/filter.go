package scim

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// A test is a parsed filter (RFC 7644, 3.4.2.2): one of *both, *either, *not, *compare and *inside.
type test any

type (
	both   struct{ all []test }
	either struct{ all []test }
	not    struct{ of test }
	// compare compares an attribute with a value: a string, a bool, a float64 or nil. The operator "pr" has no value.
	compare struct {
		path     path
		operator string
		value    any
	}
	// inside tests values of a complex attribute.
	inside struct {
		path path
		test test
	}
)

// A path is the path of an attribute: URN:ATTRIBUTE[FILTER].SUB, of which only ATTRIBUTE must be there.
type path struct {
	urn, attribute, sub string
	filter              test // nil: none
}

const (
	maxFilter = 64 << 10 // octets of a filter
	maxDepth  = 64       // parentheses in parentheses
)

// parser parses filters and paths.
type parser struct {
	text  string
	at    int
	depth int
}

// syntaxError is the panic of a parser.
type syntaxError struct{ text string }

func (p *parser) fail(format string, args ...any) {
	panic(syntaxError{fmt.Sprintf(format, args...) + " at character " + strconv.Itoa(p.at+1)})
}

// parse runs f on a text and returns what is wrong with the text, or "".
func parse(text string, f func(*parser)) (wrong string) {
	if len(text) > maxFilter {
		return fmt.Sprintf("it has %d octets, and at most %d are served", len(text), maxFilter)
	}
	defer func() {
		switch e := recover().(type) {
		case nil:
		case syntaxError:
			wrong = e.text
		default:
			panic(e)
		}
	}()
	p := &parser{text: text}
	p.spaces()
	f(p)
	p.spaces()
	if p.at < len(text) {
		p.fail("the end is expected")
	}
	return ""
}

// parseFilter parses a filter.
func parseFilter(text string) (t test, err error) {
	if wrong := parse(text, func(p *parser) { t = p.or() }); wrong != "" {
		return nil, invalid("invalidFilter", "the filter: %s", wrong)
	}
	return t, nil
}

// parsePath parses the path of a PATCH operation.
func parsePath(text string) (x path, err error) {
	if wrong := parse(text, func(p *parser) { x = p.path() }); wrong != "" {
		return x, invalid("invalidPath", "the path %q: %s", short(text), wrong)
	}
	return x, nil
}

func (p *parser) spaces() {
	for p.at < len(p.text) && strings.IndexByte(" \t\r\n", p.text[p.at]) >= 0 {
		p.at++
	}
}

// takes reports whether the text goes on with c, and passes it.
func (p *parser) takes(c byte) bool {
	p.spaces()
	if p.at < len(p.text) && p.text[p.at] == c {
		p.at++
		return true
	}
	return false
}

func (p *parser) must(c byte) {
	if !p.takes(c) {
		p.fail("%q is expected", c)
	}
}

// word returns the word that follows, or "".
func (p *parser) word() string {
	p.spaces()
	start := p.at
	for p.at < len(p.text) && (p.text[p.at] >= '0' && p.text[p.at] <= '9' || p.text[p.at]|0x20 >= 'a' && p.text[p.at]|0x20 <= 'z' || strings.IndexByte("-_$:.", p.text[p.at]) >= 0) {
		p.at++
	}
	return p.text[start:p.at]
}

// keyword reports whether a word follows, in any case, and passes it.
func (p *parser) keyword(word string) bool {
	at := p.at
	if strings.EqualFold(p.word(), word) {
		return true
	}
	p.at = at
	return false
}

func (p *parser) or() test {
	if p.depth++; p.depth > maxDepth {
		p.fail("more than %d parentheses in parentheses", maxDepth)
	}
	all := []test{p.and()}
	for p.keyword("or") {
		all = append(all, p.and())
	}
	p.depth--
	if len(all) == 1 {
		return all[0]
	}
	return &either{all}
}

func (p *parser) and() test {
	all := []test{p.one()}
	for p.keyword("and") {
		all = append(all, p.one())
	}
	if len(all) == 1 {
		return all[0]
	}
	return &both{all}
}

func (p *parser) one() test {
	at := p.at
	if p.keyword("not") {
		if p.takes('(') {
			t := p.or()
			p.must(')')
			return &not{t}
		}
		p.at = at // an attribute of this name
	}
	if p.takes('(') {
		t := p.or()
		p.must(')')
		return t
	}
	x := p.path()
	if x.filter != nil && x.sub == "" {
		return &inside{x, x.filter}
	}
	operator := strings.ToLower(p.word())
	c := &compare{path: x, operator: operator}
	switch operator {
	case "pr":
	case "eq", "ne", "co", "sw", "ew", "gt", "ge", "lt", "le":
		c.value = p.value()
	default:
		p.fail("an operator (eq, ne, co, sw, ew, gt, ge, lt, le, pr) is expected")
	}
	if x.filter == nil {
		return c
	}
	// emails[type eq "work"].value eq "x" is no filter of RFC 7644, but clients send it.
	c.path = path{attribute: x.sub}
	return &inside{x, &both{[]test{x.filter, c}}}
}

// path parses a path. The URN ends at the last colon, so the URN of a schema alone looks like a path in a URN.
func (p *parser) path() (x path) {
	w := p.word()
	if w == "" {
		p.fail("the name of an attribute is expected")
	}
	if i := strings.LastIndexByte(w, ':'); i >= 0 {
		x.urn, w = w[:i], w[i+1:]
	}
	x.attribute, x.sub, _ = strings.Cut(w, ".")
	if x.sub == "" && p.at < len(p.text) && p.text[p.at] == '[' {
		p.at++
		x.filter = p.or()
		p.must(']')
		if p.at < len(p.text) && p.text[p.at] == '.' {
			p.at++
			x.sub = p.word()
		}
	}
	return x
}

func (p *parser) value() any {
	p.spaces()
	d := json.NewDecoder(strings.NewReader(p.text[p.at:]))
	var v any
	if err := d.Decode(&v); err != nil {
		for _, word := range []string{"true", "false"} { // clients write True
			if p.keyword(word) {
				return word == "true"
			}
		}
		p.fail("a value is expected: a string in quotes, true, false, null or a number")
	}
	switch v.(type) {
	case []any, map[string]any:
		p.fail("a simple value is expected")
	}
	p.at += int(d.InputOffset())
	return v
}
