package acl

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/schema"
)

// A pattern is a list of patterns for the RDNs of a name, beginning with the RDN of the
// entry itself. An open value is a value with "*" or a variable.
type pattern []rdnPattern

// An rdnPattern matches RDNs. If the list open is empty, the rdnPattern matches only the RDN
// in norm. Otherwise it matches the RDNs whose AVAs match the patterns in open.
type rdnPattern struct {
	norm dn.Norm // the RDN that the pattern matches, if no value is open
	open []avaPattern
}

// An avaPattern matches values of one attribute type.
type avaPattern struct {
	typ      string                // the OID or the code of the type
	value    string                // the value as the rule writes it
	key      string                // the key of the only value that matches; "" if test or variable is set
	test     func(key []byte) bool // reports whether a value with the key matches; nil: not set
	variable string                // name of the variable in place of the value; "": not a variable
	form     *schema.Form
}

// bindings maps variables to the keys of their values.
type bindings map[string]string

// Runes of a private use area replace "*" and the braces of variables while a name is
// parsed. Attribute values written by people do not contain these runes.
const (
	anyRune      = '\uE0F0'
	variableRune = '\uE0F1'
)

// parsePattern parses a name in which values may contain "*" or a variable such as {t}.
func parsePattern(s string, sch *schema.Schema) (pattern, error) {
	if strings.ContainsRune(s, anyRune) || strings.ContainsRune(s, variableRune) {
		return nil, fmt.Errorf("the name %q has characters of a private use area", s)
	}
	marked, err := markOpen(s)
	if err != nil {
		return nil, err
	}
	name, err := dn.Parse(marked)
	if err != nil {
		if e, ok := err.(*dn.Error); ok {
			err = fmt.Errorf("the name %q is malformed: %s", s, e.Text)
		}
		return nil, err
	}
	p := make(pattern, len(name))
	for i, r := range name {
		if p[i], err = rdnPatternOf(r, sch); err != nil {
			return nil, fmt.Errorf("the name %q: %w", s, err)
		}
	}
	forms := p.variables()
	for _, r := range p {
		for _, a := range r.open {
			if a.variable != "" && forms[a.variable] != a.form {
				return nil, fmt.Errorf("the name %q has {%s} in attributes that are not compared alike", s, a.variable)
			}
		}
	}
	return p, nil
}

// markOpen puts runes of the private use area in place of each "*" and of the braces of
// each variable, unless they are escaped.
func markOpen(s string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '\\':
			b.WriteByte(c)
			if i++; i < len(s) {
				b.WriteByte(s[i])
			}
		case '*':
			b.WriteRune(anyRune)
		case '{':
			size := strings.IndexByte(s[i:], '}')
			if size < 2 {
				return "", fmt.Errorf("the name %q: a brace that begins no variable such as {t}; as a character of a value it is written \\7b", s)
			}
			b.WriteRune(variableRune)
			b.WriteString(s[i+1 : i+size])
			i += size
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), nil
}

func rdnPatternOf(r dn.RDN, sch *schema.Schema) (p rdnPattern, err error) {
	open := false
	for _, a := range r {
		v := string(a.Value)
		open = open || strings.ContainsRune(v, anyRune) || strings.ContainsRune(v, variableRune)
	}
	if !open {
		p.norm, err = r.Normalize(sch)
		return p, err
	}
	p.open = make([]avaPattern, len(r))
	for i, a := range r {
		if p.open[i], err = avaPatternOf(a, sch); err != nil {
			return p, err
		}
	}
	return p, nil
}

func avaPatternOf(a dn.AVA, sch *schema.Schema) (p avaPattern, err error) {
	t := sch.Attribute(a.Type)
	if t == nil || t.Equality == nil {
		return p, fmt.Errorf("the attribute type %s is not known, or has no equality rule", a.Type)
	}
	v := string(a.Value)
	p.typ, p.form, p.value = t.InKeys(), t.Equality.Form, v
	variable := strings.IndexRune(v, variableRune)
	switch {
	case variable == 0 && !strings.ContainsRune(v, anyRune) && strings.Count(v, string(variableRune)) == 1:
		p.variable = v[len(string(variableRune)):]
	case variable >= 0:
		return p, fmt.Errorf("a variable is the whole value of %s, or none of it", a.Type)
	case v == string(anyRune):
		p.test = func([]byte) bool { return true }
	case strings.ContainsRune(v, anyRune):
		p.test, err = pieces(t, strings.Split(v, string(anyRune)), sch)
	default:
		var key []byte
		_, key, err = sch.NormalizeAVA(a.Type, a.Value)
		p.key = string(key)
	}
	return p, err
}

