package write

import (
	"bytes"
	"slices"

	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/schema"
)

// maxDescriptions is the largest number of descriptions that an entry has of one type, such as
// cn;lang-de and cn;lang-fr.
const maxDescriptions = 256

func errCrowded(t *schema.AttributeType) error {
	return catalog.Errorf(catalog.TooMany, "an entry has at most %d attributes %s with different options", maxDescriptions, t.Name())
}

// crowded reports whether the type has so many descriptions that it cannot have another one.
func (e *edited) crowded(options string) bool {
	ds := e.before.Described
	return len(ds) >= maxDescriptions && !slices.ContainsFunc(ds, func(d *state.DescribedValues) bool { return d.Options == options })
}

// editedValues is a description that the modification changes.
type editedValues struct {
	before *state.DescribedValues
	// The values after the change are in the field now. If before.Many is set, it contains only
	// the new or changed values.
	now     []newValue
	removed []*state.Keyed // old values that must be removed
	whole   bool           // all old values are removed, except those in the field now
	stays   bool           // set only if before.Many: old values remain that are not in the field now
	// set only if before.Many: at least 1000 old values remain that are not in the field now
	// (see enough)
	plenty  bool
	gone    int       // number of elements of now that are gone
	at      positions // of now
	without positions // of removed
	sought  int       // number of calls of position
}

// newValue is a value after the change. If old is not nil, the entry had the value before
// the change. Otherwise the value is new.
type newValue struct {
	old   *state.Keyed
	value []byte
	key   []byte
	gone  bool // the value was deleted again: see settle
}

// values returns the changed values of a description. The first call for a description
// returns the values before the change.
func (e *edited) values(options string) *editedValues {
	for _, v := range e.lists {
		if v.before.Options == options {
			return v
		}
	}
	v := &editedValues{before: e.before.Description(options)}
	v.stays = v.before.Many
	for i := range v.before.List {
		v.now = append(v.now, newValue{old: &v.before.List[i], key: v.before.List[i].Key})
	}
	e.lists = append(e.lists, v)
	return v
}

// has reports whether the description has values.
func (v *editedValues) has() bool {
	return len(v.now) > v.gone || v.before.Many && !v.whole
}

// position returns the index in v.now of a value, or -1. The parameter same is the value's key, or
// the value of a type without keys, and q is the result of tree.Qualifier for the key. It looks
// through the list, and makes a map only if it is called often for a long list.
func (v *editedValues) position(same, q []byte) int {
	if v.sought++; v.at.of != nil || v.sought > fewValues && len(v.now) > fewValues {
		return v.at.find(len(v.now), func(i int) identity { return v.now[i].identity() }, same, q)
	}
	for i := range v.now {
		n := &v.now[i]
		switch {
		case n.old != nil && q != nil:
			if n.old.Is(same, q) {
				return i
			}
		case n.key != nil && bytes.Equal(n.key, same), n.key == nil && bytes.Equal(n.value, same):
			return i
		}
	}
	return -1
}

// removes reports whether an old value is in v.removed.
func (v *editedValues) removes(key, q []byte) bool {
	if len(v.removed) > fewValues {
		return v.without.find(len(v.removed), func(i int) identity { return identityOf(v.removed[i]) }, key, q) >= 0
	}
	return slices.ContainsFunc(v.removed, func(k *state.Keyed) bool { return k.Is(key, q) })
}

// drop removes an element of v.now. Of a list with a map, it only marks the element: settle
// removes all such elements at once.
func (v *editedValues) drop(i int) {
	n := &v.now[i]
	if n.old != nil {
		v.removed = append(v.removed, n.old)
	}
	if v.at.of == nil {
		v.now = slices.Delete(v.now, i, i+1)
		return
	}
	delete(v.at.of, n.identity())
	n.gone = true
	v.gone++
}

// settle removes the elements of v.now that are gone.
func (v *editedValues) settle() {
	if v.gone > 0 {
		v.now = slices.DeleteFunc(v.now, func(n newValue) bool { return n.gone })
		v.at, v.gone = positions{}, 0
	}
}

// An identity is what distinguishes a value of a description from all others: its key, or the
// value of a type without keys, or the qualifier of a column with a cut key.
type identity struct {
	cut  bool
	text string
}

func identityOf(k *state.Keyed) identity {
	if k.Key == nil && k.Qualifier != nil {
		return identity{true, string(k.Qualifier)}
	}
	return identity{text: string(k.Key)}
}

func (n *newValue) identity() identity {
	switch {
	case n.old != nil:
		return identityOf(n.old)
	case n.key != nil:
		return identity{text: string(n.key)}
	}
	return identity{text: string(n.value)}
}

// positions are the positions of the first n elements of a list.
type positions struct {
	of map[identity]int
	n  int
}

// find enters the elements that the list has got since the last call, and returns the position of
// a value, or -1.
func (p *positions) find(length int, at func(i int) identity, same, q []byte) int {
	if p.of == nil {
		p.of = make(map[identity]int, length)
	}
	for ; p.n < length; p.n++ {
		p.of[at(p.n)] = p.n
	}
	if i, ok := p.of[identity{text: string(same)}]; ok {
		return i
	}
	if i, ok := p.of[identity{true, string(q)}]; ok {
		return i
	}
	return -1
}
