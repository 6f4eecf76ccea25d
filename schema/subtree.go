package schema

import (
	"fmt"
	"slices"

	"github.com/seed-4dac0d86/ldapd/dn"
)

// A Subtree is a subtree specification (RFC 3672, 2.1; X.501, 12.3). It selects, among
// the entries at and below an administrative point, the entries that a subentry applies
// to.
type Subtree struct {
	base             []dn.Norm
	chops            []normChop
	minimum, maximum int
	refinement       *refinement
}

type normChop struct {
	after bool
	name  []dn.Norm
}

// ParseSubtree parses a value of subtreeSpecification. It returns an error if the value
// breaks its syntax, or if the schema cannot normalise a name in the value.
func (s *Schema) ParseSubtree(v []byte) (*Subtree, error) {
	text, err := parseSubtree(v)
	if err != nil {
		return nil, err
	}
	t := &Subtree{minimum: text.minimum, maximum: text.maximum, refinement: text.refinement}
	if t.base, err = text.base.Normalize(s); err != nil {
		return nil, fmt.Errorf("base: %w", err)
	}
	for _, c := range text.chops {
		name, err := c.name.Normalize(s)
		if err != nil {
			return nil, fmt.Errorf("specificExclusions: %w", err)
		}
		t.chops = append(t.chops, normChop{c.after, name})
	}
	return t, nil
}

// Holds reports whether the subtree contains an entry. The argument rdns contains the
// RDNs of the entry's name below the administrative point, beginning with the RDN of the
// entry itself. It is empty for the administrative point. The call hasClass(class) must
// report whether the entry has a class. The schema need not define the class.
func (t *Subtree) Holds(rdns []dn.Norm, hasClass func(class string) bool) bool {
	if !ends(rdns, t.base) {
		return false
	}
	local := rdns[:len(rdns)-len(t.base)]
	if len(local) < t.minimum || t.maximum >= 0 && len(local) > t.maximum {
		return false
	}
	for _, c := range t.chops {
		if ends(local, c.name) && !(c.after && len(local) == len(c.name)) {
			return false
		}
	}
	return t.refinement == nil || t.refinement.holds(hasClass)
}

// The function "ends" reports whether name is equal to the name ancestor or below it.
func ends(name, ancestor []dn.Norm) bool {
	return len(name) >= len(ancestor) && slices.Equal(name[len(name)-len(ancestor):], ancestor)
}

func (r *refinement) holds(is func(class string) bool) bool {
	part := func(p *refinement) bool { return p.holds(is) }
	switch r.kind {
	case "item":
		return is(r.class)
	case "not":
		return !r.parts[0].holds(is)
	case "or":
		return slices.ContainsFunc(r.parts, part)
	}
	return !slices.ContainsFunc(r.parts, func(p *refinement) bool { return !part(p) })
}
