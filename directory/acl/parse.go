package acl

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-4dac0d86/ldapd/filter"
)

// MaxRule is the maximum length of a rule in bytes.
const MaxRule = 16 << 10

// Parse parses a rule. The error is an *Error.
func Parse(s string) (*Rule, error) {
	p := &parser{lexer: lexer{s: s}, rule: &Rule{}}
	if len(s) > MaxRule {
		return nil, p.lexer.fail(0, "%d bytes are more than the %d that a rule may have", len(s), MaxRule)
	}
	if err := p.name(); err != nil {
		return nil, err
	}
	if err := p.parse(); err != nil {
		return nil, err
	}
	return p.rule, nil
}

// A parser parses one rule with one token of lookahead.
type parser struct {
	lexer lexer
	token token
	rule  *Rule
}

func (p *parser) fail(format string, args ...any) error {
	return p.lexer.fail(p.token.at, format, args...)
}

func (p *parser) advance() (err error) {
	p.token, err = p.lexer.next()
	return err
}

// The method "is" reports whether the current token is one of the words.
func (p *parser) is(words ...string) bool {
	return p.token.kind == word && slices.ContainsFunc(words, func(w string) bool { return strings.EqualFold(w, p.token.text) })
}

// take reports whether the current token is the word w. If so, it skips the token.
func (p *parser) take(w string) (bool, error) {
	if !p.is(w) {
		return false, nil
	}
	return true, p.advance()
}

// name parses the name of the rule and the colon after the name.
func (p *parser) name() error {
	s := p.lexer.s
	start := len(s) - len(strings.TrimLeft(s, " \t\r\n"))
	size := strings.IndexByte(s[start:], ':')
	if size < 0 {
		return p.lexer.fail(start, "a rule begins with its name and a colon")
	}
	name := strings.TrimSpace(s[start : start+size])
	if name == "" || len(name) > 64 || strings.IndexFunc(name, func(r rune) bool {
		return r >= 0x80 || r == ':' || r == '/' || !isWord(byte(r))
	}) >= 0 {
		return p.lexer.fail(start, "the name of a rule is 1 to 64 letters, digits, and any of - . _")
	}
	p.rule.Name = name
	p.lexer.at = start + size + 1
	return p.advance()
}

func (p *parser) parse() error {
	switch {
	case p.is("allow"):
	case p.is("deny"):
		p.rule.Deny = true
	default:
		return p.fail("expected allow or deny, not %s", p.token)
	}
	err := p.advance()
	steps := []func() error{p.who, p.parts, p.what, p.conditions, p.why}
	for i := 0; err == nil && i < len(steps); i++ {
		err = steps[i]()
	}
	return err
}

// listOf parses items separated by commas. It stops at a comma that is followed by the
// "to" of another part.
func listOf[T any](p *parser, item func() (T, error)) ([]T, error) {
	var all []T
	for {
		v, err := item()
		if err != nil {
			return nil, err
		}
		all = append(all, v)
		if p.token.kind != comma {
			return all, nil
		}
		before, at := p.lexer, p.token
		if err := p.advance(); err != nil {
			return nil, err
		}
		if p.is("to") {
			p.lexer, p.token = before, at
			return all, nil
		}
	}
}

// exceptions parses "except" and the items after it, if the current token is "except".
func exceptions[T any](p *parser, item func() (T, error)) ([]T, error) {
	if there, err := p.take("except"); !there || err != nil {
		return nil, err
	}
	return listOf(p, item)
}

func (p *parser) who() (err error) {
	w := &p.rule.Who
	if w.Any, err = listOf(p, p.term); err != nil {
		return err
	}
	w.Except, err = exceptions(p, p.term)
	return err
}

func (p *parser) term() (t Term, err error) {
	for {
		s, err := p.subject()
		if err != nil {
			return nil, err
		}
		t = append(t, s)
		if there, err := p.take("and"); !there || err != nil {
			return t, err
		}
	}
}

