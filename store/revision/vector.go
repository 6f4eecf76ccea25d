package revision

import (
	"slices"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

// A Vector contains the heads of all slots at one time, and the archives of their former
// holders. A Vector is immutable. Vectors read from one row form a chain: a later vector
// shows everything that an earlier vector shows.
type Vector struct {
	slots    []slot // sorted by id
	max, low table.Revision
	stable   table.Revision
	decided  table.Revision
	// settled is the result of Settled for states at or after lastMerge, the newest
	// merge.
	settled, lastMerge table.Revision
}

type slot struct {
	id       Slot
	cell     Cell
	archives []Archive // sorted by First
}

var _ table.View = (*Vector)(nil)

// NewVector returns the vector of the given cells and archives. Every slot with archives
// must have a cell.
func NewVector(cells map[Slot]Cell, archives map[Slot][]Archive) *Vector {
	v := &Vector{stable: Last, decided: Last}
	for id, c := range cells {
		a := slices.Clone(archives[id])
		slices.SortFunc(a, func(a, b Archive) int { return a.First.Compare(b.First) })
		v.slots = append(v.slots, slot{id, c, a})
	}
	slices.SortFunc(v.slots, func(a, b slot) int { return int(a.id) - int(b.id) })
	for i := range v.slots {
		v.count(&v.slots[i])
	}
	v.stable, v.decided = min(v.stable, v.max), min(v.decided, v.max)
	v.low = v.stable
	for i := range v.slots {
		if c := &v.slots[i].cell; c.State != Free && c.Kind == Server {
			v.low = min(v.low, below(c.Void)) //rule:low-void
		}
	}
	v.settled = v.settledAt(func(m table.Revision) bool {
		v.lastMerge = max(v.lastMerge, m)
		return true
	})
	return v
}

// Advanced returns the vector after the head of a slot has risen to r. The slot must be
// open and without exceptions, and no other slot may belong to a server.
func (v *Vector) Advanced(id Slot, r table.Revision) *Vector {
	next := *v
	next.slots = slices.Clone(v.slots)
	next.slot(id).cell.Head = r
	next.max, next.stable, next.low, next.decided = max(v.max, r), r, r, r
	return &next
}

// count includes slot s in v.max, v.stable and v.decided.
func (v *Vector) count(s *slot) {
	for _, a := range s.archives {
		v.max = max(v.max, a.Head, last(a.Late))
	}
	c := &s.cell
	if c.State == Free || c.Kind == Branch {
		return
	}
	v.max = max(v.max, c.Head, last(c.Late))             //rule:late-max
	v.stable = min(v.stable, c.Head, below(c.Undecided)) //rule:low-undecided
	if c.State != Closed {
		v.decided = min(v.decided, c.Head, below(c.Undecided))
	}
}

func last(rs []table.Revision) table.Revision {
	if len(rs) == 0 {
		return 0
	}
	return rs[len(rs)-1]
}

// The function "below" returns the revision before the first revision of a sorted list, or Last
// if the list is empty.
func below(rs []table.Revision) table.Revision {
	if len(rs) == 0 {
		return Last
	}
	return rs[0] - 1
}

// Max implements table.View. It returns the largest revision that may be visible.
func (v *Vector) Max() table.Revision { return v.max }

// Stable returns the low-water mark S. Only the merge of a branch can still change which
// revisions up to S are visible. Slots that were cleaned up and freed are not considered.
func (v *Vector) Stable() table.Revision { return v.stable }

// Decided returns a revision up to which no further commit of a server can become visible.
// It may be larger than Stable while a closed slot waits until the cells of its void
// revisions are removed.
func (v *Vector) Decided() table.Revision { return v.decided }

// Low implements table.View. Low is at most Stable, and below every void revision of a
// server that may have left cells.
func (v *Vector) Low() table.Revision { return v.low }

// Visible implements table.View. It reports whether the vector shows the cells of r.
func (v *Vector) Visible(r table.Revision) bool {
	s := v.slot(SlotOf(r))
	if s == nil {
		return false
	}
	c := &s.cell
	if c.State == Free || r < c.First { //rule:incarnation
		return s.archived(r)
	}
	if c.Kind == Branch && !v.merged(c) {
		return false
	}
	a := c.Archive()
	return a.Shows(r)
}

// ShownBy returns the first revision whose state can show r. If r belongs to a branch,
// that is the revision of the branch's merge, otherwise r itself. ShownBy returns Last if r
// belongs to a branch whose cell names no merge. It does not test whether r is visible.
func (v *Vector) ShownBy(r table.Revision) table.Revision {
	if !SlotOf(r).IsBranch() {
		return r
	}
	by := table.Revision(0)
	if s := v.slot(SlotOf(r)); s != nil {
		if c := &s.cell; c.State == Free || r < c.First {
			by = s.archiveOf(r).Merge
		} else if c.State == Merging || c.State == Merged {
			by = c.Merge
		}
	}
	if by == 0 {
		return Last
	}
	return by
}

// VisibleAt reports whether the state at a revision shows r. A state that is not older than a
// branch's merge shows the commits of the branch.
func (v *Vector) VisibleAt(r, at table.Revision) bool { return v.ShownBy(r) <= at && v.Visible(r) }

// Settled returns a revision s for the state at a revision, the parameter at. Of the cells in
// the store that commits in branches wrote, this state shows all cells up to s. If it shows all
// of them, s is Last.
func (v *Vector) Settled(at table.Revision) table.Revision {
	if at >= v.lastMerge {
		return v.settled
	}
	return v.settledAt(func(merge table.Revision) bool { return merge <= at })
}

func (v *Vector) settledAt(shows func(merge table.Revision) bool) table.Revision {
	settled := Last
	for i := len(v.slots) - 1; i >= 0 && v.slots[i].id.IsBranch(); i-- {
		s := &v.slots[i]
		for _, a := range s.archives {
			if a.Merge != 0 && !shows(a.Merge) {
				settled = min(settled, a.First)
			}
		}
		switch c := &s.cell; {
		case c.State == Free:
		case v.merged(c) && shows(c.Merge):
			settled = min(settled, below(c.Void))
		default:
			settled = min(settled, c.First)
		}
	}
	return settled
}

// NoBranchWithin returns a revision that is at most r. For every branch that began before the
// result, one of three things is true: the branch was merged at or before the result, it was
// parked, or it has left no cells in the store.
func (v *Vector) NoBranchWithin(r table.Revision) table.Revision {
	for {
		was := r
		if r = v.noBranchWithin(r); r == was {
			return r
		}
	}
}

// noBranchWithin is one step of NoBranchWithin. It returns at most r. If the result is
// below r, a branch may have begun before the result and been merged after it.
func (v *Vector) noBranchWithin(r table.Revision) table.Revision {
	for i := len(v.slots) - 1; i >= 0 && v.slots[i].id.IsBranch(); i-- {
		s := &v.slots[i]
		for _, a := range s.archives {
			if a.Merge > r {
				r = min(r, a.First)
			}
		}
		if c := &s.cell; c.State != Free && !c.WasParked() {
			r = min(r, c.Base)
		}
	}
	return r
}

// ParkedBases returns the bases of parked branches. The bases of branches that were parked and
// later discarded are included until the cells of these branches are removed, because readers
// may still use these bases.
func (v *Vector) ParkedBases() (bases []table.Revision) {
	for i := len(v.slots) - 1; i >= 0 && v.slots[i].id.IsBranch(); i-- {
		if c := &v.slots[i].cell; c.State != Free && c.WasParked() {
			bases = append(bases, c.Base)
		}
	}
	return bases
}

// Void reports whether it is known that r can never become visible. Either r was aborted,
// or the holder that issued r can commit no more and r is not one of its commits. If Void
// returns false, it is still possible that r never becomes visible.
func (v *Vector) Void(r table.Revision) bool {
	s := v.slot(SlotOf(r))
	if s == nil {
		return false
	}
	c := &s.cell
	switch {
	case c.State == Free || r < c.First:
		return !s.archived(r)
	case c.State == Closed:
		a := c.Archive()
		return !a.Shows(r)
	}
	return contains(c.Void, r)
}

// Swept reports whether the holder that issued r no longer has the slot, and the cells of
// its aborted commits have been removed.
func (v *Vector) Swept(r table.Revision) bool {
	s := v.slot(SlotOf(r))
	return s == nil || s.cell.State == Free || r < s.cell.First
}

// merged reports whether the trunk shows a branch. It does if the branch's merge is visible.
// Only a commit in the slot of a server can be a merge.
func (v *Vector) merged(c *Cell) bool {
	if c.State != Merging && c.State != Merged {
		return false
	}
	by := v.slot(SlotOf(c.Merge))
	return by != nil && by.cell.Kind == Server && v.Visible(c.Merge)
}

func (v *Vector) slot(id Slot) *slot {
	i, ok := slices.BinarySearchFunc(v.slots, id, func(s slot, id Slot) int { return int(s.id) - int(id) })
	if !ok {
		return nil
	}
	return &v.slots[i]
}

// archived reports whether an archive shows r.
func (s *slot) archived(r table.Revision) bool {
	a := s.archiveOf(r)
	return a.First != 0 && a.Shows(r)
}

// archiveOf returns the archive of the incarnation that issued r, or the zero Archive.
func (s *slot) archiveOf(r table.Revision) (a Archive) {
	i, ok := slices.BinarySearchFunc(s.archives, r, func(a Archive, r table.Revision) int { return a.First.Compare(r) })
	if !ok {
		i--
	}
	if i >= 0 {
		a = s.archives[i]
	}
	return a
}

// Cell returns a slot's cell, or the zero Cell if the slot has no cell.
func (v *Vector) Cell(id Slot) Cell {
	if s := v.slot(id); s != nil {
		return s.cell
	}
	return Cell{}
}

// Archives returns the archives of the former holders of a slot, sorted by First.
func (v *Vector) Archives(id Slot) []Archive {
	if s := v.slot(id); s != nil {
		return s.archives
	}
	return nil
}

// Slots lists the slots that have a cell, in order.
func (v *Vector) Slots() []Slot {
	ids := make([]Slot, len(v.slots))
	for i := range v.slots {
		ids[i] = v.slots[i].id
	}
	return ids
}
