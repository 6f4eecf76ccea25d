package table

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// A history is a row: its cells and deletions, as Keep.Row takes them.
type history struct {
	cells   []Cell
	deletes []Revision
}

func (h history) String() string {
	s := fmt.Sprintf("deleted %d", h.deletes)
	for _, c := range h.cells {
		sign := ""
		if c.Tombstone {
			sign = "-"
		}
		s += fmt.Sprintf(" %c:%s@%d%s", c.Family, c.Qualifier, c.Revision, sign)
	}
	return s
}

func (h *history) sort() {
	slices.SortFunc(h.cells, func(a, b Cell) int {
		if d := a.Compare(b); d != 0 {
			return d
		}
		return int(b.Revision) - int(a.Revision)
	})
}

// The method "at" returns the cells that a state shows according to the contract: the newest
// visible cell of each column, unless that cell is a tombstone or older than the newest visible
// deletion.
func (h history) at(state Revision, shows func(Revision) bool) (got []string) {
	sees := func(r Revision) bool { return r <= state && shows(r) }
	var deleted Revision
	for _, d := range h.deletes {
		if sees(d) {
			deleted = max(deleted, d)
		}
	}
	done := map[string]bool{}
	for _, c := range h.cells {
		column := string(rune(c.Family)) + string(c.Qualifier)
		if done[column] || !sees(c.Revision) {
			continue
		}
		done[column] = true
		if !c.Tombstone && c.Revision >= deleted {
			got = append(got, fmt.Sprint(column, "@", uint64(c.Revision)))
		}
	}
	return got
}

func (h history) collected(k *Keep) history {
	cells, deletes := k.Row(h.cells, h.deletes)
	var left history
	for i, c := range h.cells {
		if cells[i] {
			left.cells = append(left.cells, c)
		}
	}
	for i, d := range h.deletes {
		if deletes[i] {
			left.deletes = append(left.deletes, d)
		}
	}
	return left
}

const lastRevision = 14

func drawHistory(t *rapid.T) (h history) {
	for _, f := range "as" {
		for _, q := range "xy" {
			for _, r := range rapid.SliceOfNDistinct(rapid.IntRange(1, lastRevision), 0, 7, rapid.ID).Draw(t, "versions") {
				h.cells = append(h.cells, Cell{
					Family: Family(f), Qualifier: []byte(string(q)), Revision: Revision(r),
					Tombstone: rapid.IntRange(0, 2).Draw(t, "tombstone") == 0,
				})
			}
		}
	}
	for _, r := range rapid.SliceOfNDistinct(rapid.IntRange(1, lastRevision), 0, 2, rapid.ID).Draw(t, "deletes") {
		h.deletes = append(h.deletes, Revision(r))
	}
	h.sort()
	return h
}

func drawRevision(t *rapid.T, name string) Revision {
	return Revision(rapid.IntRange(0, lastRevision).Draw(t, name))
}

// TestCollectChangesNoRead checks that reads of kept states return the same before and
// after a collection. It uses views that show only committed revisions, and views that
// also show a branch.
func TestCollectChangesNoRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := drawHistory(t)
		k := &Keep{Horizon: drawRevision(t, "horizon")}
		for range rapid.IntRange(0, 2).Draw(t, "pinned") {
			k.Pinned = append(k.Pinned, drawRevision(t, "moment"))
		}
		voids, branch := drawRevision(t, "void"), drawRevision(t, "branch")
		k.Visible = func(r Revision) bool { return r != voids && r != branch }
		k.Void = func(r Revision) bool { return r == voids && r != branch }
		if rapid.Bool().Draw(t, "young") {
			k.Families = map[Family]FamilyKeep{'s': {Horizon: max(k.Horizon, drawRevision(t, "young horizon"))}}
		}
		left := h.collected(k)
		of := func(h history, f Family) history {
			h.cells = slices.DeleteFunc(slices.Clone(h.cells), func(c Cell) bool { return c.Family != f })
			return h
		}
		for _, f := range []Family{'a', 's'} {
			for state := Revision(0); state <= lastRevision; state++ {
				horizon := k.Of(f).Horizon
				_, own := k.Families[f]
				if state < horizon && (own || !slices.Contains(k.Pinned, state)) {
					continue
				}
				for name, shows := range map[string]func(Revision) bool{
					"committed":  k.Visible,
					"the branch": func(r Revision) bool { return k.Visible(r) || r == branch },
				} {
					if want, got := of(h, f).at(state, shows), of(left, f).at(state, shows); !slices.Equal(got, want) {
						t.Fatalf("family %c at %d, %s: %v, was %v\nhorizon %d, pinned %v, %v\nof   %v\nleft %v",
							f, state, name, got, want, k.Horizon, k.Pinned, k.Families, h, left)
					}
				}
			}
		}
		if again := left.collected(k); again.String() != left.String() {
			t.Fatalf("collected once more\n%v\nwas %v", again, left)
		}
		k.leftNothingIdle(t, h, left, voids)
	})
}