// plainSubjects are the subjects that consist of one word.
var plainSubjects = map[string]SubjectKind{"everyone": Everyone, "anonymous": Anonymous, "users": Users, "self": Self, "nobody": Nobody}

func (p *parser) subject() (s Subject, err error) {
	if p.token.kind == quoted {
		s.Kind = Named
		s.Name, err = p.quoted("a name")
		return s, err
	}
	if p.token.kind == word {
		if kind, ok := plainSubjects[strings.ToLower(p.token.text)]; ok {
			s.Kind = kind
			return s, p.advance()
		}
	}
	at := p.token
	switch {
	case p.is("below"):
		return p.below()
	case p.is("group"):
		return p.group()
	case p.is("its"):
		return p.its()
	case p.is("same"):
		if err := p.advance(); err != nil {
			return s, err
		}
		s.Kind = Same
		s.Attribute, err = p.description()
		return s, err
	}
	p.token = at
	return s, p.fail("expected whom the rule is for (everyone, anonymous, users, self, nobody, a name in quotes, below, group, its, same), not %s", p.token)
}

func (p *parser) below() (s Subject, err error) {
	s.Kind = Below
	if err = p.advance(); err != nil {
		return s, err
	}
	if s.Name, err = p.quoted("the name above"); err != nil {
		return s, err
	}
	s.Filter, err = p.filter()
	return s, err
}

func (p *parser) group() (s Subject, err error) {
	if err = p.advance(); err != nil {
		return s, err
	}
	if p.is("its") {
		if s, err = p.its(); err == nil && s.Kind == ItsSuperior {
			return s, p.fail("superiors are no group")
		}
		s.Group = true
		return s, err
	}
	s.Kind = Group
	s.Name, err = p.quoted("the name of the group, or its")
	return s, err
}

// The method "its" parses "its ATTR", "its parent", "its parent's ATTR" and "its superiors".
func (p *parser) its() (s Subject, err error) {
	if err = p.advance(); err != nil {
		return s, err
	}
	switch {
	case p.is("parent"):
		s.Kind = ItsParent
		return s, p.advance()
	case p.is("superiors"):
		s.Kind = ItsSuperior
		return s, p.advance()
	case p.is("parent's"):
		s.Kind = ItsParents
		if err = p.advance(); err != nil {
			return s, err
		}
	default:
		s.Kind = Its
	}
	s.Attribute, err = p.description()
	return s, err
}

// quoted parses a quoted text. Errors refer to the text by the given name.
func (p *parser) quoted(name string) (string, error) {
	if p.token.kind != quoted || p.token.text == "" {
		return "", p.fail("expected %s in quotes, not %s", name, p.token)
	}
	text := p.token.text
	return text, p.advance()
}

// keywords are words that cannot be attributes. A keyword ends a list of attributes.
var keywords = []string{"to", "in", "if", "and", "except", "not"}

// description parses an attribute description.
func (p *parser) description() (string, error) {
	if p.token.kind != word || p.is(keywords...) || !isDescription(p.token.text) {
		return "", p.fail("expected an attribute, not %s", p.token)
	}
	text := p.token.text
	return text, p.advance()
}

func isDescription(s string) bool {
	return !strings.ContainsAny(s, "*+@:/'_")
}

// filter parses a filter. It returns nil if the current token is not a filter.
func (p *parser) filter() (filter.Filter, error) {
	if p.token.kind != parens {
		return nil, nil
	}
	f, err := filter.Parse(p.token.text)
	if err != nil {
		return nil, p.fail("%v", err)
	}
	return f, p.advance()
}

func (p *parser) parts() (err error) {
	if !p.is("to") {
		return p.fail("expected to and a right, not %s", p.token)
	}
	for {
		part, err := p.part()
		if err != nil {
			return err
		}
		p.rule.Parts = append(p.rule.Parts, part)
		if p.token.kind != comma {
			return nil
		}
		if err := p.advance(); err != nil {
			return err
		}
		if !p.is("to") {
			return p.fail("expected an attribute, or to and another right, not %s", p.token)
		}
	}
}

