package aci

import (
	"fmt"
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/tools/aclimport/draft"
)

// maxDepth is the largest depth of parentheses in a bind rule.
const maxDepth = 100

// Parse parses a value of the attribute aci. The error is an *Error.
func Parse(s string) (*ACI, error) {
	p := &parser{s: s, aci: &ACI{}}
	if err := p.parse(); err != nil {
		return nil, err
	}
	return p.aci, nil
}

// A parser parses one value.
type parser struct {
	s   string
	at  int
	aci *ACI
}

func (p *parser) fail(offset int, format string, args ...any) error {
	return &Error{Offset: offset, Text: fmt.Sprintf(format, args...)}
}

func (p *parser) spaces() {
	for p.at < len(p.s) && strings.IndexByte(" \t\r\n", p.s[p.at]) >= 0 {
		p.at++
	}
}

// take skips spaces, and then the given text in upper or lower case. It reports whether the
// text was there.
func (p *parser) take(text string) bool {
	p.spaces()
	if len(p.s)-p.at < len(text) || !strings.EqualFold(p.s[p.at:p.at+len(text)], text) {
		return false
	}
	p.at += len(text)
	return true
}

func (p *parser) expect(text string) error {
	if !p.take(text) {
		return p.fail(p.at, "expected %q, not %s", text, p.here())
	}
	return nil
}

// The method "here" returns, for messages, the beginning of the text that is not yet parsed.
func (p *parser) here() string {
	rest := p.s[p.at:]
	if rest == "" {
		return "the end"
	}
	if len(rest) > 20 {
		rest = rest[:20] + "..."
	}
	return fmt.Sprintf("%q", rest)
}

// word skips spaces, and then a word of letters, digits and underscores, which may be empty.
// It returns the word in lower case.
func (p *parser) word() string {
	p.spaces()
	start := p.at
	for p.at < len(p.s) && (p.s[p.at]|0x20 >= 'a' && p.s[p.at]|0x20 <= 'z' || p.s[p.at] == '_' || p.at > start && p.s[p.at] >= '0' && p.s[p.at] <= '9') {
		p.at++
	}
	return strings.ToLower(p.s[start:p.at])
}

func (p *parser) parse() error {
	for {
		if err := p.expect("("); err != nil {
			return err
		}
		start := p.at
		word := p.word()
		if word == "version" {
			if err := p.body(); err != nil {
				return err
			}
			break
		}
		if err := p.target(word, start); err != nil {
			return err
		}
	}
	if p.spaces(); p.at < len(p.s) {
		return p.fail(p.at, "the aci ends here, but %s follows", p.here())
	}
	return p.check()
}

// check returns an error if the value has parts that exclude each other.
func (p *parser) check() error {
	if p.aci.Controls != nil || p.aci.Operations != nil {
		if p.aci.Attributes != nil || p.aci.Values != nil {
			return p.fail(0, "a value about controls or extended operations is about no attributes")
		}
	}
	return nil
}

// operator parses = or !=, and also <, <=, > or >= if ordered is set.
func (p *parser) operator(ordered bool) (string, error) {
	p.spaces()
	ops := []string{"!=", "="}
	if ordered {
		ops = []string{"!=", ">=", "<=", "=", ">", "<"}
	}
	for _, op := range ops {
		if p.take(op) {
			if p.at < len(p.s) && p.s[p.at] == '=' {
				return "", p.fail(p.at, "a second =")
			}
			return op, nil
		}
	}
	return "", p.fail(p.at, "expected = or !=, not %s", p.here())
}

// raw returns the text from the parser's position to the closing parenthesis of the
// current group. It also returns the position of this text.
func (p *parser) raw() (string, int, error) {
	p.spaces()
	start, depth, quoted := p.at, 0, false
	for ; p.at < len(p.s); p.at++ {
		switch c := p.s[p.at]; {
		case c == '\\':
			p.at++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '(':
			depth++
		case c == ')':
			if depth == 0 {
				text := strings.TrimSpace(p.s[start:p.at])
				p.at++
				return text, start, nil
			}
			depth--
		}
	}
	p.at = len(p.s)
	if quoted {
		return "", 0, p.fail(start, "a quotation mark is never closed")
	}
	return "", 0, p.fail(start, "the parenthesis before it is never closed")
}

