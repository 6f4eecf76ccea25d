package index

import (
	"encoding/binary"
	"slices"
	"sort"

	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// A Set contains the ids of the entries that have a value, in ascending order, and the
// ids of their parents. It occupies 16 bytes per entry if all entries have the same
// parent (for example, the people of one unit), and 20 bytes otherwise. Once other
// goroutines can read a set, it must not be changed.
type Set struct {
	ids     []entry.ID
	parents []entry.ID // usually without duplicates
	// The slice "of" contains, for each entry, the index of its parent in parents, four in an
	// element. If the slice is nil, all entries have the parent parents[0].
	of []entry.ID
}

// Collect returns the set of the candidates in a stream. The ids in the stream must be
// ascending.
func Collect(from Candidates) (*Set, error) {
	s := &Set{}
	if err := s.Extend(from); err != nil {
		return nil, err
	}
	s.Clip()
	return s, nil
}

// Extend appends the candidates in a stream. The ids in the stream must be ascending and greater
// than all ids in the set.
func (s *Set) Extend(from Candidates) error {
	for c, err := range from {
		if err != nil {
			return err
		}
		s.Append(c.ID, c.Parent)
	}
	return nil
}

// Stream yields the candidates behind a position. A position consists of the row of the value with
// this key and the id, whatever the layout of the index is.
func (s *Set) Stream(key, after []byte) Candidates {
	return func(yield func(Candidate, error) bool) {
		row := AppendKey(nil, key)
		position := append(row, make([]byte, len(entry.ID{}))...)
		for i := s.Behind(after); i < s.Len(); i++ {
			id := s.ID(i)
			copy(position[len(row):], id[:])
			if !yield(Candidate{ID: id, Parent: s.Parent(i), Position: position}, nil) {
				return
			}
		}
	}
}

// Len returns the number of entries.
func (s *Set) Len() int { return len(s.ids) }

// Size returns the size of the set in memory, in bytes.
func (s *Set) Size() int {
	return 72 + 16*s.Elements()
}

// Elements returns how many elements AppendTo appends.
func (s *Set) Elements() int { return len(s.ids) + len(s.parents) + len(s.of) }

// Parents returns the argument of SetOf with that name.
func (s *Set) Parents() int { return len(s.parents) }

// AppendTo appends the content of the set to a list, for SetOf.
func (s *Set) AppendTo(list []entry.ID) []entry.ID {
	return append(append(append(list, s.ids...), s.parents...), s.of...)
}

// SetOf returns the set whose content AppendTo has appended to an empty list. The set had that many entries
// and parents. It is a part of the list.
func SetOf(list []entry.ID, entries, parents int) Set {
	s := Set{ids: list[:entries:entries], parents: list[entries : entries+parents : entries+parents]}
	if of := list[entries+parents:]; len(of) > 0 {
		s.of = slices.Clip(of)
	}
	return s
}

// ID returns the i-th id.
func (s *Set) ID(i int) entry.ID { return s.ids[i] }

// Parent returns the parent of the i-th entry.
func (s *Set) Parent(i int) entry.ID {
	if s.of == nil {
		return s.parents[0]
	}
	return s.parents[s.parentOf(i)]
}

// Has reports whether the set contains an entry.
func (s *Set) Has(id entry.ID) bool {
	_, found := slices.BinarySearchFunc(s.ids, id, entry.ID.Compare)
	return found
}

// Append adds an entry. The id must be greater than all ids in the set.
func (s *Set) Append(id, parent entry.ID) {
	p := s.parentNumber(parent)
	if p > 0 && s.of == nil {
		s.of = make([]entry.ID, (len(s.ids)+3)/4, (cap(s.ids)+3)/4+1)
	}
	s.ids = append(s.ids, id)
	if s.of != nil {
		s.setParent(len(s.ids)-1, p)
	}
}

// parentOf returns the index of the parent of the i-th entry, of a set whose slice "of" is not nil.
func (s *Set) parentOf(i int) uint32 { return binary.LittleEndian.Uint32(s.of[i/4][i%4*4:]) }

// setParent sets what parentOf returns for the last entry.
func (s *Set) setParent(i int, p uint32) {
	if i/4 == len(s.of) {
		s.of = append(s.of, entry.ID{})
	}
	binary.LittleEndian.PutUint32(s.of[i/4][i%4*4:], p)
}

// parentNumber returns the index of a parent in parents. It appends the parent if the
// parent is not among the last few elements. A parent may therefore occur twice in
// parents, which costs only 16 bytes.
func (s *Set) parentNumber(parent entry.ID) uint32 {
	const look = 16
	for i := len(s.parents) - 1; i >= max(0, len(s.parents)-look); i-- {
		if s.parents[i] == parent {
			return uint32(i)
		}
	}
	s.parents = append(s.parents, parent)
	return uint32(len(s.parents) - 1)
}

// Clip releases unused memory.
func (s *Set) Clip() {
	s.ids, s.parents, s.of = clip(s.ids), clip(s.parents), clip(s.of)
}

func clip[T any](list []T) []T {
	if cap(list)-len(list) <= len(list)/16 {
		return list
	}
	return append(make([]T, 0, len(list)), list...)
}

// Behind returns the index of the first entry behind a position, the argument after. A position
// ends with the id of an entry. Behind returns 0 if the position is empty.
func (s *Set) Behind(after []byte) int {
	if len(after) < len(entry.ID{}) {
		return 0
	}
	id := entry.ID(after[len(after)-len(entry.ID{}):])
	return sort.Search(len(s.ids), func(i int) bool { return s.ids[i].Compare(id) > 0 })
}

// Last returns the position of the last entry in the list of the value with this key, or nil if the
// set is empty.
func (s *Set) Last(key []byte) []byte {
	if len(s.ids) == 0 {
		return nil
	}
	return append(AppendKey(nil, key), s.ids[len(s.ids)-1][:]...)
}

// Seek returns the index of the first entry, from index i on, whose id is not less than the
// argument id. It returns Len if there is no such entry. It searches with steps that double,
// beginning with step. With a suitable step, Common is fast both if all sets have similar lengths
// and if one of them is much longer than the first.
func (s *Set) Seek(i int, id entry.ID, step int) int {
	rest := s.ids[i:]
	from, to := 0, 0
	for to < len(rest) && rest[to].Compare(id) < 0 {
		from, to = to+1, to+step
		step *= 2
	}
	to = min(to, len(rest))
	return i + from + sort.Search(to-from, func(k int) bool {
		return rest[from+k].Compare(id) >= 0
	})
}

// A Change records that an entry has the value, and that Parent is the parent of the
// entry. If Gone is set, it records that the entry does not have the value.
type Change struct {
	ID, Parent entry.ID
	Gone       bool
}

// With returns a copy of the set with the given changes applied. It sorts the slice changes.
func (s *Set) With(changes []Change) *Set {
	slices.SortFunc(changes, func(a, b Change) int { return a.ID.Compare(b.ID) })
	n := &Set{ids: make([]entry.ID, 0, len(s.ids)+len(changes)), parents: slices.Clone(s.parents)}
	if s.of != nil {
		n.of = make([]entry.ID, 0, (cap(n.ids)+3)/4)
	}
	at := 0
	for _, c := range changes {
		to := s.Seek(at, c.ID, 1)
		n.extend(s, at, to)
		if at = to; at < len(s.ids) && s.ids[at] == c.ID {
			at++
		}
		if !c.Gone {
			n.Append(c.ID, c.Parent)
		}
	}
	n.extend(s, at, len(s.ids))
	return n
}

// extend appends the entries s[from:to]. The parents of n must begin with the parents of
// s.
func (n *Set) extend(s *Set, from, to int) {
	for i := from; i < to && n.of != nil; i++ {
		var p uint32
		if s.of != nil {
			p = s.parentOf(i)
		}
		n.setParent(len(n.ids)+i-from, p)
	}
	n.ids = append(n.ids, s.ids[from:to]...)
}

// Common calls yield for each entry that all sets contain, until yield returns false. The
// argument of yield is the entry's index in sets[0]. Common begins at index i of sets[0].
// The first set should be the shortest.
func Common(sets []*Set, i int, yield func(i int) bool) {
	first, rest := sets[0], sets[1:]
	at := make([]int, len(rest))
	steps := make([]int, len(rest))
	for k, s := range rest {
		steps[k] = max(1, s.Len()/max(1, first.Len()))
	}
next:
	for ; i < first.Len(); i++ {
		id := first.ids[i]
		for k, s := range rest {
			if at[k] = s.Seek(at[k], id, steps[k]); at[k] == s.Len() {
				return
			}
			if s.ids[at[k]] != id {
				continue next
			}
		}
		if !yield(i) {
			return
		}
	}
}
