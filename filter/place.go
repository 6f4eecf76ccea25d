package filter

import (
	"slices"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/schema"
)

// Place makes a Test that decides by an entry's name, besides attributes of the
// types, and that no index serves: whether the entry is in a subtree with
// refinements (RFC 3672). Sources without a name fail it; NeedsValues tells that
// it takes more than keys.
func Place(types []*schema.AttributeType, holds func(name dn.DN, e Source) bool) *Test {
	t := &Test{Op: TestExtensible, Types: types, DNAttrs: true}
	t.place = func(e Source) bool {
		named, ok := e.(interface{ EntryName() dn.DN })
		return ok && holds(named.EntryName(), e)
	}
	return t
}

// EntryName is the entry's whole name.
func (s *EntrySource) EntryName() dn.DN { return s.Name }

// Shared is the same assertion about the collective attributes that the Test
// covers and Types does not have, as subentries hold them; nil if there are
// none, or it is about nothing else.
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

// OfType is the same assertion about the values of one of its types alone, and not
// about names.
func (t *Test) OfType(typ *schema.AttributeType) *Test {
	c := *t
	c.Types, c.shared, c.DNAttrs = []*schema.AttributeType{typ}, nil, false
	if c.Rule != nil {
		c.ByKey = c.sharesAll()
	}
	c.test = c.Holds
	return &c
}

// OfShared is the same assertion about the collective attributes among its types;
// nil if there are none.
func (t *Test) OfShared() *Test {
	if len(t.shared) == 0 {
		return nil
	}
	c := t.Shared()
	c.shared, c.DNAttrs = t.shared, false
	return c
}

// OfName is the same assertion about the entry's name alone (RFC 4511, 4.5.1.7.7).
func (t *Test) OfName() *Test {
	name := &Test{Op: TestExtensible, Types: t.Types, DNAttrs: true}
	name.place = t.matchName
	return name
}

// Asks lists the types that the assertion is about, collective ones too.
func (t *Test) Asks() []*schema.AttributeType {
	if len(t.shared) == 0 {
		return t.Types
	}
	return slices.Concat(t.Types, t.shared)
}
