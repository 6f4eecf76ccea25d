package filter

import (
	"iter"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// An EntryRef identifies an entry by its id and the id of its parent.
type EntryRef struct{ ID, Parent entry.ID }

// Related returns a Test like t for values that no entry stores, because they are computed
// from other entries. The call holds(name) must report whether the entry with the name
// matches. The Source must be an [EntrySource]; no other Source matches. The iterator list must
// yield all entries that match, always in the same order; it may yield an entry more than once.
// If these entries cannot be listed, list must be nil. If list yields an error, the search ends.
func (t *Test) Related(holds func(name *dn.Name) bool, list iter.Seq2[EntryRef, error]) *Test {
	c := t.Computed(func(e Source) bool {
		s, ok := e.(*EntrySource)
		return ok && holds(s.storedName())
	})
	c.list = list
	return c
}

// Computed returns a Test like t for values that no entry stores. The call holds(e) must
// report whether the entry of the Source matches.
func (t *Test) Computed(holds func(e Source) bool) *Test {
	c := *t
	// With these values of the fields, the Test uses no index and no key, and NeedsValues
	// returns true.
	c.Op, c.ByKey, c.DNAttrs, c.shared, c.list, c.place = TestExtensible, false, false, nil, nil, holds
	return &c
}

// IsComputed reports whether Related or Computed has made t, so that stored values do not decide it.
func (t *Test) IsComputed() bool { return t.place != nil }

// Listed returns a Test like t, which Computed has made, with the iterator list of [Test.Related].
func (t *Test) Listed(list iter.Seq2[EntryRef, error]) *Test {
	c := *t
	c.list = list
	return &c
}

// List returns the iterator that was passed to Related or Listed, or nil.
func (t *Test) List() iter.Seq2[EntryRef, error] { return t.list }

// Asked returns the part of the client's filter from which t was made.
func (t *Test) Asked() Filter { return t.asked }
