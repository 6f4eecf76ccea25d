package olc

import (
	"strconv"
	"strings"

	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/dn"
)

// A marker stands before and after the number of a group of a regular expression. In a
// name, such a number stands for a value that the group matches.
const marker = "\uE0F6"

func marked(n int) string { return marker + strconv.Itoa(n) + marker }

// A regex is a converted regular expression. The regular expression matches names. The
// result of the conversion is a name in which wildcards or markers stand for some values.
type regex struct {
	set
	// crosses means that a wildcard matches commas too, so that names at other depths match.
	crosses bool
}

// prefixes are beginnings of regular expressions, each with the number of its groups. Each
// prefix matches one or more RDNs. A prefix with the scope Subtree also matches the empty text.
var prefixes = []struct {
	text   string
	groups int
	scope  acl.Scope
}{{"(.+,)?", 1, acl.Subtree}, {"(.*,)?", 1, acl.Subtree}, {"([^,]+,)*", 1, acl.Subtree}, {"(.+,)", 1, acl.Under}, {"(.*,)", 1, acl.Under},
	{"(.+),", 1, acl.Under}, {"(.*),", 1, acl.Under}, {".+,", 0, acl.Under}, {".*,", 0, acl.Under}}

// parseRegex converts a regular expression to a name in which wildcards or markers stand
// for some values. It returns false if this is not possible.
func parseRegex(text string) (r regex, ok bool) {
	rest, anchored := strings.CutPrefix(text, "^")
	r.scope = acl.Subtree // without ^, the expression may match only the end of a name
	if anchored {
		r.scope = acl.Only
	}
	rest, atEnd := strings.CutSuffix(rest, "$")
	if !atEnd && !strings.Contains(strings.ToLower(rest), "dc=") && !strings.Contains(rest, "o=") {
		return r, false // the expression may match the middle of a name
	}
	group := 0
	for _, p := range prefixes {
		if after, found := strings.CutPrefix(rest, p.text); found {
			rest, group, r.scope = after, p.groups, p.scope
			break
		}
	}
	r.open = true
	for part := range strings.SplitSeq(splitRDNs(rest), "\x00") {
		rdn, ok := r.rdn(part, &group)
		if !ok {
			return r, false
		}
		r.name = append(r.name, rdn...)
	}
	r.open = strings.ContainsAny(r.name.String(), "*"+marker)
	return r, len(r.name) > 0
}

// splitRDNs replaces each comma between RDNs by a zero byte.
func splitRDNs(s string) string {
	b := []byte(s)
	in := false
	for i := 0; i < len(b); i++ {
		switch {
		case b[i] == '\\':
			i++
		case b[i] == '[':
			in = true
		case b[i] == ']':
			in = false
		case b[i] == ',' && !in:
			b[i] = 0
		}
	}
	return string(b)
}

// wildcards are expressions that match any value.
var wildcards = []struct {
	text             string
	crosses, capture bool
}{{"([^,]+)", false, true}, {"([^,]*)", false, true}, {"[^,]+", false, false}, {"[^,]*", false, false},
	{"(.+)", true, true}, {"(.*)", true, true}, {".+", true, false}, {".*", true, false}}

// rdn reads one RDN of a regular expression.
func (r *regex) rdn(text string, group *int) (dn.DN, bool) {
	typ, rest, ok := strings.Cut(strings.TrimSpace(text), "=")
	if !ok || typ == "" || strings.Trim(strings.ToLower(typ), "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return nil, false
	}
	var value strings.Builder
	whole := rest
next:
	for rest != "" {
		for _, w := range wildcards {
			after, found := strings.CutPrefix(rest, w.text)
			if !found {
				continue
			}
			r.crosses = r.crosses || w.crosses
			if w.capture {
				*group++
			}
			if w.capture && w.text == whole {
				value.WriteString(marked(*group))
			} else {
				value.WriteByte('*')
			}
			rest = after
			continue next
		}
		c := rest[0]
		if c == '\\' && len(rest) > 1 {
			value.WriteString(rest[:2])
			if strings.IndexByte(`.-/@$^()[]|?+{}`, rest[1]) >= 0 {
				s := strings.TrimSuffix(value.String(), rest[:2]) + rest[1:2]
				value.Reset()
				value.WriteString(s)
			}
			rest = rest[2:]
			continue
		}
		if strings.IndexByte("()[]|?+*{}^$", c) >= 0 {
			return nil, false
		}
		value.WriteByte(c)
		rest = rest[1:]
	}
	d, err := dn.Parse(typ + "=" + value.String())
	return d, err == nil && len(d) == 1
}

// expand parses a name in which $1 or ${1} stands for the value of a group, and returns the
// name with markers. It returns false if a group stands for only a part of a value.
func expand(text string) (dn.DN, bool) {
	for n := 1; n <= 9; n++ {
		digit := strconv.Itoa(n)
		text = strings.ReplaceAll(strings.ReplaceAll(text, "${"+digit+"}", marked(n)), "$"+digit, marked(n))
	}
	if strings.Contains(text, "$") {
		return nil, false
	}
	d, err := dn.Parse(text)
	if err != nil {
		return nil, false
	}
	for _, r := range d {
		for _, a := range r {
			if v := string(a.Value); strings.Contains(v, marker) && (strings.Count(v, marker) != 2 || !strings.HasPrefix(v, marker) || !strings.HasSuffix(v, marker)) {
				return nil, false
			}
		}
	}
	return d, true
}

// unmarked replaces each group's number, with the markers around it, by *.
func unmarked(s string) string {
	parts := strings.Split(s, marker)
	for i := 1; i < len(parts); i += 2 {
		parts[i] = "*"
	}
	return strings.Join(parts, "")
}