// pieces returns a function that tests the key of a value. The function reports whether
// the value contains all parts in their order, begins with the first part, and ends with
// the last part.
func pieces(t *schema.AttributeType, parts []string, sch *schema.Schema) (func([]byte) bool, error) {
	f := &filter.Substrings{Attribute: t.OID}
	for i, s := range parts {
		switch {
		case s == "":
		case i == 0:
			f.Initial = []byte(s)
		case i == len(parts)-1:
			f.Final = []byte(s)
		default:
			f.Any = append(f.Any, []byte(s))
		}
	}
	test, ok := filter.Resolve(f, sch).(*filter.Test)
	if !ok || t.Substr == nil || t.Substr.Form != t.Equality.Form {
		return nil, fmt.Errorf("%s has no substrings rule, so that only * can stand for its whole value", t.Name())
	}
	return test.Holds, nil
}

// variables returns the variables of the pattern with the forms of their values. A variable that
// occurs several times has the same form everywhere.
func (p pattern) variables() map[string]*schema.Form {
	all := map[string]*schema.Form{}
	for _, r := range p {
		for _, a := range r.open {
			if a.variable != "" {
				all[a.variable] = a.form
			}
		}
	}
	return all
}

// isOpen reports whether the pattern may match more than one name.
func (p pattern) isOpen() bool {
	return slices.ContainsFunc(p, func(r rdnPattern) bool { return r.open != nil })
}

// match reports whether p matches a name, which must have as many RDNs as p. If a variable of
// p is not in b, the variable matches any value, and match adds the variable to b with this
// value. If b is nil, no variable matches.
func (p pattern) match(name []dn.Norm, b bindings) bool {
	for i := range p {
		if !p[i].match(name[i], b) {
			return false
		}
	}
	return true
}

func (r *rdnPattern) match(n dn.Norm, b bindings) bool {
	if r.open == nil {
		return r.norm == n
	}
	left := n.AVAs()
	if len(left) != len(r.open) {
		return false
	}
	for _, a := range r.open {
		i := slices.IndexFunc(left, func(v dn.NormAVA) bool { return v.Type == a.typ && a.match(v.Key, b) })
		if i < 0 {
			return false
		}
		left = slices.Delete(left, i, i+1)
	}
	return true
}

func (a *avaPattern) match(key string, b bindings) bool {
	switch {
	case a.test != nil:
		return a.test([]byte(key))
	case a.variable == "":
		return a.key == key
	case b == nil:
		return false
	}
	bound, ok := b[a.variable]
	if !ok {
		b[a.variable] = key
	}
	return !ok || bound == key
}

// bind returns the pattern with each variable that b contains replaced by the variable's
// value.
func (p pattern) bind(b bindings) pattern {
	if len(b) == 0 || !p.isOpen() {
		return p
	}
	out := slices.Clone(p)
	for i := range out {
		if out[i].open == nil {
			continue
		}
		out[i].open = slices.Clone(out[i].open)
		for j := range out[i].open {
			a := &out[i].open[j]
			if key, ok := b[a.variable]; ok && a.variable != "" {
				a.variable, a.key = "", key
			}
		}
	}
	return out
}

// text returns a text of the pattern. Patterns with equal texts match the same names.
func (p pattern) text() string {
	var b strings.Builder
	for i := range p {
		fmt.Fprintf(&b, "%q,", p[i].text())
	}
	return b.String()
}

// text returns a text of the RDN pattern. RDN patterns with equal texts match the same RDNs.
func (r *rdnPattern) text() string {
	if r.open == nil {
		return string(r.norm)
	}
	var b strings.Builder
	for _, a := range r.open {
		fmt.Fprintf(&b, "%s=%q%q;", a.typ, a.value, a.key)
	}
	return b.String()
}

// merge returns the union of two bindings. It returns false if a and b contain different
// values of one variable.
func merge(a, b bindings) (bindings, bool) {
	if len(a) == 0 {
		return b, true
	}
	all := maps.Clone(a)
	for k, v := range b {
		if bound, ok := all[k]; ok && bound != v {
			return nil, false
		}
		all[k] = v
	}
	return all, true
}
