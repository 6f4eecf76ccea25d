package schema

import (
	"fmt"
	"strconv"
	"strings"
)

// A DefinitionError says which definition is wrong, where and how.
type DefinitionError struct {
	Definition string // its first name or OID, or how it begins
	Offset     int    // byte in the text given; -1: the definition as a whole
	Problem    string
}

func (e *DefinitionError) Error() string {
	if e.Offset < 0 {
		return fmt.Sprintf("definition of %s: %s", e.Definition, e.Problem)
	}
	return fmt.Sprintf("definition of %s, byte %d: %s", e.Definition, e.Offset, e.Problem)
}

// element is the sort of thing a definition defines, by the subschema attribute
// that it is a value of.
type element uint8

const (
	attributeTypes element = iota
	objectClasses
	ldapSyntaxes
	matchingRules
	matchingRuleUse
	numElements
)

var elementNames = [numElements]string{
	"attributeTypes", "objectClasses", "ldapSyntaxes", "matchingRules", "matchingRuleUse",
}

// elementAliases are what schema files call the elements besides.
var elementAliases = map[string]element{
	"attributetypes": attributeTypes, "attributetype": attributeTypes, "olcattributetypes": attributeTypes,
	"objectclasses": objectClasses, "objectclass": objectClasses, "olcobjectclasses": objectClasses,
	"ldapsyntaxes": ldapSyntaxes, "ldapsyntax": ldapSyntaxes, "olcldapsyntaxes": ldapSyntaxes,
	"matchingrules": matchingRules, "matchingrule": matchingRules, "matchingruleuse": matchingRuleUse,
}

// A definition is one parsed definition, its references still names.
type definition struct {
	element element

	oid        string
	names      []string
	desc       string
	obsolete   bool
	sup        []string
	equality   string
	ordering   string
	substr     string
	syntax     string
	maxLen     int
	single     bool
	collective bool
	noUserMod  bool
	usage      Usage
	kind       Kind
	must, may  []string
	applies    []string
	extensions []Extension
}

// name is what errors and listings call the definition.
func (d *definition) name() string {
	if len(d.names) > 0 {
		return d.names[0]
	}
	return d.oid
}

// parseLabelled reads "attributeTypes: ( ... )"; the colon may be missing, and
// an index in braces may stand before the parenthesis, as in schema files.
func parseLabelled(text string) (*definition, error) {
	at := strings.IndexByte(text, '(')
	if at < 0 {
		return nil, &DefinitionError{beginning(text), len(text), `no "(" found; write "attributeTypes: ( OID ... )"`}
	}
	label := strings.TrimSpace(text[:at])
	if i := strings.LastIndexByte(label, '{'); i >= 0 && strings.HasSuffix(label, "}") {
		label = strings.TrimSpace(label[:i])
	}
	label = strings.TrimSpace(strings.TrimSuffix(label, ":"))
	e, ok := elementAliases[strings.ToLower(label)]
	if !ok {
		return nil, &DefinitionError{beginning(text), 0, fmt.Sprintf("%q is not one of %s", label, strings.Join(elementNames[:], ", "))}
	}
	return parseAt(e, text, at)
}

// parseDefinition reads one parenthesised definition (RFC 4512, 4.1).
func parseDefinition(e element, text string) (*definition, error) { return parseAt(e, text, 0) }

func parseAt(e element, text string, at int) (*definition, error) {
	p := &parser{text: text, pos: at, def: &definition{element: e, kind: Structural}}
	if err := p.definition(); err != nil {
		return nil, err
	}
	return p.def, nil
}

func beginning(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > 40 {
		text = text[:40] + "..."
	}
	return strconv.Quote(text)
}

// tokenKind sorts the tokens of a definition.
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
	text string // without quotes and escapes
	pos  int
}

// parser reads a definition token by token. Spaces between tokens are optional
// wherever the next token begins unmistakably.
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
	return &DefinitionError{name, pos, fmt.Sprintf(format, args...)}
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

// quoted reads a qdstring, in which \27 is an apostrophe and \5C a backslash.
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
	oid, err := p.oid("the OID")
	if err != nil {
		return err
	}
	p.def.oid = oid
	if err := p.next(); err != nil {
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
	return nil
}