// unquote removes the quotation marks around a text.
func (p *parser) unquote(text string, at int) (string, error) {
	if strings.HasPrefix(text, `"`) != (len(text) > 1 && strings.HasSuffix(text, `"`)) {
		return "", p.fail(at, "a quotation mark at one end only")
	}
	return strings.TrimSpace(strings.Trim(text, `"`)), nil
}

// target parses a target. The parameter word is the keyword with which the target begins, and
// the parameter at is the position of this keyword.
func (p *parser) target(word string, at int) error {
	a := p.aci
	if known, ok := strings.CutSuffix(word, "s"); ok && (known == "targetattr" || known == "targetfilter" || known == "target") {
		word = known // 389 Directory Server looks only at the beginning of the word
	}
	known := []string{"target", "targetattr", "targetfilter", "targattrfilters", "targetattrfilters", "targetscope", "target_to", "target_from", "targetcontrol", "extop"}
	if !slices.Contains(known, word) {
		return p.fail(at, "expected a target or version, not %s", p.show(word))
	}
	op, err := p.operator(false)
	if err != nil {
		return err
	}
	raw, start, err := p.raw()
	if err != nil {
		return err
	}
	not := op == "!="
	twice := false
	switch word {
	case "target":
		twice = a.Target != nil
		a.Target, err = p.dn(raw, start, not)
	case "target_to":
		twice = a.To != nil
		a.To, err = p.dn(raw, start, not)
	case "target_from":
		twice = a.From != nil
		a.From, err = p.dn(raw, start, not)
	case "targetattr":
		twice = a.Attributes != nil
		a.Attributes, err = p.attributes(raw, start, not)
	case "targetfilter":
		twice = a.Filter != nil
		a.Filter, err = p.filter(raw, start, not)
	case "targattrfilters", "targetattrfilters":
		twice = a.Values != nil
		a.Values, err = p.values(raw, start, not)
	case "targetscope":
		twice = a.Scope != ""
		a.Scope, err = p.scope(raw, start)
	case "targetcontrol":
		twice = a.Controls != nil
		a.Controls, err = p.oids(raw, start)
	case "extop":
		twice = a.Operations != nil
		a.Operations, err = p.oids(raw, start)
	}
	if err == nil && twice {
		return p.fail(at, "a second %s", word)
	}
	return err
}

func (p *parser) show(word string) string {
	if word == "" {
		return p.here()
	}
	return fmt.Sprintf("%q", word)
}

func (p *parser) dn(raw string, at int, not bool) (*Target, error) {
	text, err := p.unquote(raw, at)
	if err != nil {
		return nil, err
	}
	dn, ok := AfterURL(text)
	if !ok {
		return nil, p.fail(at, "expected ldap:/// and a DN, not %q", text)
	}
	return &Target{Not: not, DN: dn}, nil
}

// AfterURL returns a text without the beginning ldap:/// or ldaps:///.
func AfterURL(text string) (string, bool) {
	for _, prefix := range []string{"ldap:///", "ldaps:///"} {
		if len(text) >= len(prefix) && strings.EqualFold(text[:len(prefix)], prefix) {
			return strings.TrimSpace(text[len(prefix):]), true
		}
	}
	return "", false
}

// list splits a text at ||. It removes the quotation marks around the whole text or around
// each part.
func (p *parser) list(raw string, at int) ([]string, error) {
	if strings.Count(raw, `"`)%2 != 0 {
		return nil, p.fail(at, "a quotation mark at one end only")
	}
	if strings.Count(raw, `"`) == 2 && strings.HasPrefix(raw, `"`) && strings.HasSuffix(raw, `"`) {
		raw = raw[1 : len(raw)-1]
	}
	var all []string
	for part := range strings.SplitSeq(raw, "||") {
		part, err := p.unquote(strings.TrimSpace(part), at)
		if err != nil {
			return nil, err
		}
		all = append(all, part)
	}
	return all, nil
}

func (p *parser) attributes(raw string, at int, not bool) (*Attributes, error) {
	names, err := p.list(raw, at)
	if err != nil {
		return nil, err
	}
	a := &Attributes{Not: not}
	for _, n := range names {
		if n == "" && len(names) == 1 {
			return a, nil
		}
		if !isDescription(n) {
			return nil, p.fail(at, "%q is no attribute", n)
		}
		a.Names = append(a.Names, n)
	}
	return a, nil
}

