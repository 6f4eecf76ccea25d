package olc

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/tools/aclimport/draft"
)

// A word is a word of a directive without its quotation marks.
type word struct {
	text string
	at   int
}

// words splits a directive at white space. White space between quotation marks does not
// separate words.
func words(s string) (all []word, err error) {
	var b strings.Builder
	start, quoted, in := 0, false, false
	end := func() {
		if in {
			all = append(all, word{b.String(), start})
		}
		b.Reset()
		in = false
	}
	for i := 0; i < len(s); i++ {
		c := s[i]
		if !in {
			start = i
		}
		switch {
		case c == '"':
			quoted, in = !quoted, true
		case c == '\\' && i+1 < len(s) && (s[i+1] == '"' || s[i+1] == '\\'):
			i++
			if s[i] == '\\' {
				b.WriteByte('\\') // keep the escapes of regular expressions and names
			}
			b.WriteByte(s[i])
			in = true
		case !quoted && strings.IndexByte(" \t\r\n", c) >= 0:
			end()
		default:
			b.WriteByte(c)
			in = true
		}
	}
	if quoted {
		return nil, &Error{start, "a quotation mark is never closed"}
	}
	end()
	return all, nil
}

// Parse parses a value of olcAccess, perhaps with its number in braces, or a directive of
// slapd.conf without the word access. The error is an *Error.
func Parse(s string) (*Directive, error) {
	if strings.HasPrefix(s, "{") {
		if i := strings.IndexByte(s, '}'); i > 0 && strings.Trim(s[1:i], "-0123456789") == "" {
			s = strings.Repeat(" ", i+1) + s[i+1:]
		}
	}
	all, err := words(s)
	if err != nil {
		return nil, err
	}
	p := &parser{words: all, end: len(s)}
	d := &Directive{}
	if !p.is("to") {
		return nil, p.fail("expected to, not %s", p.here())
	}
	p.n++
	if err := p.what(&d.What); err != nil {
		return nil, err
	}
	for p.n < len(p.words) {
		c, err := p.clause()
		if err != nil {
			return nil, err
		}
		d.Clauses = append(d.Clauses, c)
	}
	if len(d.Clauses) == 0 {
		return nil, p.fail("expected by, not the end")
	}
	return d, nil
}

// A parser parses the words of a directive.
type parser struct {
	words []word
	n     int
	end   int // the length of the text
}

func (p *parser) fail(format string, args ...any) error {
	at := p.end
	if p.n < len(p.words) {
		at = p.words[p.n].at
	}
	return &Error{at, fmt.Sprintf(format, args...)}
}

func (p *parser) is(text string) bool {
	return p.n < len(p.words) && strings.EqualFold(p.words[p.n].text, text)
}

func (p *parser) here() string {
	if p.n >= len(p.words) {
		return "the end"
	}
	return fmt.Sprintf("%q", p.words[p.n].text)
}

// split splits a word such as dn.subtree="ou=people" at its equals sign, and the part
// before this sign at its periods.
func split(w string) (name, style, value string, hasValue bool) {
	name, value, hasValue = strings.Cut(w, "=")
	name, style, _ = strings.Cut(name, ".")
	return strings.ToLower(name), strings.ToLower(style), value, hasValue
}

