package revision

import (
	"slices"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

// A Frontier records how far a consumer has followed the commits of all slots. It
// contains the last revision followed in each slot, sorted by slot. If a slot is missing,
// no commit of that slot was followed. A Frontier is a short form of a Vector, and a sync
// cookie contains one as text.
//
// The commits of one slot become visible in the order of their revisions, except commits that
// are undecided for a long time. The Frontier of a Vector is therefore below such undecided
// commits.
type Frontier []table.Revision

// FrontierOf returns a frontier in which only slot s was followed, up to r.
func FrontierOf(s Slot, r table.Revision) Frontier {
	if r = s.atMost(r); r == 0 {
		return nil
	}
	return Frontier{r}
}

func (f Frontier) index(s Slot) (int, bool) {
	return slices.BinarySearchFunc(f, s, func(r table.Revision, s Slot) int { return int(SlotOf(r)) - int(s) })
}

// Of returns the last revision followed in a slot, or 0.
func (f Frontier) Of(s Slot) table.Revision {
	if i, ok := f.index(s); ok {
		return f[i]
	}
	return 0
}

// Covers reports whether r was followed.
func (f Frontier) Covers(r table.Revision) bool { return r <= f.Of(SlotOf(r)) }

// With returns f advanced to r in the slot of r. It does not change f.
func (f Frontier) With(r table.Revision) Frontier {
	i, ok := f.index(SlotOf(r))
	if ok && f[i] >= r {
		return f
	}
	f = slices.Clone(f)
	if ok {
		f[i] = r
		return f
	}
	return slices.Insert(f, i, r)
}

// Until returns f restricted to revisions up to r.
func (f Frontier) Until(r table.Revision) Frontier {
	var cut Frontier
	for _, x := range f {
		if x = SlotOf(x).atMost(min(x, r)); x != 0 {
			cut = append(cut, x)
		}
	}
	return cut
}

// Max returns the largest revision of the frontier, or 0.
func (f Frontier) Max() table.Revision {
	if len(f) == 0 {
		return 0
	}
	return slices.Max(f)
}

// Frontier returns the frontier of v. For each slot, it contains the revision up to which
// no further revision can become visible. It contains no revisions of branches, because a
// frontier that covers a branch's merge covers the branch.
func (v *Vector) Frontier() Frontier {
	var f Frontier
	for i := range v.slots {
		if r := v.slots[i].frontier(); r != 0 {
			f = append(f, r)
		}
	}
	return f
}

// frontier returns the frontier of one slot.
func (s *slot) frontier() (r table.Revision) {
	if s.id.IsBranch() {
		return 0
	}
	for _, a := range s.archives {
		r = max(r, a.Head, last(a.Late))
	}
	c := &s.cell
	switch {
	case c.State == Free || c.Kind == Branch:
	case c.State == Closed:
		r = max(r, c.Head, last(c.Late))
	default:
		r = max(r, min(c.Head, below(c.Undecided)))
	}
	return s.id.atMost(r)
}

// atMost returns the largest revision of slot s that is not above r.
func (s Slot) atMost(r table.Revision) table.Revision {
	switch by := SlotOf(r); {
	case by == s:
		return r
	case by > s:
		return Make(Millis(r), s, maxCounter)
	case Millis(r) == 0:
		return 0
	}
	return Make(Millis(r)-1, s, maxCounter)
}

// Reached reports whether v shows everything up to f.
func (v *Vector) Reached(f Frontier) bool {
	now := v.Frontier()
	for _, r := range f {
		if !now.Covers(r) {
			return false
		}
	}
	return true
}

// At returns a view of the state at the frontier f. Reached must have returned true for f. The
// view shows the revisions that v shows and that f covers. For a commit in a branch, f must
// cover the merge of the branch instead.
func (v *Vector) At(f Frontier) *FrontierView {
	low := min(v.low, f.Max())
	for i := range v.slots {
		low = min(low, f.lowOf(&v.slots[i]))
	}
	return &FrontierView{v, f, f.Max(), low}
}

// lowOf returns the revision up to which the frontier hides nothing of slot s.
func (f Frontier) lowOf(s *slot) table.Revision {
	switch r := f.Of(s.id); {
	case r >= s.frontier():
		return Last
	case r > 0:
		return r
	case len(s.archives) > 0:
		return s.archives[0].First
	}
	return s.cell.First
}

// A FrontierView shows the part of a vector that a frontier covers.
type FrontierView struct {
	vector   *Vector
	frontier Frontier
	max, low table.Revision
}

// Frontier returns the frontier of the view.
func (v *FrontierView) Frontier() Frontier { return v.frontier }

// Swept returns the result of the vector's Swept.
func (v *FrontierView) Swept(r table.Revision) bool { return v.vector.Swept(r) }

func (v *FrontierView) Max() table.Revision { return v.max }
func (v *FrontierView) Low() table.Revision { return v.low }

func (v *FrontierView) Visible(r table.Revision) bool {
	return v.frontier.Covers(v.vector.ShownBy(r)) && v.vector.Visible(r)
}

// ShownBy returns the result of the vector's ShownBy.
func (v *FrontierView) ShownBy(r table.Revision) table.Revision { return v.vector.ShownBy(r) }

// Settled is like the vector's Settled, for the state at the frontier.
func (v *FrontierView) Settled(table.Revision) table.Revision {
	return v.vector.settledAt(v.frontier.Covers)
}
