package ldif

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/ldap/op"
)

// A parser parses one record.
type parser struct {
	r    *Reader
	rest []byte // the remaining lines
	next int    // the number of the first remaining line
	dn   string
	// mem contains the values, except values from files. From the start, it has room for all
	// of them.
	mem []byte

	// The current line, unfolded. name is nil if there is no line.
	line  int
	name  []byte
	kind  byte // ':' base64, '<' URL, 0 plain
	value []byte

	audited bool // the record is in an audit log of 389 Directory Server
}

// auditHead matches the lines at the beginning of an audit log of 389 Directory Server, which the
// server also writes when it starts again.
var auditHead = regexp.MustCompile(`^\t[^:\n]+\n\t[^\n]+ \([^\n]*\)\r?\n?$`)

// valueLine is a line of an entry: the index of its attribute, and its value.
type valueLine struct {
	attribute int
	value     []byte
}

// record parses a block of lines. It returns nil if the block contains only comments or
// the version.
func (r *Reader) record(block []byte, line int) (*Record, error) {
	block = bytes.TrimPrefix(block, []byte("\ufeff")) // of a file that was joined to another one
	if len(block) == 0 || block[0] == '\t' && auditHead.Match(block) {
		return nil, nil
	}
	p := &r.parser
	*p = parser{r: r, rest: block, next: line}
	if err := p.advance(); err != nil {
		return nil, err
	}
	if err := p.version(); err != nil {
		return nil, err
	}
	if p.name == nil {
		return nil, nil
	}
	if p.is("search") || p.is("result") || p.is("ref") && bytes.Contains(block, []byte("# search reference")) {
		return nil, p.outcome()
	}
	if p.is("time") { // in an audit log of 389 Directory Server
		p.audited = true
		if err := p.advance(); err != nil {
			return nil, err
		}
	}
	if !p.is("dn") {
		return nil, p.fail("a record begins with \"dn:\", not with %q; is a blank line misplaced?", p.name)
	}
	p.mem = make([]byte, 0, len(p.rest)+len(p.value))
	v, err := p.take()
	if err != nil {
		return nil, err
	}
	p.dn = string(v)
	rec := &Record{Line: p.line, DN: p.dn}
	if err := p.advance(); err != nil {
		return nil, err
	}
	if p.is("result") { // in an audit log of 389 Directory Server
		if string(p.value) != "0" {
			return nil, nil // the change failed there
		}
		if err := p.advance(); err != nil {
			return nil, err
		}
	}
	if p.is("control") || p.is("changetype") {
		err = p.change(rec)
	} else {
		rec.Attributes, err = p.entry()
	}
	if err != nil {
		return nil, err
	}
	return rec, nil
}

// outcome reads the lines that ldapsearch prints after the entries: search references, which
// it notes, and the result of the search. If the search failed, the file is not whole.
func (p *parser) outcome() error {
	for p.name != nil {
		switch {
		case p.is("ref") && p.r.opt.Note != nil:
			p.r.opt.Note(fmt.Sprintf("%s:%d: a search reference is left out: %s", p.r.opt.File, p.line, p.value))
		case p.is("result") && !bytes.HasPrefix(p.value, []byte("0")):
			return p.fail("the search that printed this file failed, so the file is not whole: result %s; repeat the search", p.value)
		}
		if err := p.advance(); err != nil {
			return err
		}
	}
	return nil
}

func (p *parser) fail(format string, args ...any) error {
	return &Error{File: p.r.opt.File, Line: p.line, DN: p.dn, Text: fmt.Sprintf(format, args...)}
}

// version parses the version line, if there is one. It comes again in files that were joined. The
// only version is 1. An error about another version is final, because the whole file has that
// version.
func (p *parser) version() error {
	if !p.is("version") {
		return nil
	}
	if p.kind != 0 || string(p.value) != "1" {
		return p.r.fail(p.fail("LDIF of version %q is not supported, only of version 1", p.value))
	}
	return p.advance()
}

