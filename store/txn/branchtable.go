package txn

import (
	"maps"
	"slices"

	"github.com/seed-4dac0d86/ldapd/store/journal"
	"github.com/seed-4dac0d86/ldapd/store/revision"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// A branchTable has the branches of a store of one server, including branches that have ended. It
// is immutable. It is nil on a store that never had a branch.
type branchTable struct {
	cells    map[revision.Slot]revision.Cell
	archives map[revision.Slot][]revision.Archive
	open     bool             // at least one slot of a branch is not free
	vector   *revision.Vector // shows the trunk up to the head that finish was called with
}

// branchTableOf returns the branches in a reading of the heads. head is the newest commit of the
// trunk.
func branchTableOf(h *journal.Heads, head table.Revision) *branchTable {
	l := &branchTable{cells: map[revision.Slot]revision.Cell{}, archives: map[revision.Slot][]revision.Archive{}}
	for _, s := range h.Slots() {
		if s.IsBranch() {
			l.cells[s], l.archives[s] = h.Cell(s), h.Archives(s)
		}
	}
	if len(l.cells) == 0 {
		return nil
	}
	return l.finish(head)
}

func (l *branchTable) finish(head table.Revision) *branchTable {
	cells := maps.Clone(l.cells)
	cells[revision.OnlySlot] = revision.Cell{State: revision.Open, Incarnation: 1, Head: head}
	l.vector = revision.NewVector(cells, l.archives)
	for _, c := range l.cells {
		l.open = l.open || c.State != revision.Free
	}
	return l
}

// The method "with" returns a copy of l in which c is the cell of the slot s. If archived is not
// nil, the copy also has a new archive for that slot, made from the cell *archived.
func (l *branchTable) with(s revision.Slot, c revision.Cell, archived *revision.Cell, head table.Revision) *branchTable {
	next := &branchTable{cells: map[revision.Slot]revision.Cell{}, archives: map[revision.Slot][]revision.Archive{}}
	if l != nil {
		maps.Copy(next.cells, l.cells)
		maps.Copy(next.archives, l.archives)
	}
	next.cells[s] = c
	if archived != nil {
		next.archives[s] = append(slices.Clip(next.archives[s]), archived.Archive())
	}
	return next.finish(head)
}

// areOpen reports whether the store may contain cells that the trunk does not show.
func (l *branchTable) areOpen() bool { return l != nil && l.open }

// cell returns the cell of a slot.
func (l *branchTable) cell(s revision.Slot) (c revision.Cell) {
	if l != nil {
		c = l.cells[s]
	}
	return c
}

// setView makes s show the branches that were merged at or below the revision s.max. The
// caller has set s.max.
func (l *branchTable) setView(s *Snapshot) {
	if l == nil {
		return
	}
	v := l.vector.Advanced(revision.OnlySlot, s.max)
	s.view, s.heads, s.recordsMarks = v, v, l.open
}

// noBranchWithin is like revision.Vector.NoBranchWithin. On a store without branches it
// returns r.
func (l *branchTable) noBranchWithin(r table.Revision) table.Revision {
	if l == nil {
		return r
	}
	return l.vector.NoBranchWithin(r)
}
