package render

import (
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// A selector contains the attributes that a search requests (RFC 4511, 4.5.1.8), resolved
// once for each request.
type selector struct {
	user        bool // "*", or no attributes requested
	operational bool // "+" (RFC 3673), which does not include secrets
	named       []named
	ranged      []ranged // requests with the option range, such as "member;range=0-1499"
}

// A named is a request for the values of an attribute type and of its subtypes. It selects the
// attributes that have at least the options in Options (RFC 4512, 2.5.3).
type named struct {
	Type    *schema.AttributeType
	Options string
}

func (s *selector) reset() {
	clear(s.named)
	clear(s.ranged)
	s.user, s.operational = false, false
	s.named, s.ranged = s.named[:0], s.ranged[:0]
}

// resolve resolves the requested attributes. It ignores unknown names. The name "1.1" is
// unknown, so a request for "1.1" alone selects nothing.
func (s *selector) resolve(attributes []string, sch *schema.Schema) {
	s.reset()
	s.user = len(attributes) == 0
	for _, a := range attributes {
		switch {
		case a == "*":
			s.user = true
		case a == "+":
			s.operational = true
		case strings.HasPrefix(a, "@"):
			s.addClass(a[1:], sch)
		default:
			name, options, _ := strings.Cut(a, ";")
			if t := sch.Attribute(name); t != nil && s.addRange(t, options) {
				continue
			}
			if t, options := sch.Describe(a); t != nil {
				s.named = append(s.named, named{t, entry.SortOptions(options)})
			}
		}
	}
	s.compact()
}

// fewNamed is the number of requested attributes up to which repeated ones are kept.
const fewNamed = 64

// compact drops repeated attributes, because every attribute of every entry is compared with
// each.
func (s *selector) compact() {
	if len(s.named) <= fewNamed {
		return
	}
	seen := make(map[named]bool, len(s.named))
	s.named = slices.DeleteFunc(s.named, func(n named) bool {
		again := seen[n]
		seen[n] = true
		return again
	})
}

// addClass requests all attributes of a class (RFC 4529).
func (s *selector) addClass(a string, sch *schema.Schema) {
	name, options, _ := strings.Cut(a, ";")
	c := sch.Class(name)
	if c == nil {
		return
	}
	if c.Name() == "extensibleObject" && options == "" {
		s.user = true
		return
	}
	s.addTypes(c, entry.SortOptions(options))
}

func (s *selector) addTypes(c *schema.ObjectClass, options string) {
	for _, t := range c.Must {
		s.named = append(s.named, named{t, options})
	}
	for _, t := range c.May {
		s.named = append(s.named, named{t, options})
	}
	for _, sup := range c.Sup {
		s.addTypes(sup, options)
	}
}

// wantsSecret reports whether a secret attribute is requested.
func (s *selector) wantsSecret() bool {
	if s.user {
		return true
	}
	for _, n := range s.named {
		if n.Type.Secret() {
			return true
		}
	}
	return false
}

// asks reports whether a type or one of its supertypes is requested by name, without
// options.
func (s *selector) asks(t *schema.AttributeType) bool {
	for _, n := range s.named {
		if n.Options == "" && t.Is(n.Type) {
			return true
		}
	}
	return false
}

func (s *selector) selects(a *entry.Attribute) bool {
	if a.Type.Operational() {
		if s.operational && !a.Type.Secret() {
			return true
		}
	} else if s.user {
		return true
	}
	for _, n := range s.named {
		if a.Type.Is(n.Type) && entry.HasOptions(a.Options, n.Options) {
			return true
		}
	}
	return false
}

// apply appends the selected attributes to buf, in their order.
func (s *selector) apply(buf, all []entry.Attribute) []entry.Attribute {
	for i := range all {
		if s.selects(&all[i]) {
			buf = append(buf, all[i])
		}
	}
	return buf
}