// advance reads the next line that is not a comment, and splits it.
func (p *parser) advance() error {
	text := p.unfold()
	if text == nil {
		p.name, p.value = nil, nil
		return nil
	}
	if len(text) == 1 && text[0] == '-' {
		p.name, p.kind, p.value = text, 0, nil
		return nil
	}
	if text[0] == ' ' {
		return p.fail("the line begins with a space but continues nothing; remove the space or the line break before it")
	}
	colon := bytes.IndexByte(text, ':')
	if colon <= 0 {
		return p.fail("expected \"attribute: value\", found %q; a continued line begins with a space", beginning(text))
	}
	p.name, p.kind = text[:colon], 0
	v := text[colon+1:]
	if len(v) > 0 && (v[0] == ':' || v[0] == '<') {
		p.kind, v = v[0], v[1:]
	}
	p.value = bytes.TrimLeft(v, " ")
	return nil
}

// unfold returns the next line that is not a comment, joined with its continuation lines
// (RFC 2849, note 2). At the end of the block it returns nil.
func (p *parser) unfold() []byte {
	for len(p.rest) > 0 {
		p.line = p.next
		text := p.cut()
		if p.continued() {
			j := append(p.r.joined[:0], text...)
			for p.continued() {
				j = append(j, p.cut()[1:]...)
			}
			p.r.joined, text = j, j
		}
		if text[0] != '#' {
			return text
		}
	}
	return nil
}

func (p *parser) continued() bool { return len(p.rest) > 0 && p.rest[0] == ' ' }

// cut removes one line from p.rest and returns it. p.rest must not be empty.
func (p *parser) cut() []byte {
	p.next++
	text := p.rest
	if i := bytes.IndexByte(text, '\n'); i >= 0 {
		text, p.rest = text[:i], text[i+1:]
	} else {
		p.rest = nil
	}
	return bytes.TrimSuffix(text, []byte("\r"))
}

// beginning returns the beginning of a line, for messages, so that a user can find the
// line.
func beginning(b []byte) []byte { return b[:min(len(b), 40)] }

// The method "is" reports whether the line's name equals name, ignoring case.
func (p *parser) is(name string) bool {
	return len(p.name) == len(name) && strings.EqualFold(string(p.name), name)
}

// take returns the line's value. It decodes the value into mem, or reads it from a
// file.
func (p *parser) take() ([]byte, error) {
	start := len(p.mem)
	switch p.kind {
	case 0:
		p.mem = append(p.mem, p.value...)
	case ':':
		b := bytes.TrimRight(p.value, " ")
		n, err := base64.StdEncoding.Decode(p.room(base64.StdEncoding.DecodedLen(len(b))), b)
		if err != nil {
			return nil, p.fail("the value of %s after :: is not base64 (%v); a plain value has one colon", p.name, err)
		}
		p.mem = p.mem[:start+n]
	case '<':
		return p.file()
	}
	return p.mem[start:len(p.mem):len(p.mem)], nil
}

// room returns n free bytes behind the contents of mem.
func (p *parser) room(n int) []byte {
	if cap(p.mem)-len(p.mem) < n {
		p.mem = append(make([]byte, 0, len(p.mem)+n+len(p.rest)), p.mem...)
	}
	return p.mem[len(p.mem) : len(p.mem)+n]
}

// file reads the value from the file that the URL in the line names.
func (p *parser) file() ([]byte, error) {
	if !p.r.opt.AllowFiles {
		return nil, p.fail("the value of %s is to be read from %q, which is not allowed here", p.name, p.value)
	}
	u, err := url.Parse(string(p.value))
	switch {
	case err != nil:
		return nil, p.fail("the value of %s is not a URL: %v", p.name, err)
	case u.Scheme != "file" || u.Host != "" && u.Host != "localhost" || u.Path == "":
		return nil, p.fail("the URL %q of %s is not supported; only file:///PATH is", p.value, p.name)
	}
	v, err := readFile(u.Path, p.r.opt.MaxRecord)
	if err != nil {
		return nil, p.fail("the value of %s: %v", p.name, err)
	}
	return v, nil
}

func readFile(path string, limit int) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	v, err := io.ReadAll(io.LimitReader(f, int64(limit)+1))
	if err == nil && len(v) > limit {
		return nil, fmt.Errorf("%s is larger than %d bytes", path, limit)
	}
	return v, err
}

// description checks the line's name and returns it as a string that records share.
func (p *parser) description() (string, error) { return p.r.intern(p, p.name) }

