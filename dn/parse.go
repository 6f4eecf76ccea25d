package dn

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/seed-4dac0d86/ldapd/dn/short"
)

// An Error reports what is wrong with the text of a name, and at which byte.
type Error struct {
	Name   string
	Offset int
	Text   string
}

func (e *Error) Error() string {
	return fmt.Sprintf("the name %q is malformed at byte %d: %s", short.Text(e.Name), e.Offset, e.Text)
}

// These bounds apply to names that are parsed by Parse and ParseRDN. A name costs a look-up for each
// of its RDNs, in the states of the partition, in caches and in access rules.
const (
	MaxRDNs = 512 // RDNs of a name
	MaxAVAs = 64  // AVAs of an RDN
)

// Parse parses a DN of at most MaxRDNs RDNs. It accepts the form of RFC 4514, and the looser forms of RFC 2253:
// spaces around separators, semicolons, "OID." prefixes, and quoted values. The error is
// an *Error.
func Parse(s string) (DN, error) { return parse(s, MaxRDNs) }

func parse(s string, most int) (DN, error) {
	if s == "" {
		return nil, nil
	}
	rdns, avas := count(s)
	p := newParser(s, min(avas, most))
	d := make(DN, 0, min(rdns, most))
	for {
		if len(d) == most {
			return nil, p.fail("a name has at most %d RDNs", most)
		}
		r, err := p.rdn()
		if err != nil {
			return nil, err
		}
		d = append(d, r)
		if p.at == len(s) {
			return d, nil
		}
		p.at++ // skip the separator after the RDN
	}
}

// ParseRDN parses one RDN.
func ParseRDN(s string) (RDN, error) {
	_, avas := count(s)
	p := newParser(s, min(avas, MaxAVAs))
	r, err := p.rdn()
	if err != nil {
		return nil, err
	}
	if p.at < len(s) {
		return nil, p.fail("the RDN ends here, but there is more; a comma in a value is written as \\,")
	}
	return r, nil
}

// count returns upper bounds of the number of RDNs and the number of AVAs in a name.
func count(s string) (rdns, avas int) {
	rdns = 1
	plus := 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case ',', ';':
			rdns++
		case '+':
			plus++
		}
	}
	return rdns, rdns + plus
}

// A parser parses the text s. Its position in the text is the offset in the field at. All
// AVAs of a name are in one array, and all values are in one array, to save allocations:
// every operation parses names.
type parser struct {
	s    string
	at   int
	avas []AVA
	buf  []byte
}

func newParser(s string, avas int) parser {
	return parser{s: s, avas: make([]AVA, 0, avas), buf: make([]byte, 0, len(s))}
}

func (p *parser) fail(format string, args ...any) error {
	return &Error{Name: p.s, Offset: p.at, Text: fmt.Sprintf(format, args...)}
}

// peek returns the next byte, or 0 at the end of the text. A NUL in the text is never
// valid.
func (p *parser) peek() byte {
	if p.at < len(p.s) {
		return p.s[p.at]
	}
	return 0
}

func (p *parser) spaces() {
	for p.at < len(p.s) && p.s[p.at] == ' ' {
		p.at++
	}
}

// rdn parses AVAs up to the next separator of RDNs or the end of the text.
func (p *parser) rdn() (RDN, error) {
	start := len(p.avas)
	for {
		if len(p.avas)-start == MaxAVAs {
			return nil, p.fail("an RDN has at most %d attribute values", MaxAVAs)
		}
		if err := p.ava(); err != nil {
			return nil, err
		}
		if p.at == len(p.s) || p.s[p.at] != '+' {
			return RDN(p.avas[start:len(p.avas):len(p.avas)]), nil
		}
		p.at++
	}
}