func isDescription(s string) bool {
	return s != "" && strings.IndexFunc(s, func(r rune) bool {
		return r >= 0x80 || !('a' <= r|0x20 && r|0x20 <= 'z' || '0' <= r && r <= '9' || strings.ContainsRune("-.;*+_", r))
	}) < 0
}

func (p *parser) filter(raw string, at int, not bool) (*Filter, error) {
	text, err := p.unquote(raw, at)
	if err != nil {
		return nil, err
	}
	f, err := draft.ParseFilter(text)
	if err != nil {
		return nil, p.fail(at, "%v", err)
	}
	return &Filter{Not: not, Filter: f}, nil
}

func (p *parser) scope(raw string, at int) (string, error) {
	text, err := p.unquote(raw, at)
	if err != nil {
		return "", err
	}
	text = strings.ToLower(text)
	if !slices.Contains([]string{"base", "onelevel", "subtree", "subordinate"}, text) {
		return "", p.fail(at, "the scope %q is none of base, onelevel, subtree, subordinate", text)
	}
	return text, nil
}

func (p *parser) oids(raw string, at int) ([]string, error) {
	all, err := p.list(raw, at)
	for _, oid := range all {
		if oid == "" || strings.Trim(oid, "0123456789.*") != "" {
			return nil, p.fail(at, "%q is no OID", oid)
		}
	}
	return all, err
}

// values parses the value of targattrfilters, such as
// "add=title:(title=a) && cn:(cn=b), del=title:(title=c)".
func (p *parser) values(raw string, at int, not bool) (*Values, error) {
	text, err := p.unquote(raw, at)
	if err != nil {
		return nil, err
	}
	v := &Values{Not: not}
	for rest := text; ; {
		word, after, ok := strings.Cut(rest, "=")
		list := &v.Add
		switch strings.ToLower(strings.TrimSpace(word)) {
		case "add":
		case "del", "delete":
			list = &v.Del
		default:
			ok = false
		}
		if !ok || *list != nil {
			return nil, p.fail(at, "expected add= and del=, each once, not %q", rest)
		}
		if *list, rest, err = p.valueFilters(after, at); err != nil {
			return nil, err
		}
		if rest == "" {
			return v, nil
		}
	}
}

// valueFilters parses filters of values up to the comma before the next list, and returns
// what follows the comma.
func (p *parser) valueFilters(text string, at int) (all []ValueFilter, rest string, err error) {
	for {
		name, after, ok := strings.Cut(text, ":")
		name, after = strings.TrimSpace(name), strings.TrimSpace(after)
		if !ok || !isDescription(name) || strings.ContainsAny(name, "*+") || !strings.HasPrefix(after, "(") {
			return nil, "", p.fail(at, "expected an attribute, a colon and a filter, not %q", text)
		}
		size := closing(after)
		if size < 0 {
			return nil, "", p.fail(at, "the parenthesis at %q is never closed", after)
		}
		f, err := draft.ParseFilter(after[:size])
		if err != nil {
			return nil, "", p.fail(at, "%v", err)
		}
		all = append(all, ValueFilter{name, f})
		text = strings.TrimSpace(after[size:])
		switch {
		case text == "":
			return all, "", nil
		case strings.HasPrefix(text, "&&"):
			text = text[2:]
		case strings.HasPrefix(text, ",") && strings.TrimSpace(text[1:]) != "":
			return all, strings.TrimSpace(text[1:]), nil
		default:
			return nil, "", p.fail(at, "expected && or a comma, not %q", text)
		}
	}
}

// closing returns the length of the group in parentheses with which a text begins. It
// returns -1 if the group is not closed.
func closing(text string) int {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '(':
			depth++
		case ')':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return -1
}

// body parses what follows the word "version".
func (p *parser) body() error {
	for _, text := range []string{"3.0", ";"} {
		if err := p.expect(text); err != nil {
			return err
		}
	}
	at := p.at
	if word := p.word(); word != "acl" && word != "aci" {
		return p.fail(at, "expected acl and a name, not %s", p.show(word))
	}
	var err error
	if p.aci.Name, err = p.quoted(); err != nil {
		return err
	}
	if err := p.expect(";"); err != nil {
		return err
	}
	for !p.take(")") {
		c, err := p.clause()
		if err != nil {
			return err
		}
		p.aci.Clauses = append(p.aci.Clauses, c)
	}
	if len(p.aci.Clauses) == 0 {
		return p.fail(p.at, "nothing is allowed or denied")
	}
	return nil
}