func (p *parser) part() (part Part, err error) {
	if err = p.advance(); err != nil {
		return part, err
	}
	rights, err := listOf(p, p.right)
	if err != nil {
		return part, err
	}
	for _, r := range rights {
		part.Rights |= r
	}
	if part.Attributes, err = p.attributes(); err != nil || part.Attributes == nil {
		return part, err
	}
	if there, err := p.take("except"); !there || err != nil {
		return part, err
	}
	if part.Except, err = p.attributes(); err == nil && part.Except == nil {
		err = p.fail("expected the attributes that are excepted, not %s", p.token)
	}
	return part, err
}

func (p *parser) right() (Rights, error) {
	if p.token.kind == word {
		if r, ok := rightsOf(p.token.text); ok {
			return r, p.advance()
		}
	}
	return 0, p.fail("expected a right (%s), not %s", words(), p.token)
}

// attributes parses a list of attributes. It returns nil if the current token does not
// begin an attribute.
func (p *parser) attributes() ([]Attribute, error) {
	if p.token.kind != word || p.is(keywords...) {
		return nil, nil
	}
	return listOf(p, p.attribute)
}

func (p *parser) attribute() (a Attribute, err error) {
	if p.token.kind != word || p.is(keywords...) {
		return a, p.fail("expected an attribute, not %s", p.token)
	}
	a.Description = p.token.text
	special := a.Description == "*" || a.Description == "+" || strings.HasPrefix(a.Description, "@") && isDescription(a.Description[1:])
	if !special && !isDescription(a.Description) {
		return a, p.fail("%s is no attribute", a.Description)
	}
	if err = p.advance(); err != nil || !p.token.glued || p.token.kind != equals && p.token.kind != parens {
		return a, err
	}
	if special {
		return a, p.fail("values can be chosen of one attribute, not of %s", a.Description)
	}
	if p.token.kind == parens {
		a.Filter, err = p.filter()
		return a, err
	}
	return a, p.value(&a)
}

// value parses the text after the equals sign of an attribute.
func (p *parser) value(a *Attribute) error {
	if err := p.advance(); err != nil {
		return err
	}
	switch {
	case p.is("self"):
		a.Self = true
	case p.token.kind == quoted:
		v := unquoteValue(p.token.text)
		a.Value = &v
	default:
		return p.fail("expected self or a value in quotes, not %s", p.token)
	}
	return p.advance()
}

