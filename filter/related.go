package filter

import (
	"iter"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/entry"
)

// An EntryRef identifies an entry by its id and its parent's.
type EntryRef struct{ ID, Parent entry.ID }

// Related returns the same assertion about values that no entry stores because they are
// computed from other entries. Holds decides it for an entry by its name. List streams
// the entries for which it holds, perhaps more than once but always in the same order. It
// is nil if they cannot be listed. An error of list ends the search.
func (t *Test) Related(holds func(name dn.DN) bool, list iter.Seq2[EntryRef, error]) *Test {
	c := *t
	// No index and no key decides it, and NeedsValues reports that.
	c.Op, c.ByKey, c.DNAttrs, c.shared, c.list = TestExtensible, false, false, nil, list
	c.place = func(e Source) bool {
		named, ok := e.(interface{ EntryName() dn.DN })
		return ok && holds(named.EntryName())
	}
	return &c
}

// List returns the entries for which a Related test holds, and nil for any other test.
func (t *Test) List() iter.Seq2[EntryRef, error] { return t.list }

// Asked returns the part of the client's filter that the test replaces.
func (t *Test) Asked() Filter { return t.asked }
