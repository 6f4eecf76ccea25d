package materialized

import (
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/revision"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/txn"
)

// none selects no attributes.
var none = []*schema.AttributeType{}

// A lane is one of the parts into which entries are divided by the first octet of their
// ids: a range of the rows of the table master. The servers of a shared store may work on
// different lanes at the same time. An embedded store has one lane.
type lane struct{ number, of int }

// sharedLanes is the number of lanes of a shared store. It must be a power of two that is not above 256.
const sharedLanes = 4

// lanes returns the lanes of a store.
func lanes(shared bool) []lane {
	n := 1
	if shared {
		n = sharedLanes
	}
	ls := make([]lane, n)
	for i := range ls {
		ls[i] = lane{i, n}
	}
	return ls
}

// lanes returns the lanes of a view.
func (d *Definition) lanes(db *txn.DB) []lane { return lanes(db.Shared() && d.Kind != Subordinates) }

// has reports whether an entry is in the lane.
func (l lane) has(id entry.ID) bool { return int(id[0])*l.of>>8 == l.number }

// rows returns the range of the lane's rows in the table master.
func (l lane) rows() (r table.Range) {
	if l.number > 0 {
		r.Start = []byte{byte(256 / l.of * l.number)}
	}
	if l.number < l.of-1 {
		r.End = []byte{byte(256 / l.of * (l.number + 1))}
	}
	return r
}

// slot returns the number that the boundaries of the lane contain as their slot. In the
// revision of a commit, the slot is that of a server or a branch.
func (l lane) slot() revision.Slot { return revision.OnlySlot + revision.Slot(l.number) }

// boundary returns the largest revision with the lane's slot that is not above r. A step
// of the lane writes all its cells at the boundary at which it ends. No boundary belongs
// to two lanes.
func (l lane) boundary(r table.Revision) table.Revision {
	return revision.FrontierOf(l.slot(), r).Max()
}

// column is the qualifier of the lane's column.
func (l lane) column() []byte { return []byte{byte(l.number)} }

// finished is a table.View of a view's table. For each lane it contains the end of a
// finished step, and shows the cells of the lane's steps up to and including that step.
type finished []table.Revision

func (f finished) Max() table.Revision {
	var m table.Revision
	for _, r := range f {
		m = max(m, r)
	}
	return m
}

func (f finished) Low() table.Revision {
	low := revision.Last
	for _, r := range f {
		low = min(low, r)
	}
	return low
}

func (f finished) Visible(r table.Revision) bool {
	n := int(revision.SlotOf(r)) - int(revision.OnlySlot)
	return n >= 0 && n < len(f) && r <= f[n]
}

// upTo is a table.View of everything up to a revision.
type upTo table.Revision

func (u upTo) Max() table.Revision           { return table.Revision(u) }
func (u upTo) Low() table.Revision           { return table.Revision(u) }
func (u upTo) Visible(r table.Revision) bool { return r <= table.Revision(u) }