func (p *parser) ava() error {
	p.spaces()
	t, err := p.attributeType()
	if err != nil {
		return err
	}
	p.spaces()
	if p.peek() != '=' {
		return p.fail("expected = after the attribute type %q", t)
	}
	p.at++
	p.spaces()
	start := len(p.buf)
	switch p.peek() {
	case '#':
		err = p.hexString()
	case '"':
		err = p.quoted()
	default:
		err = p.plain()
	}
	if err != nil {
		return err
	}
	p.avas = append(p.avas, AVA{Type: t, Value: p.buf[start:len(p.buf):len(p.buf)]})
	return nil
}

// attributeType parses a short name or a numeric OID.
func (p *parser) attributeType() (string, error) {
	if len(p.s)-p.at > 4 && strings.EqualFold(p.s[p.at:p.at+4], "oid.") {
		p.at += 4
		if !digit(p.peek()) {
			return "", p.fail("expected a numeric OID after OID.")
		}
	}
	start := p.at
	switch c := p.peek(); {
	case letter(c):
		for classes[p.peek()]&(letters|digits|hyphen) != 0 {
			p.at++
		}
	case digit(c):
		if err := p.numericOID(); err != nil {
			return "", err
		}
	default:
		return "", p.fail("expected an attribute type")
	}
	return p.s[start:p.at], nil
}

// numericOID parses at least two numbers without leading zeros, separated by dots (RFC
// 4512, 1.4).
func (p *parser) numericOID() error {
	for n := 1; ; n++ {
		start := p.at
		for digit(p.peek()) {
			p.at++
		}
		if p.at == start || p.s[start] == '0' && p.at > start+1 {
			p.at = start
			return p.fail("expected a number without leading zeros in the OID")
		}
		if p.peek() != '.' {
			if n < 2 {
				return p.fail("an OID has at least two numbers")
			}
			return nil
		}
		p.at++
	}
}

// plain parses a value that is not quoted, up to a separator. Unescaped spaces at the end
// are not part of the value.
func (p *parser) plain() error {
	start, kept := p.at, len(p.buf)
	ascii := true
loop:
	for {
		run := p.at
		for p.at < len(p.s) && classes[p.s[p.at]]&ordinary != 0 {
			p.at++
		}
		if p.at > run {
			p.buf = append(p.buf, p.s[run:p.at]...)
			kept = len(p.buf)
		}
		if p.at == len(p.s) {
			break
		}
		switch c := p.s[p.at]; c {
		case ',', ';', '+':
			break loop
		case ' ':
			p.buf = append(p.buf, c)
			p.at++
		case '\\':
			if err := p.escape(); err != nil {
				return err
			}
			kept = len(p.buf)
		case '"', '<', '>', 0:
			return p.fail("%q in a value must be escaped with a backslash", c)
		default:
			ascii = false
			p.buf = append(p.buf, c)
			p.at++
			kept = len(p.buf)
		}
	}
	p.buf = p.buf[:kept]
	return p.checkUTF8(ascii, start)
}

// quoted parses a value in quotes (RFC 2253, section 4). In such a value only quotes and
// backslashes are special.
func (p *parser) quoted() error {
	p.at++
	start := p.at
	for {
		if p.at == len(p.s) {
			return p.fail("the quoted value has no end")
		}
		switch c := p.s[p.at]; c {
		case '"':
			if err := p.checkUTF8(false, start); err != nil {
				return err
			}
			p.at++
			return p.separator("the quoted value")
		case '\\':
			if err := p.escape(); err != nil {
				return err
			}
		case 0:
			return p.fail("a NUL must be written as \\00")
		default:
			p.buf = append(p.buf, c)
			p.at++
		}
	}
}

// checkUTF8 returns an error if the text from start to the cursor is not UTF-8. It
// ignores escapes, whose bytes may have any values.
func (p *parser) checkUTF8(ascii bool, start int) error {
	if ascii || utf8.ValidString(p.s[start:p.at]) {
		return nil
	}
	p.at = start
	return p.fail("the value is not UTF-8; write other bytes as \\xx")
}