func (p *parser) what(w *What) error {
	if p.n >= len(p.words) || p.is("by") {
		return p.fail("expected what the directive is about, not %s", p.here())
	}
	seen := map[string]bool{}
	for ; p.n < len(p.words) && !p.is("by"); p.n++ {
		name, style, value, ok := split(p.words[p.n].text)
		if name == "attr" {
			name = "attrs"
		}
		if seen[name] {
			return p.fail("a second %s", name)
		}
		seen[name] = true
		var err error
		switch {
		case name == "*" && !ok:
		case name == "dn" && ok:
			err = p.whatDN(w, style, value)
		case name == "filter" && ok:
			err = p.filter(w, value)
		case name == "attrs" && ok:
			err = p.attributes(w, value)
		case (name == "val" || strings.HasPrefix(name, "val/")) && ok && len(w.Attributes) == 1:
			w.Value, w.ValueStyle = &value, style
			if style == "" || style == "base" {
				w.ValueStyle = "exact"
			}
			if name != "val" {
				w.ValueStyle = name
			}
		case (name == "op" || name == "control") && ok:
			w.Operations = append(w.Operations, p.words[p.n].text)
		default:
			err = p.fail("expected *, dn, filter, attrs or by, not %s", p.here())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *parser) whatDN(w *What, style, value string) error {
	s, ok := styles[style]
	if !ok {
		return p.fail("the style %q is none of exact, one, subtree, children, regex", style)
	}
	if value == "*" {
		return nil
	}
	if s == Regex && (value == ".*" || value == "") {
		return nil
	}
	if s != Regex {
		if _, err := dn.Parse(value); err != nil {
			return p.fail("%q is not a DN", value)
		}
	}
	w.Style, w.DN = s, value
	return nil
}

func (p *parser) filter(w *What, value string) (err error) {
	if w.Filter, err = draft.ParseFilter(value); err != nil {
		return p.fail("%v", err)
	}
	return nil
}

func (p *parser) attributes(w *What, value string) error {
	for a := range strings.SplitSeq(value, ",") {
		a = strings.TrimSpace(a)
		if name := strings.TrimLeft(a, "@!"); name == "" || len(a)-len(name) > 1 || strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.;_*") != "" {
			return p.fail("%q is no attribute", a)
		}
		if a == "*" {
			a = "@extensibleObject"
		}
		w.Attributes = append(w.Attributes, Attribute(a))
	}
	return nil
}

func (p *parser) clause() (c Clause, err error) {
	if !p.is("by") {
		return c, p.fail("expected by, not %s", p.here())
	}
	p.n++
	c.Control = "stop"
	c.Access.Op = '+'
	for ; p.n < len(p.words) && !p.is("by"); p.n++ {
		w, isWho, err := p.who()
		if err != nil {
			return c, err
		}
		if !isWho {
			break
		}
		c.Who = append(c.Who, w)
	}
	if len(c.Who) == 0 {
		return c, p.fail("expected who, not %s", p.here())
	}
	if p.n < len(p.words) && !p.is("by") && !isControl(p.words[p.n].text) {
		if c.Access, err = p.access(); err != nil {
			return c, err
		}
		p.n++
	}
	if p.n < len(p.words) && !p.is("by") {
		if !isControl(p.words[p.n].text) {
			return c, p.fail("expected stop, continue, break or by, not %s", p.here())
		}
		c.Control = strings.ToLower(p.words[p.n].text)
		p.n++
	}
	return c, nil
}

func isControl(s string) bool {
	s = strings.ToLower(s)
	return s == "stop" || s == "continue" || s == "break"
}

// access parses a level, or privileges after a sign.
func (p *parser) access() (a Access, err error) {
	text := strings.ToLower(p.words[p.n].text)
	if rest, ok := strings.CutPrefix(text, "realself"); ok {
		text, a.Self = rest, true
	} else if rest, ok := strings.CutPrefix(text, "self"); ok {
		text, a.Self = rest, true
	}
	a.Op = '='
	if m, ok := levels[text]; ok {
		a.Mask = m
		return a, nil
	}
	if text == "" || strings.IndexByte("=+-", text[0]) < 0 {
		return a, p.fail("expected a level (none, disclose, auth, compare, search, read, write, add, delete, manage) or privileges after =, + or -, not %s", p.here())
	}
	a.Op = text[0]
	for i := 1; i < len(text); i++ {
		m, ok := privileges[text[i]]
		if !ok {
			return a, p.fail("%q is no privilege", text[i])
		}
		a.Mask |= m
	}
	return a, nil
}

// The method "who" parses one Who. It returns false if the current word does not begin a who.
func (p *parser) who() (w Who, ok bool, err error) {
	text := p.words[p.n].text
	name, style, value, hasValue := split(text)
	w.Text = value
	switch name {
	case "*":
		return w, !hasValue, nil
	case "anonymous", "users", "self":
		w.Kind = map[string]WhoKind{"anonymous": Anonymous, "users": Users, "self": Self}[name]
		if hasValue {
			return w, false, nil
		}
		if style != "" && style != "exact" {
			return w, true, p.level(&w, style)
		}
		return w, true, nil
	}
	if !hasValue {
		if strings.HasPrefix(name, "dynacl/") || name == "realanonymous" || name == "realusers" || name == "realself" || name == "aci" {
			return Who{Kind: Unknown, Text: text}, true, nil
		}
		return w, false, nil
	}
	oc, rest, _ := strings.Cut(name, "/")
	switch oc {
	case "dn":
		err = p.whoDN(&w, style)
	case "dnattr":
		w.Kind = DNAttr
	case "group":
		w.Kind = Group
		w.Class, w.Attribute, _ = strings.Cut(rest, "/")
		err = p.group(&w, style)
	case "peername":
		peer(&w, style)
	case "sockurl", "sockname":
		socket(&w, style)
	case "ssf", "transport_ssf", "tls_ssf":
		w.Kind = SSF
		if oc == "tls_ssf" {
			w.Kind = TLSSSF
		}
		if w.N, err = strconv.Atoi(value); err != nil || w.N < 0 {
			err = p.fail("%q is no strength", value)
		}
	case "set":
		w.Kind = Set
		if style != "" && style != "exact" {
			w = Who{Kind: Unknown}
		}
	case "domain", "sasl_ssf", "aci", "dynacl", "realdn", "realdnattr":
		w.Kind = Unknown
	default:
		return w, false, nil
	}
	if w.Kind == Unknown {
		w.Text = text
	}
	return w, true, err
}

// level parses the style of self.level{1}.
func (p *parser) level(w *Who, style string) (err error) {
	n, begins := strings.CutPrefix(style, "level{")
	n, ends := strings.CutSuffix(n, "}")
	if !begins || !ends {
		return p.fail("self has no style %q", style)
	}
	if w.Level, err = strconv.Atoi(n); err != nil {
		return p.fail("%q is no level", n)
	}
	return nil
}

func (p *parser) whoDN(w *Who, style string) error {
	w.Kind = DN
	style, modifier, _ := strings.Cut(style, ",")
	w.Expand = modifier == "expand" || style == "expand" || style == "regex"
	if style == "expand" {
		style = "exact"
	}
	s, ok := styles[style]
	if !ok || modifier != "" && modifier != "expand" {
		if strings.HasPrefix(style, "level{") {
			*w = Who{Kind: Unknown}
			return nil
		}
		return p.fail("the style %q is none of exact, one, subtree, children, regex", style)
	}
	w.Style = s
	if w.Text == "*" || s == Regex && w.Text == ".*" {
		*w = Who{Kind: Any}
		return nil
	}
	if s != Regex && !w.Expand {
		if _, err := dn.Parse(w.Text); err != nil {
			return p.fail("%q is not a DN", w.Text)
		}
	}
	return nil
}

func (p *parser) group(w *Who, style string) error {
	switch style {
	case "", "exact", "base":
		if _, err := dn.Parse(w.Text); err != nil {
			return p.fail("%q is not a DN", w.Text)
		}
	case "expand", "regex":
		w.Expand = true
	default:
		return p.fail("a group has no style %q", style)
	}
	return nil
}

// peer parses a peername: an address, an address with a mask after %, a simple regular
// expression of addresses, or the path of any socket. For any other peername, it sets the kind
// Unknown.
func peer(w *Who, style string) {
	w.Kind = Unknown
	value := w.Text
	switch style {
	case "ip", "ipv6":
		if i := strings.IndexByte(value, '{'); i >= 0 {
			return // the address has a port, which rules cannot test
		}
		if address, mask, masked := strings.Cut(value, "%"); masked {
			if n, ok := draft.Network(address, mask); ok {
				w.Kind, w.Network = Peer, n
			}
		} else if a, err := netip.ParseAddr(address); err == nil {
			w.Kind, w.Network = Peer, netip.PrefixFrom(a, a.BitLen())
		}
	case "regex":
		if n, ok := octets(value); ok {
			w.Kind, w.Network, w.Loose = Peer, n, true
		}
	case "path":
		if value == "" || value == ".*" {
			w.Kind = Socket
		}
	}
}

// octets converts a regular expression of the octets with which an address begins, such as
// ^IP=10\.1\..+, to a network. Without IP=, it accepts only a first octet of three digits,
// because 0\.1 would also match 10.1.
func octets(text string) (n netip.Prefix, ok bool) {
	text = strings.TrimSuffix(strings.TrimPrefix(text, "^"), "$")
	rest, begins := strings.CutPrefix(text, "IP=")
	for _, end := range []string{":.*", ":.+", ":[0-9]+", ".*", ".+"} {
		if cut, found := strings.CutSuffix(rest, end); found {
			rest = cut
			break
		}
	}
	rest = strings.ReplaceAll(rest, `\.`, ".")
	parts := strings.Split(strings.TrimSuffix(rest, "."), ".")
	if len(parts) > 4 || len(parts) < 4 && !strings.HasSuffix(rest, ".") || !begins && len(parts[0]) < 3 {
		return n, false
	}
	address := strings.Join(parts, ".") + strings.Repeat(".0", 4-len(parts))
	a, err := netip.ParseAddr(address)
	return netip.PrefixFrom(a, 8*len(parts)), err == nil
}

func socket(w *Who, style string) {
	w.Kind = Unknown
	if value := strings.TrimPrefix(w.Text, "^"); strings.HasPrefix(value, "ldapi:") && (value == "ldapi:///" || value == "ldapi:///$" || style == "regex") {
		w.Kind = Socket
	}
}