// term reads a keyword and what belongs to it, and the token after that.
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

// grammar has the keywords of each element (RFC 4512, 4.1.1 to 4.1.5). They may
// come in any order, as they do in published files.
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
		s, err := p.oid("a name or OID")
		if err != nil {
			return err
		}
		set(p.def, s)
		return p.next()
	}
}

func oidsTo(set func(*definition, []string)) func(*parser) error {
	return func(p *parser) error {
		oids, err := p.list(true, "a name or OID", validOIDWord)
		if err != nil {
			return err
		}
		set(p.def, oids)
		return nil
	}
}

// oid reads the next token as a name or OID; quotes around it are let pass.
func (p *parser) oid(what string) (string, error) {
	if err := p.next(); err != nil {
		return "", err
	}
	if p.tok.kind != tokenWord && p.tok.kind != tokenQuoted {
		return "", p.fail(p.tok.pos, "expected %s", what)
	}
	if !validOIDWord(p.tok.text) {
		return "", p.fail(p.tok.pos, "%q is neither a name nor an OID", p.tok.text)
	}
	return p.tok.text, nil
}

// validOIDWord takes numeric OIDs and descriptors, and of the latter also those
// with "_", "." or ":" that published files have.
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

// list reads one value or a parenthesised list of them, and the token after.
// Separators ("$" between OIDs, spaces between strings) are not insisted on.
func (p *parser) list(words bool, what string, valid func(string) bool) ([]string, error) {
	var out []string
	if err := p.next(); err != nil {
		return nil, err
	}
	inside := p.tok.kind == tokenOpen
	for {
		switch p.tok.kind {
		case tokenClose:
			if inside {
				return out, p.next()
			}
		case tokenQuoted, tokenWord:
			if p.tok.kind == tokenWord && !words {
				return nil, p.fail(p.tok.pos, "expected %s in quotes", what)
			}
			if !valid(p.tok.text) {
				return nil, p.fail(p.tok.pos, "%q is not %s", p.tok.text, what)
			}
			out = append(out, p.tok.text)
			if !inside {
				return out, p.next()
			}
		case tokenOpen, tokenDollar:
			if inside && (p.tok.kind == tokenDollar || len(out) == 0) {
				break
			}
			return nil, p.fail(p.tok.pos, "expected %s", what)
		}
		if p.tok.kind == tokenEnd || p.tok.kind == tokenClose {
			return nil, p.fail(p.tok.pos, "expected %s", what)
		}
		if err := p.next(); err != nil {
			return nil, err
		}
	}
}

func (p *parser) names() (err error) {
	p.def.names, err = p.list(true, "a name", validOIDWord)
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
	values, err := p.list(false, "a value", func(string) bool { return true })
	p.def.extensions = append(p.def.extensions, Extension{strings.ToUpper(name), values})
	return err
}

// syntax reads noidlen: an OID and perhaps a length in braces.
func (p *parser) syntax() error {
	if err := p.next(); err != nil {
		return err
	}
	at := p.tok.pos
	oid, length, has := strings.Cut(p.tok.text, "{")
	if !validOIDWord(oid) {
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
	n, err := strconv.ParseUint(strings.TrimSuffix(length, "}"), 10, 31)
	if err != nil || !strings.HasSuffix(length, "}") {
		return p.fail(at, "%q is not a length in braces", "{"+length)
	}
	p.def.maxLen = int(n)
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

// splitDefinitions cuts a schema file into labelled definitions. A "#" begins a
// comment where it is the first thing of a line.
func splitDefinitions(text string) []string {
	var out []string
	var b strings.Builder
	depth, quoted := 0, false
	for line := range strings.Lines(text) {
		if depth == 0 && strings.TrimSpace(line) == "" || strings.HasPrefix(strings.TrimSpace(line), "#") {
			continue
		}
		b.WriteString(line)
		for i := 0; i < len(line); i++ {
			switch c := line[i]; {
			case c == '\'':
				quoted = !quoted
			case c == '(' && !quoted:
				depth++
			case c == ')' && !quoted:
				depth--
			}
		}
		if depth <= 0 {
			out = append(out, b.String())
			b.Reset()
			depth, quoted = 0, false
		}
	}
	if b.Len() > 0 {
		out = append(out, b.String())
	}
	return out
}
