package schema

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// tokenKind is the kind of a token in a definition.
type tokenKind uint8

const (
	tokenEnd tokenKind = iota
	tokenOpen
	tokenClose
	tokenDollar
	tokenQuoted
	tokenWord
)

type token struct {
	kind tokenKind
	text string // the text of the token without quotes and escapes
	pos  int
}

// parser parses a definition token by token. Spaces between two tokens are optional if
// the tokens can be distinguished without them.
type parser struct {
	text string
	pos  int
	tok  token
	def  *definition
}

func (p *parser) fail(pos int, format string, args ...any) error {
	name := p.def.name()
	if name == "" {
		name = beginning(p.text)
	}
	return &DefinitionError{Definition: name, Offset: pos, Problem: fmt.Sprintf(format, args...)}
}

func (p *parser) next() error {
	for p.pos < len(p.text) && isSpace(p.text[p.pos]) {
		p.pos++
	}
	p.tok = token{pos: p.pos}
	if p.pos == len(p.text) {
		return nil
	}
	switch p.text[p.pos] {
	case '(':
		p.tok.kind = tokenOpen
	case ')':
		p.tok.kind = tokenClose
	case '$':
		p.tok.kind = tokenDollar
	case '\'':
		return p.quoted()
	default:
		p.word()
		return nil
	}
	p.pos++
	return nil
}

func isSpace(c byte) bool { return c == ' ' || '\t' <= c && c <= '\r' }

func (p *parser) word() {
	start := p.pos
	for p.pos < len(p.text) && !isSpace(p.text[p.pos]) && !strings.ContainsRune("()$'", rune(p.text[p.pos])) {
		p.pos++
	}
	p.tok.kind, p.tok.text = tokenWord, p.text[start:p.pos]
}

// quoted parses a qdstring. In the text, \27 is an apostrophe and \5C is a backslash.
func (p *parser) quoted() error {
	start := p.pos + 1
	end := strings.IndexByte(p.text[start:], '\'')
	if end < 0 {
		return p.fail(p.pos, "quoted string without end")
	}
	p.pos = start + end + 1
	p.tok.kind, p.tok.text = tokenQuoted, unescapeQuoted(p.text[start:start+end])
	return nil
}

