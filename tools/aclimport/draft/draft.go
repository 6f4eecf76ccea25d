// Package draft contains what the translations of foreign access control have in common. It
// defines the class of a translation, which says how near the translation is to its
// original. It converts expressions about identities, connections and entries into rules.
package draft

import (
	"fmt"
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/schema"
)

// Class says how near the drafts of an original are to the original.
type Class uint8

const (
	Exact Class = iota // the drafts allow what the original allows
	Near               // the drafts allow less or deny more than the original; the notes say what differs
	Not                // the original is not translated, or its denials are not translated
)

func (c Class) String() string { return []string{"exact", "near", "not"}[c] }

// A Drafts is the translation of one original.
type Drafts struct {
	Rules []acl.Placed
	Class Class
	Notes []string // how the drafts differ from the original
	// More means that the drafts may allow more than the original does: the notes say
	// what.
	More bool
}

// Note adds a note. If the class of the drafts is better than c, Note lowers the class to
// c.
func (d *Drafts) Note(c Class, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if !slices.Contains(d.Notes, text) {
		d.Notes = append(d.Notes, text)
	}
	d.Class = max(d.Class, c)
}

// Settle sets the class of drafts that are not exact: Near if there are rules, otherwise
// Not.
func (d *Drafts) Settle() {
	switch {
	case d.Class == Exact:
	case len(d.Rules) == 0:
		d.Class = Not
	default:
		d.Class = Near
	}
}

// Contexts returns the naming contexts. If the contexts are not known, it guesses one. The
// guess consists of the last RDN of the place, and of the RDNs directly before it whose types
// are dc, o or c.
func Contexts(known []dn.DN, place dn.DN) []dn.DN {
	if len(known) > 0 || len(place) == 0 {
		return known
	}
	at := len(place) - 1
	for at > 0 && slices.Contains([]string{"dc", "o", "c"}, strings.ToLower(place[at-1][0].Type)) {
		at--
	}
	return []dn.DN{place[at:]}
}

// Relative returns the part of a name that precedes the place, as rules write it. It
// returns false if the name is neither the place nor below it.
func Relative(sch *schema.Schema, name, place dn.DN) (string, bool) {
	if !Within(sch, name, place) {
		return "", false
	}
	return acl.EscapeName(name[:len(name)-len(place)].String()), true
}

// Within reports whether a name is the place or below it.
func Within(sch *schema.Schema, name, place dn.DN) bool {
	return len(name) >= len(place) && Same(sch, name[len(name)-len(place):], place)
}

// Same reports whether two names are the same. If the schema cannot normalise both names, for
// example because it lacks an attribute type, Same compares their texts.
func Same(sch *schema.Schema, a, b dn.DN) bool {
	if len(a) != len(b) {
		return false
	}
	x, err1 := a.Normalize(sch)
	y, err2 := b.Normalize(sch)
	if err1 == nil && err2 == nil {
		return slices.Equal(x, y)
	}
	return strings.EqualFold(a.String(), b.String())
}

// RuleName makes the name of a rule from a text. It replaces the characters that such a name
// cannot contain by hyphens, and shortens long names.
func RuleName(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r < 0x80 && (r == '.' || r == '_' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'):
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
	}
	name := strings.Trim(b.String(), "-")
	if len(name) > 56 {
		name = strings.TrimRight(name[:56], "-")
	}
	if name == "" {
		return "rule"
	}
	return name
}

// And returns the conjunction of two filters, each of which may be nil.
func And(a, b filter.Filter) filter.Filter {
	switch {
	case a == nil:
		return b
	case b == nil || a.String() == b.String():
		return a
	}
	if all, ok := a.(filter.And); ok {
		return append(all[:len(all):len(all)], b)
	}
	return filter.And{a, b}
}

// keywords are words that have a meaning in rules, and so cannot be attributes there.
var keywords = []string{"to", "in", "if", "and", "except", "not", "parent", "superiors"}

// IsDescription reports whether a text is an attribute description that rules can contain.
// Other servers accept descriptions with other characters. In this directory, no entry can
// have such an attribute.
func IsDescription(s string) bool {
	letter := func(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }
	for part := range strings.SplitSeq(s, ";") {
		if part == "" || strings.IndexFunc(part, func(r rune) bool {
			return r >= 0x80 || !(letter(byte(r)) || '0' <= r && r <= '9' || r == '-' || r == '.')
		}) >= 0 {
			return false
		}
	}
	return s != "" && (letter(s[0]) || '0' <= s[0] && s[0] <= '9') && !slices.ContainsFunc(keywords, func(k string) bool { return strings.EqualFold(k, s) })
}