func (r *Reader) intern(p *parser, name []byte) (string, error) {
	if s, ok := r.names[string(name)]; ok {
		return s, nil
	}
	if bytes.Contains(name, []byte(";range=")) {
		return "", p.fail("%q has only a part of the values, because Active Directory sends many values in parts; ask it for the other parts, and write all values without the option", name)
	}
	if !validDescription(name) {
		return "", p.fail("%q is not an attribute description", name)
	}
	s := string(name)
	if len(r.names) < maxNames {
		r.names[s] = s
	}
	return s, nil
}

// validDescription reports whether name begins with a letter or a digit and contains only
// characters of attribute descriptions (RFC 4512, 2.5). The RFC does not allow the
// underscore, but some servers' schemas use it.
func validDescription(name []byte) bool {
	for i, c := range name {
		switch {
		case 'a' <= c|0x20 && c|0x20 <= 'z', '0' <= c && c <= '9':
		case i > 0 && (c == '-' || c == '.' || c == ';' || c == '_'):
		default:
			return false
		}
	}
	return len(name) > 0
}

// entry parses the attribute lines of a content record or of an add.
func (p *parser) entry() ([]op.PartialAttribute, error) {
	if p.name == nil && !p.r.opt.AllowEmpty {
		return nil, p.fail("the record has no attributes; an entry needs at least its objectClass")
	}
	lines := p.r.lines[:0]
	attributes := p.r.attributes[:0]
	current := -1
	for p.name != nil {
		if p.stateful() {
			if err := p.advance(); err != nil {
				return nil, err
			}
			continue
		}
		d, err := p.description()
		if err != nil {
			return nil, err
		}
		v, err := p.take()
		if err != nil {
			return nil, err
		}
		if current < 0 || attributes[current].Description != d {
			current = find(attributes, d)
			if current == len(attributes) {
				attributes = append(attributes, op.PartialAttribute{Description: d})
			}
		}
		lines = append(lines, valueLine{current, v})
		if err := p.advance(); err != nil {
			return nil, err
		}
	}
	distribute(attributes, lines)
	own := slices.Clone(attributes)
	clear(lines)
	clear(attributes)
	p.r.lines, p.r.attributes = lines, attributes
	return own, nil
}

// stateful removes the options for the state of replication from the line's name, and reports
// whether the value was deleted (see Reader.State).
func (p *parser) stateful() (deleted bool) {
	if bytes.IndexByte(p.name, ';') < 0 || !bytes.Contains(p.name, []byte("csn-")) {
		return false
	}
	name, options, _ := bytes.Cut(p.name, []byte{';'})
	kept, state := bytes.Clone(name), false
	for o := range bytes.SplitSeq(options, []byte{';'}) {
		switch {
		case isState(o):
			state = true
		case string(o) == "deleted", string(o) == "deletedattribute":
			deleted = true
		default:
			kept = append(append(kept, ';'), o...)
		}
	}
	if !state {
		return false
	}
	p.name = kept
	p.r.states++
	if deleted {
		p.r.deleted++
	}
	return deleted
}

// isState reports whether an option is a change sequence number of 389 Directory Server, such as
// "vucsn-5f0a0839000100010000": that of the adding or deletion of an attribute, or of the
// updating or deletion of a value.
func isState(option []byte) bool {
	const digits = 20
	kind, csn, ok := bytes.Cut(option, []byte("csn-"))
	return ok && (string(kind) == "ad" || string(kind) == "md" || string(kind) == "vu" || string(kind) == "vd") && len(csn) == digits &&
		len(bytes.TrimLeft(csn, "0123456789abcdefABCDEF")) == 0
}

// find returns the index of the attribute with description d, ignoring case. If there
// is none, find returns the length of attributes.
func find(attributes []op.PartialAttribute, d string) int {
	for i := range attributes {
		if have := attributes[i].Description; len(have) == len(d) && strings.EqualFold(have, d) {
			return i
		}
	}
	return len(attributes)
}

// distribute sets the values of each attribute to a slice of one common array.
func distribute(attributes []op.PartialAttribute, lines []valueLine) {
	counts := make([]int, 0, 64)
	counts = append(counts, make([]int, len(attributes))...)
	for _, l := range lines {
		counts[l.attribute]++
	}
	all := make([][]byte, len(lines))
	start := 0
	for i, n := range counts {
		attributes[i].Values = all[start : start : start+n]
		start += n
	}
	for _, l := range lines {
		a := &attributes[l.attribute]
		a.Values = append(a.Values, l.value)
	}
}
