package filter

import (
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
