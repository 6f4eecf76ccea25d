package filter

import (
	"slices"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/schema"
)

// Place returns a Test that is True if holds returns true. The arguments of holds are the
// name of the entry and a Source with at least the entry's attributes of the given types.
// Such Tests evaluate, for example, access rules, and subtrees with refinements (RFC 3672).
// No index can evaluate the Test, and NeedsValues returns true for it. A source without a
// name does not match.
func Place(types []*schema.AttributeType, holds func(name dn.DN, e Source) bool) *Test {
	t := &Test{Op: TestExtensible, Types: types, DNAttrs: true}
	t.place = func(e Source) bool {
		named, ok := e.(interface{ EntryName() dn.DN })
		return ok && holds(named.EntryName(), e)
	}
	return t
}

// EntryName returns the DN of the entry.
func (s *EntrySource) EntryName() dn.DN { return s.Name }

// Shared returns a Test like t that tests only the collective attributes that t covers. The
// values of these attributes are in subentries, so Types does not contain them. Shared returns
// nil if t covers no collective attributes.
func (t *Test) Shared() *Test {
	if len(t.shared) == 0 {
		return nil
	}
	c := *t
	c.Types, c.shared = t.shared, nil
	if c.Rule != nil {
		c.ByKey = c.sharesAll()
	}
	c.test = c.Holds
	return &c
}

// OfType returns a Test like t that tests only the values of one type. The result does not
// test the attributes in the entry's name.
func (t *Test) OfType(typ *schema.AttributeType) *Test {
	c := *t
	c.Types, c.shared, c.DNAttrs = []*schema.AttributeType{typ}, nil, false
	if c.Rule != nil {
		c.ByKey = c.sharesAll()
	}
	c.test = c.Holds
	return &c
}

// OfShared is like Shared, but the result does not test the attributes in the entry's name. It
// returns nil if t covers no collective types.
func (t *Test) OfShared() *Test {
	if len(t.shared) == 0 {
		return nil
	}
	c := t.Shared()
	c.shared, c.DNAttrs = t.shared, false
	return c
}

// OfName returns a Test like t that tests only the attributes in the entry's name (RFC 4511,
// 4.5.1.7.7).
func (t *Test) OfName() *Test {
	name := &Test{Op: TestExtensible, Types: t.Types, DNAttrs: true}
	name.place = t.matchName
	return name
}

// Asks returns the types that the assertion is about, including collective types.
func (t *Test) Asks() []*schema.AttributeType {
	if len(t.shared) == 0 {
		return t.Types
	}
	return slices.Concat(t.Types, t.shared)
}