// escape parses a backslash followed by a special character or two hex digits.
func (p *parser) escape() error {
	if p.at+1 == len(p.s) {
		return p.fail("a backslash has nothing to escape")
	}
	switch c := p.s[p.at+1]; c {
	case '\\', '"', '+', ',', ';', '<', '>', ' ', '#', '=':
		p.buf = append(p.buf, c)
		p.at += 2
		return nil
	}
	c, ok := p.hexPair(p.at + 1)
	if !ok {
		return p.fail("a backslash stands before a special character or two hex digits")
	}
	p.buf = append(p.buf, c)
	p.at += 3
	return nil
}

func (p *parser) hexPair(at int) (byte, bool) {
	if at+2 > len(p.s) {
		return 0, false
	}
	hi, lo := hexDigit(p.s[at]), hexDigit(p.s[at+1])
	return hi<<4 | lo&15, hi < 16 && lo < 16
}

// hexString parses "#" followed by the BER encoding of the value in hex.
func (p *parser) hexString() error {
	hash, start := p.at, len(p.buf)
	p.at++
	for {
		c, ok := p.hexPair(p.at)
		if !ok {
			break
		}
		p.buf = append(p.buf, c)
		p.at += 2
	}
	if err := p.separator("the hex string"); err != nil {
		return err
	}
	contents, ok := decodeString(p.buf[start:])
	if !ok {
		p.at = hash
		return p.fail("the hex string is not one BER element; a # at a value's start is written as \\#")
	}
	p.buf = append(p.buf[:start], contents...)
	return nil
}

// separator skips spaces. It returns an error unless a separator or the end of the text
// follows.
func (p *parser) separator(after string) error {
	p.spaces()
	if p.at == len(p.s) {
		return nil
	}
	switch p.s[p.at] {
	case ',', ';', '+':
		return nil
	}
	return p.fail("expected a comma or a plus after %s", after)
}

// decodeString returns the contents of a BER element if its type is a string type with
// the encoding of LDAP: OCTET STRING, UTF8String, PrintableString or IA5String. It
// returns an element of any other type unchanged.
func decodeString(b []byte) ([]byte, bool) {
	contents, ok := element(b)
	if !ok {
		return nil, false
	}
	switch b[0] {
	case 0x04, 0x0c, 0x13, 0x16:
		return contents, true
	}
	return b, true
}

// element returns the contents of the BER element b. It returns false if b is not exactly one
// element with a one-byte tag and a definite length.
func element(b []byte) (contents []byte, ok bool) {
	if len(b) < 2 || b[0]&0x1f == 0x1f {
		return nil, false
	}
	n, rest := int(b[1]), b[2:]
	if n >= 0x80 {
		octets := n & 0x7f
		if octets == 0 || octets > 4 || octets > len(rest) {
			return nil, false
		}
		n = 0
		for _, c := range rest[:octets] {
			n = n<<8 | int(c)
		}
		rest = rest[octets:]
	}
	return rest, n == len(rest)
}

// Classes of bytes. Ordinary bytes are ASCII and represent themselves in a value.
const (
	letters = 1 << iota
	digits
	hyphen
	ordinary
)

var classes = func() (t [256]uint8) {
	for i := range t {
		c := byte(i)
		switch {
		case 'a' <= c|0x20 && c|0x20 <= 'z':
			t[i] = letters
		case '0' <= c && c <= '9':
			t[i] = digits
		case c == '-':
			t[i] = hyphen
		}
		if c < utf8.RuneSelf && c != ' ' && !special(c) {
			t[i] |= ordinary
		}
	}
	return t
}()

func letter(c byte) bool { return classes[c]&letters != 0 }

func digit(c byte) bool { return classes[c]&digits != 0 }

// hexDigit returns the value of the hex digit c, or 255 if c is not a hex digit.
func hexDigit(c byte) byte {
	switch {
	case digit(c):
		return c - '0'
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return c | 0x20 - 'a' + 10
	}
	return 255
}