// quoted parses a text in quotation marks.
func (p *parser) quoted() (string, error) {
	if err := p.expect(`"`); err != nil {
		return "", err
	}
	start := p.at
	for ; p.at < len(p.s); p.at++ {
		switch p.s[p.at] {
		case '\\':
			p.at++
		case '"':
			p.at++
			return p.s[start : p.at-1], nil
		}
	}
	p.at = len(p.s)
	return "", p.fail(start-1, "the quotation mark is never closed")
}

func (p *parser) clause() (c Clause, err error) {
	p.spaces()
	at := p.at
	switch word := p.word(); word {
	case "allow":
	case "deny":
		c.Deny = true
		p.take("absolute")
	default:
		return c, p.fail(at, "expected allow or deny, not %s", p.show(word))
	}
	if c.Rights, err = p.rights(); err != nil {
		return c, err
	}
	if c.Bind, err = p.bind(0); err != nil {
		return c, err
	}
	return c, p.expect(";")
}

func (p *parser) rights() (all Rights, err error) {
	if err := p.expect("("); err != nil {
		return 0, err
	}
	for {
		p.spaces()
		at := p.at
		word := p.word()
		r, ok := rightWords[word]
		if !ok {
			return 0, p.fail(at, "expected a right, not %s", p.show(word))
		}
		all |= r
		if p.take(")") {
			return all, nil
		}
		if err := p.expect(","); err != nil {
			return 0, err
		}
	}
}

// bind parses a bind rule. The operators "and" and "or" have the same precedence and group
// to the right: "a and b or c" means "a and (b or c)".
func (p *parser) bind(depth int) (Bind, error) {
	left, err := p.factor(depth)
	if err != nil {
		return nil, err
	}
	before := p.at
	switch p.word() {
	case "and":
		right, err := p.bind(depth + 1)
		return &And{left, right}, err
	case "or":
		right, err := p.bind(depth + 1)
		return &Or{left, right}, err
	}
	p.at = before
	return left, nil
}

func (p *parser) factor(depth int) (Bind, error) {
	if depth > maxDepth {
		return nil, p.fail(p.at, "a bind rule of more than %d levels", maxDepth)
	}
	if p.take("(") {
		b, err := p.bind(depth + 1)
		if err != nil {
			return nil, err
		}
		return b, p.expect(")")
	}
	p.spaces()
	at := p.at
	word := p.word()
	if word == "not" {
		b, err := p.factor(depth + 1)
		return &Not{b}, err
	}
	if !slices.Contains(keywords, word) {
		return nil, p.fail(at, "expected a bind rule, not %s", p.show(word))
	}
	return p.keyword(word)
}

func (p *parser) keyword(word string) (Bind, error) {
	ordered := word == "timeofday" || word == "ssf"
	op, err := p.operator(ordered)
	if err != nil {
		return nil, err
	}
	k := &Keyword{Name: word, Op: op}
	for {
		p.spaces()
		at := p.at
		text, err := p.quoted()
		if err != nil {
			return nil, err
		}
		for part := range strings.SplitSeq(text, "||") {
			part = strings.TrimSpace(part)
			if err := p.checkOperand(word, part, at); err != nil {
				return nil, err
			}
			k.Values = append(k.Values, part)
		}
		if !p.take("||") {
			return k, nil
		}
	}
}

// checkOperand returns an error if a text is not a valid operand of a keyword.
func (p *parser) checkOperand(word, text string, at int) error {
	switch word {
	case "userdn", "groupdn", "roledn":
		if _, ok := AfterURL(text); !ok {
			return p.fail(at, "expected ldap:/// and a DN, not %q", text)
		}
	case "userattr":
		if name, value, ok := strings.Cut(text, "#"); !ok || name == "" || value == "" {
			return p.fail(at, "expected an attribute, # and a value, not %q", text)
		}
	default:
		if text == "" {
			return p.fail(at, "expected what %s is compared with", word)
		}
	}
	return nil
}