var quotedUnescaper = strings.NewReplacer(`\27`, "'", `\5c`, `\`, `\5C`, `\`)
var quotedEscaper = strings.NewReplacer("'", `\27`, `\`, `\5C`)

func unescapeQuoted(s string) string {
	if strings.IndexByte(s, '\\') < 0 {
		return s
	}
	return quotedUnescaper.Replace(s)
}

func (p *parser) definition() error {
	if err := p.next(); err != nil {
		return err
	}
	if p.tok.kind != tokenOpen {
		return p.fail(p.tok.pos, `expected "("`)
	}
	if err := p.first(); err != nil {
		return err
	}
	for p.tok.kind == tokenWord {
		if err := p.term(); err != nil {
			return err
		}
	}
	if p.tok.kind != tokenClose {
		return p.fail(p.tok.pos, `expected a keyword or ")"`)
	}
	if err := p.next(); err != nil {
		return err
	}
	if p.tok.kind != tokenEnd {
		return p.fail(p.tok.pos, "text after the definition's end")
	}
	return p.complete()
}

// The method "first" parses the first component: an OID, or the number of a DIT structure rule.
func (p *parser) first() error {
	if err := p.next(); err != nil {
		return err
	}
	of := oidItems
	if p.def.element == dITStructureRules {
		of = ruleItems
	}
	var err error
	if p.def.oid, err = p.item(of); err != nil {
		return err
	}
	return p.next()
}

// complete returns an error if a name form or a DIT structure rule lacks a mandatory term.
func (p *parser) complete() error {
	d := p.def
	for _, x := range []struct {
		element element
		missing bool
		keyword string
	}{
		{nameForms, d.class == "", "OC"},
		{nameForms, len(d.must) == 0, "MUST"},
		{dITStructureRules, d.form == "", "FORM"},
	} {
		if d.element == x.element && x.missing {
			return p.fail(len(p.text), "%s is missing", x.keyword)
		}
	}
	return nil
}

// term parses a keyword and its operands, and then reads the token after them.
func (p *parser) term() error {
	keyword := p.tok
	name := strings.ToUpper(keyword.text)
	if strings.HasPrefix(name, "X-") {
		return p.extension(keyword.text)
	}
	read, ok := grammar[p.def.element][name]
	if !ok {
		return p.fail(keyword.pos, "unknown keyword %q", keyword.text)
	}
	return read(p)
}

// grammar contains the keywords of each kind of definition (RFC 4512, 4.1.1 to 4.1.7).
// The keywords may be in any order, as in published files.
var grammar = [numElements]map[string]func(*parser) error{
	attributeTypes: {
		"NAME": (*parser).names, "DESC": (*parser).desc, "OBSOLETE": flag(func(d *definition) { d.obsolete = true }),
		"SUP":                  oidTo(func(d *definition, s string) { d.sup = []string{s} }),
		"EQUALITY":             oidTo(func(d *definition, s string) { d.equality = s }),
		"ORDERING":             oidTo(func(d *definition, s string) { d.ordering = s }),
		"SUBSTR":               oidTo(func(d *definition, s string) { d.substr = s }),
		"SYNTAX":               (*parser).syntax,
		"SINGLE-VALUE":         flag(func(d *definition) { d.single = true }),
		"COLLECTIVE":           flag(func(d *definition) { d.collective = true }),
		"NO-USER-MODIFICATION": flag(func(d *definition) { d.noUserMod = true }),
		"USAGE":                (*parser).usage,
	},
	objectClasses: {
		"NAME": (*parser).names, "DESC": (*parser).desc, "OBSOLETE": flag(func(d *definition) { d.obsolete = true }),
		"SUP":        oidsTo(func(d *definition, s []string) { d.sup = s }),
		"ABSTRACT":   flag(func(d *definition) { d.kind = Abstract }),
		"STRUCTURAL": flag(func(d *definition) { d.kind = Structural }),
		"AUXILIARY":  flag(func(d *definition) { d.kind = Auxiliary }),
		"MUST":       oidsTo(func(d *definition, s []string) { d.must = s }),
		"MAY":        oidsTo(func(d *definition, s []string) { d.may = s }),
	},
	dITContentRules: {
		"NAME": (*parser).names, "DESC": (*parser).desc, "OBSOLETE": flag(func(d *definition) { d.obsolete = true }),
		"AUX":  oidsTo(func(d *definition, s []string) { d.aux = s }),
		"MUST": oidsTo(func(d *definition, s []string) { d.must = s }),
		"MAY":  oidsTo(func(d *definition, s []string) { d.may = s }),
		"NOT":  oidsTo(func(d *definition, s []string) { d.not = s }),
	},
	nameForms: {
		"NAME": (*parser).names, "DESC": (*parser).desc, "OBSOLETE": flag(func(d *definition) { d.obsolete = true }),
		"OC":   oidTo(func(d *definition, s string) { d.class = s }),
		"MUST": oidsTo(func(d *definition, s []string) { d.must = s }),
		"MAY":  oidsTo(func(d *definition, s []string) { d.may = s }),
	},
	dITStructureRules: {
		"NAME": (*parser).names, "DESC": (*parser).desc, "OBSOLETE": flag(func(d *definition) { d.obsolete = true }),
		"FORM": oidTo(func(d *definition, s string) { d.form = s }),
		"SUP":  (*parser).superiorRules,
	},
	ldapSyntaxes: {"DESC": (*parser).desc, "NAME": (*parser).names},
	matchingRules: {
		"NAME": (*parser).names, "DESC": (*parser).desc, "OBSOLETE": flag(func(d *definition) { d.obsolete = true }),
		"SYNTAX": (*parser).syntax,
	},
	matchingRuleUse: {
		"NAME": (*parser).names, "DESC": (*parser).desc, "OBSOLETE": flag(func(d *definition) { d.obsolete = true }),
		"APPLIES": oidsTo(func(d *definition, s []string) { d.applies = s }),
	},
}

func flag(set func(*definition)) func(*parser) error {
	return func(p *parser) error {
		set(p.def)
		return p.next()
	}
}

func oidTo(set func(*definition, string)) func(*parser) error {
	return func(p *parser) error {
		s, err := p.oid()
		if err != nil {
			return err
		}
		set(p.def, s)
		return p.next()
	}
}

func oidsTo(set func(*definition, []string)) func(*parser) error {
	return func(p *parser) error {
		oids, err := p.list(oidItems)
		if err != nil {
			return err
		}
		set(p.def, oids)
		return nil
	}
}

// oid parses the next token as a name or OID. The token may be in quotes.
func (p *parser) oid() (string, error) {
	if err := p.next(); err != nil {
		return "", err
	}
	return p.item(oidItems)
}

// validInFile is validOIDWord, but accepts numbers with leading zeros in OIDs, as slapd does,
// because published files contain them.
func validInFile(s string) bool { return validOIDWord(s) || numericOID(s, true) }

// validOIDWord reports whether s is a numeric OID or a descriptor. It also accepts the
// characters "_", "." and ":" in descriptors, because published files contain them.
func validOIDWord(s string) bool {
	if s == "" {
		return false
	}
	if s[0] >= '0' && s[0] <= '9' {
		return validNumericOID(s)
	}
	for i := 0; i < len(s); i++ {
		c := s[i]
		if !isAlnum(c) && c != '-' && c != '_' && c != '.' && c != ':' || i == 0 && !isAlpha(c) {
			return false
		}
	}
	return true
}

// items describes the items of a list in a definition.
type items struct {
	what  string // description of an item, for errors
	words bool   // quotes are optional
	valid func(string) bool
}

var (
	oidItems   = items{"a name or OID", true, validInFile}
	ruleItems  = items{"a rule number", true, validRuleID}
	firstItems = items{"an OID, a name or a rule number", true, func(s string) bool { return validRuleID(s) || validInFile(s) }}
	nameItems  = items{"a name", true, validOIDWord}
	valueItems = items{"a value", false, func(string) bool { return true }}
)

// list parses one item or a list in parentheses, and then reads the token after it. The
// separators are optional: "$" between OIDs, and spaces between strings.
func (p *parser) list(of items) ([]string, error) {
	if err := p.next(); err != nil {
		return nil, err
	}
	if p.tok.kind != tokenOpen {
		s, err := p.item(of)
		if err != nil {
			return nil, err
		}
		return []string{s}, p.next()
	}
	var out []string
	for {
		if err := p.next(); err != nil {
			return nil, err
		}
		switch p.tok.kind {
		case tokenClose:
			return out, p.next()
		case tokenDollar:
			continue
		}
		s, err := p.item(of)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
}

// item returns the current token as an item of a list.
func (p *parser) item(of items) (string, error) {
	switch {
	case p.tok.kind == tokenWord && !of.words:
		return "", p.fail(p.tok.pos, "expected %s in quotes", of.what)
	case p.tok.kind != tokenWord && p.tok.kind != tokenQuoted:
		return "", p.fail(p.tok.pos, "expected %s", of.what)
	case !of.valid(p.tok.text):
		return "", p.fail(p.tok.pos, "%q is not %s", p.tok.text, of.what)
	}
	return p.tok.text, nil
}

// validRuleID reports whether s is a valid number of a DIT structure rule (RFC 4512,
// 4.1.7.1).
func validRuleID(s string) bool {
	_, err := strconv.ParseUint(s, 10, 31)
	return err == nil && isDigit(s[0]) && (s[0] != '0' || s == "0")
}

func (p *parser) superiorRules() (err error) {
	p.def.sup, err = p.list(ruleItems)
	return err
}

func (p *parser) names() (err error) {
	p.def.names, err = p.list(nameItems)
	return err
}

func (p *parser) desc() error {
	if err := p.next(); err != nil {
		return err
	}
	if p.tok.kind != tokenQuoted {
		return p.fail(p.tok.pos, "expected a description in quotes")
	}
	p.def.desc = p.tok.text
	return p.next()
}

func (p *parser) extension(name string) error {
	values, err := p.list(valueItems)
	p.def.extensions = append(p.def.extensions, Extension{strings.ToUpper(name), values})
	return err
}

// syntax parses a noidlen: an OID, optionally followed by a length in braces.
func (p *parser) syntax() error {
	if err := p.next(); err != nil {
		return err
	}
	at := p.tok.pos
	oid, length, has := strings.Cut(p.tok.text, "{")
	if !validInFile(oid) {
		return p.fail(at, "%q is not a syntax OID", p.tok.text)
	}
	p.def.syntax = oid
	if err := p.next(); err != nil {
		return err
	}
	if !has && p.tok.kind == tokenWord && strings.HasPrefix(p.tok.text, "{") {
		length, has = p.tok.text[1:], true
		if err := p.next(); err != nil {
			return err
		}
	}
	if !has {
		return nil
	}
	n, err := strconv.Atoi(strings.TrimSuffix(length, "}"))
	if err != nil && !errors.Is(err, strconv.ErrRange) || length == "" || !isDigit(length[0]) || !strings.HasSuffix(length, "}") {
		return p.fail(at, "%q is not a length in braces", "{"+length)
	}
	p.def.maxLen = n // of a number that is too large for an int: the largest int
	return nil
}

var usageNames = [...]string{
	UserApplications:     "userApplications",
	DirectoryOperation:   "directoryOperation",
	DistributedOperation: "distributedOperation",
	DSAOperation:         "dSAOperation",
}

func (p *parser) usage() error {
	if err := p.next(); err != nil {
		return err
	}
	for u, name := range usageNames {
		if strings.EqualFold(name, p.tok.text) {
			p.def.usage = Usage(u)
			return p.next()
		}
	}
	return p.fail(p.tok.pos, "%q is not a usage", p.tok.text)
}
