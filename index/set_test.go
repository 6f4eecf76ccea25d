package index_test

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/seed-4dac0d86/ldapd/index"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

func drawID(t *rapid.T, label string) entry.ID {
	return entry.ID{15: rapid.Byte().Draw(t, label)}
}

// drawSet draws a set, and returns it with a map from the same ids to their parents.
func drawSet(t *rapid.T) (*index.Set, map[entry.ID]entry.ID) {
	model := map[entry.ID]entry.ID{}
	for range rapid.IntRange(0, 60).Draw(t, "length") {
		model[drawID(t, "id")] = entry.ID{0: 1, 15: rapid.Byte().Draw(t, "parent") % 40}
	}
	return setOf(model), model
}

func setOf(model map[entry.ID]entry.ID) *index.Set {
	s := &index.Set{}
	for _, id := range slices.SortedFunc(maps.Keys(model), entry.ID.Compare) {
		s.Append(id, model[id])
	}
	s.Clip()
	return s
}

func contents(s *index.Set) map[entry.ID]entry.ID {
	m := map[entry.ID]entry.ID{}
	for i := range s.Len() {
		m[s.ID(i)] = s.Parent(i)
	}
	return m
}

// TestSetWith checks that With returns the same entries as a map with the same changes,
// that they are in order, and that the original set is unchanged.
func TestSetWith(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, model := drawSet(t)
		before := maps.Clone(model)
		var changes []index.Change
		for _, id := range rapid.SliceOfNDistinct(rapid.Byte(), 0, 20, rapid.ID[byte]).Draw(t, "changes") {
			c := index.Change{ID: entry.ID{15: id}, Parent: entry.ID{0: 2, 15: id % 3}, Gone: rapid.Bool().Draw(t, "gone")}
			if changes = append(changes, c); c.Gone {
				delete(model, c.ID)
			} else {
				model[c.ID] = c.Parent
			}
		}
		n := s.With(changes)
		if !maps.Equal(contents(n), model) || n.Len() != len(model) {
			t.Fatalf("%v, want %v", contents(n), model)
		}
		if again := index.SetOf(n.AppendTo(nil), n.Len(), n.Parents()); !maps.Equal(contents(&again), model) {
			t.Fatalf("in a list: %v, want %v", contents(&again), model)
		}
		if !maps.Equal(contents(s), before) {
			t.Fatalf("the set before became %v, it was %v", contents(s), before)
		}
		for i := 1; i < n.Len(); i++ {
			if n.ID(i-1).Compare(n.ID(i)) >= 0 {
				t.Fatalf("%v before %v", n.ID(i-1), n.ID(i))
			}
		}
	})
}

func TestSetCommon(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var sets []*index.Set
		var models []map[entry.ID]entry.ID
		for range rapid.IntRange(1, 4).Draw(t, "sets") {
			s, m := drawSet(t)
			sets, models = append(sets, s), append(models, m)
		}
		after := drawID(t, "after")
		var want, got []entry.ID
		for _, id := range slices.SortedFunc(maps.Keys(models[0]), entry.ID.Compare) {
			inAll := !slices.ContainsFunc(models, func(m map[entry.ID]entry.ID) bool { _, ok := m[id]; return !ok })
			if inAll && id.Compare(after) > 0 {
				want = append(want, id)
			}
		}
		index.Common(sets, sets[0].Behind(after[:]), func(i int) bool {
			got = append(got, sets[0].ID(i))
			return true
		})
		if !slices.Equal(got, want) {
			t.Fatalf("%v, want %v", got, want)
		}
	})
}

func TestSetSeek(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, _ := drawSet(t)
		from := rapid.IntRange(0, s.Len()).Draw(t, "from")
		id := drawID(t, "id")
		want := from
		for want < s.Len() && s.ID(want).Compare(id) < 0 {
			want++
		}
		if got := s.Seek(from, id, rapid.IntRange(1, 9).Draw(t, "step")); got != want {
			t.Fatalf("%d, want %d", got, want)
		}
	})
}