// leftNothingIdle checks that a collection has left no unneeded cell up to the horizon. A
// committed cell that is not a tombstone is needed if some kept state would show something else
// without it.
func (k *Keep) leftNothingIdle(t *rapid.T, h, left history, voids Revision) {
	if k.Families != nil {
		return // deletions of the row may be needed for other families
	}
	states := k.States('a')
	for i, c := range left.cells {
		if c.Revision > k.Horizon || k.standing(c.Revision, k.Horizon) == stays {
			continue
		}
		if c.Revision == voids {
			t.Fatalf("%v: a given up cell is left", left)
		}
		without := left
		without.cells = slices.Delete(slices.Clone(left.cells), i, i+1)
		shows := func(r Revision) bool { return k.Visible(r) }
		if !slices.ContainsFunc(states, func(s Revision) bool {
			return !slices.Equal(without.at(s, shows), left.at(s, shows))
		}) && !c.Tombstone {
			t.Fatalf("horizon %d, pinned %v: %s@%d is left for nobody\nof   %v\nleft %v", k.Horizon, k.Pinned, c.Qualifier, c.Revision, h, left)
		}
	}
}

// TestCollect checks which cells and deletions Keep.Row keeps in some small rows.
func TestCollect(t *testing.T) {
	live := func(rs ...Revision) (cs []Cell) {
		for _, r := range rs {
			cs = append(cs, Cell{Family: 'a', Qualifier: []byte("x"), Revision: r})
		}
		return cs
	}
	dead := func(cs []Cell, r Revision) []Cell {
		return append(cs, Cell{Family: 'a', Qualifier: []byte("x"), Revision: r, Tombstone: true})
	}
	for name, x := range map[string]struct {
		h    history
		k    Keep
		want string
	}{
		"the newest at the horizon, and what came after": {
			history{cells: live(1, 3, 5, 7)}, Keep{Horizon: 5}, "deleted [] a:x@7 a:x@5"},
		"the horizon between two": {
			history{cells: live(1, 3, 7)}, Keep{Horizon: 5}, "deleted [] a:x@7 a:x@3"},
		"a moment": {
			history{cells: live(1, 3, 5, 7)}, Keep{Horizon: 7, Pinned: []Revision{4}}, "deleted [] a:x@7 a:x@3"},
		"a moment pins none that follow": {
			history{cells: live(1, 2, 3, 4, 5)}, Keep{Horizon: 5, Pinned: []Revision{1, 1}}, "deleted [] a:x@5 a:x@1"},
		"a tombstone goes with all before": {
			history{cells: dead(live(1, 3), 4)}, Keep{Horizon: 5}, "deleted []"},
		"a tombstone stays over what a moment keeps": {
			history{cells: dead(live(1, 3), 4)}, Keep{Horizon: 5, Pinned: []Revision{3}}, "deleted [] a:x@4- a:x@3"},
		"a deleted row goes": {
			history{live(1, 3), []Revision{4}}, Keep{Horizon: 5}, "deleted []"},
		"a deletion stays over what a moment keeps": {
			history{live(1, 3), []Revision{2, 4}}, Keep{Horizon: 5, Pinned: []Revision{3}}, "deleted [4] a:x@3"},
		"a row deleted and written at once": {
			history{live(1, 4), []Revision{4}}, Keep{Horizon: 5}, "deleted [] a:x@4"},
		"given up": {
			history{cells: live(1, 3)}, Keep{Horizon: 5, Void: func(r Revision) bool { return r == 3 }}, "deleted [] a:x@1"},
		"of a branch": {
			history{cells: live(1, 2, 3)}, Keep{Horizon: 5, Visible: func(r Revision) bool { return r != 2 }}, "deleted [] a:x@3 a:x@2"},
		"marks": {
			history{cells: live(1, 5, 7)}, Keep{Families: map[Family]FamilyKeep{'a': {Horizon: 5, All: true}}}, "deleted [] a:x@7"},
		"a family without a horizon": {
			history{cells: live(1, 5, 7)}, Keep{Families: map[Family]FamilyKeep{'b': {Horizon: 5, All: true}}}, "deleted [] a:x@7 a:x@5 a:x@1"},
	} {
		t.Run(name, func(t *testing.T) {
			x.h.sort()
			if got := x.h.collected(&x.k).String(); got != x.want {
				t.Errorf("left %s, want %s", got, x.want)
			}
		})
	}
}