func unquoteValue(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

func (p *parser) what() error {
	there, err := p.take("in")
	if !there || err != nil {
		return err
	}
	w := &What{}
	if w.Any, err = listOf(p, p.target); err != nil {
		return err
	}
	w.Except, err = exceptions(p, p.target)
	p.rule.In = w
	return err
}

func (p *parser) target() (t Target, err error) {
	at := p.token
	for scope, w := range scopeWords {
		if p.is(w) {
			t.Scope = scope
		}
	}
	if t.Scope != Subtree {
		if err = p.advance(); err != nil {
			return t, err
		}
	}
	if p.token.kind == quoted {
		if t.Scope == This {
			return t, p.fail("this is the rule's place alone, and takes no name; only takes one")
		}
		if t.Pattern, err = p.quoted("a name"); err != nil {
			return t, err
		}
	}
	if t.Scope == Only && t.Pattern == "" {
		return t, p.fail("expected the name of the only entry, in quotes, not %s", p.token)
	}
	if t.Filter, err = p.filter(); err != nil {
		return t, err
	}
	if t.Scope == Subtree && t.Pattern == "" && t.Filter == nil {
		p.token = at
		return t, p.fail("expected entries (this, only, children, below, a name in quotes, a filter), not %s", p.token)
	}
	return t, nil
}

func (p *parser) conditions() error {
	there, err := p.take("if")
	for there && err == nil {
		var c Condition
		if c, err = p.condition(); err != nil {
			break
		}
		p.rule.If = append(p.rule.If, c)
		there, err = p.take("and")
	}
	return err
}

func (p *parser) condition() (c Condition, err error) {
	if c.Not, err = p.take("not"); err != nil {
		return c, err
	}
	known := false
	for kind, w := range conditionWords {
		if p.is(w) {
			c.Kind, known = kind, true
		}
	}
	if !known {
		return c, p.fail("expected a condition (secure, local, proxied, ssf, address, mechanism, time, day), not %s", p.token)
	}
	if err = p.advance(); err != nil {
		return c, err
	}
	switch c.Kind {
	case SSF, Address, Mechanism, TimeOfDay, Weekday:
		if p.token.kind != word || p.is(keywords...) {
			return c, p.fail("expected what %s is compared with, not %s", conditionWords[c.Kind], p.token)
		}
		if err = p.operand(&c); err == nil {
			err = p.advance()
		}
	}
	return c, err
}

// operand parses the operand of the condition c.
func (p *parser) operand(c *Condition) (err error) {
	text := p.token.text
	switch c.Kind {
	case SSF:
		if c.SSF, err = strconv.Atoi(text); err != nil || c.SSF < 0 {
			return p.fail("%s is no strength: a number of bits from 0 on", text)
		}
	case Address:
		if c.Network, err = parseNetwork(text); err != nil {
			return p.fail("%s is neither an address nor a network such as 10.1.0.0/16", text)
		}
	case Mechanism:
		c.Mechanism = strings.ToLower(text)
	case TimeOfDay:
		return p.hours(c)
	case Weekday:
		from, to, ranged := strings.Cut(strings.ToLower(text), "-")
		if !ranged {
			to = from
		}
		c.From, c.To = slices.Index(dayWords, from), slices.Index(dayWords, to)
		if c.From < 0 || c.To < 0 {
			return p.fail("%s is neither a day nor two: mon, or mon-fri", text)
		}
	}
	return nil
}

func parseNetwork(s string) (netip.Prefix, error) {
	if !strings.Contains(s, "/") {
		a, err := netip.ParseAddr(s)
		if err != nil {
			return netip.Prefix{}, err
		}
		return netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen()), nil
	}
	n, err := netip.ParsePrefix(s)
	return n.Masked(), err
}

// hours parses "08:00-18:00 Europe/Vienna". When it returns, the time zone is the current
// token.
func (p *parser) hours(c *Condition) (err error) {
	from, to, ok := strings.Cut(p.token.text, "-")
	var ok1, ok2 bool
	c.From, ok1 = minutes(from)
	c.To, ok2 = minutes(to)
	if !ok || !ok1 || !ok2 || c.From == c.To {
		return p.fail("%s are no hours such as 08:00-18:00", p.token)
	}
	if err := p.advance(); err != nil {
		return err
	}
	if p.token.kind != word || p.is(keywords...) {
		return p.fail("expected a time zone such as UTC or Europe/Vienna, not %s", p.token)
	}
	if c.Zone, err = time.LoadLocation(p.token.text); err != nil || p.token.text == "Local" {
		return p.fail("the time zone %s is not known", p.token)
	}
	return nil
}

// minutes parses a time from 00:00 to 24:00 and returns it in minutes.
func minutes(s string) (int, bool) {
	h, m, _ := strings.Cut(s, ":")
	hours, err1 := strconv.Atoi(h)
	mins, err2 := strconv.Atoi(m)
	ok := err1 == nil && err2 == nil && len(h) == 2 && len(m) == 2 && hours >= 0 && mins >= 0 && mins < 60 && hours*60+mins <= 24*60
	return hours*60 + mins, ok
}

// The method "why" parses the comment at the end of the rule, if there is one.
func (p *parser) why() error {
	if p.token.kind != end {
		return p.fail("the rule ends here, but %s follows", p.token)
	}
	if p.token.at < len(p.lexer.s) {
		p.rule.Why = strings.Join(strings.Fields(p.lexer.s[p.token.at+1:]), " ")
	}
	return nil
}
