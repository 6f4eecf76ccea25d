package table

import (
	"context"
	"iter"
	"slices"
)

// A Collector is a Table that can let go of history. All engines' tables are.
type Collector interface {
	// Collect removes from rows, physically, what no reader needs to see the
	// states that k keeps, and returns what it removed. An unversioned table has
	// no history, so nothing. It may be repeated, and called by several servers
	// at once. After an error any part of it may have been done.
	Collect(ctx context.Context, rows [][]byte, k *Keep) (Collected, error)
	// Forget removes rows physically, from an unversioned table. None of them
	// may ever be written again.
	Forget(ctx context.Context, rows [][]byte) (Collected, error)
	// Keys streams the keys of the rows that hold anything, in order: what no
	// view shows too.
	Keys(ctx context.Context, r Range) iter.Seq2[[]byte, error]
}

// A Reclaimer is a Store that gives the space of what was collected back when it is
// told to.
type Reclaimer interface {
	// Reclaim gives back where much was collected; if the space is wanted now,
	// wherever something was.
	Reclaim(ctx context.Context, now bool) error
	// Purge writes files anew until what was replaced or removed before is in
	// none that the store has in use, and returns when the others are gone, as
	// far as that is the store's to do.
	Purge(ctx context.Context) error
}

// Collected counts what was removed; bytes as far as the engine knows them.
type Collected struct{ Cells, Bytes int64 }

// Add counts more.
func (c *Collected) Add(o Collected) {
	c.Cells += o.Cells
	c.Bytes += o.Bytes
}

// Keep says which states of rows stay readable.
type Keep struct {
	// Horizon: every state from it on stays. All revisions up to it are decided.
	Horizon Revision
	// Pinned are older states that stay.
	Pinned []Revision
	// Visible and Void tell of a revision up to Horizon whether it was committed,
	// or given up; what is neither, a branch's, is left alone. Nil: all were
	// committed.
	Visible, Void func(Revision) bool
	// Families have rules of their own instead of Horizon and Moments.
	Families map[Family]FamilyKeep
	// Dry counts and removes nothing.
	Dry bool
}

// FamilyKeep is what stays of one family.
type FamilyKeep struct {
	Horizon Revision
	// All says that nothing written up to Horizon stays, not even the newest.
	All bool
}

// Of returns the rule of a family.
func (k *Keep) Of(f Family) FamilyKeep {
	if r, ok := k.Families[f]; ok {
		return r
	}
	return FamilyKeep{Horizon: k.Horizon}
}

// States returns the oldest states of a family that stay, ascending: those pinned,
// then the horizon. Later ones show the same as the horizon except what was
// written since.
func (k *Keep) States(f Family) []Revision {
	rule, own := k.Families[f]
	switch {
	case !own:
		states := slices.DeleteFunc(slices.Clone(k.Pinned), func(m Revision) bool { return m >= k.Horizon })
		slices.Sort(states)
		return append(slices.Compact(states), k.Horizon)
	case rule.All:
		return nil
	}
	return []Revision{rule.Horizon}
}

// A standing is what is known of a revision when history is collected.
type standing uint8

const (
	counts standing = iota // committed, up to the horizon
	stays                  // after the horizon, or not to be judged
	void                   // given up
)

func (k *Keep) standing(r, horizon Revision) standing {
	switch {
	case r > horizon:
		return stays
	case k.Void != nil && k.Void(r):
		return void
	case k.Visible != nil && !k.Visible(r):
		return stays
	}
	return counts
}

// A Version is a cell of one column, or a deletion of the row, without its value.
type Version struct {
	Revision  Revision
	Tombstone bool
	Kept      bool // set by a Folder
	shown     bool // by a state, be it a tombstone or hidden by a deletion
}

// A Folder decides which versions of a family of one row stay: call Column for
// each column, then Deletes.
type Folder struct {
	k       *Keep
	horizon Revision
	states  []Revision
	deleted []Revision // of each state: the newest deletion of the row it shows
	oldest  Revision   // of the versions that stay
}

// Fold begins with a family of a row that was deleted by some revisions, in any
// order.
func (k *Keep) Fold(f Family, deletes []Version) *Folder {
	x := &Folder{k: k, horizon: k.Of(f).Horizon, states: k.States(f), oldest: ^Revision(0)}
	x.deleted = make([]Revision, len(x.states))
	for _, d := range deletes {
		if k.standing(d.Revision, x.horizon) != counts {
			continue
		}
		for i, s := range x.states {
			if d.Revision <= s {
				x.deleted[i] = max(x.deleted[i], d.Revision)
			}
		}
	}
	return x
}

// Column sets Kept of a column's versions, newest first.
func (x *Folder) Column(vs []Version) {
	for i := range vs {
		vs[i].Kept = x.k.standing(vs[i].Revision, x.horizon) == stays
	}
	x.show(vs)
	older := false
	for i := len(vs) - 1; i >= 0; i-- {
		v := &vs[i]
		// What hides an older one that stays does so too.
		v.Kept = v.Kept || v.Tombstone && v.shown && older
		if v.Kept {
			older, x.oldest = true, min(x.oldest, v.Revision)
		}
	}
}

// show finds what the states show of a column.
func (x *Folder) show(vs []Version) {
	at := 0
	for i := len(x.states) - 1; i >= 0; i-- {
		for at < len(vs) && (vs[at].Revision > x.states[i] || x.k.standing(vs[at].Revision, x.horizon) != counts) {
			at++
		}
		if at == len(vs) {
			return
		}
		v := &vs[at]
		v.shown = true
		v.Kept = v.Kept || !v.Tombstone && v.Revision >= x.deleted[i]
	}
}

// Deletes sets Kept of those deletions of the row that hide something older in
// this family that stays, and leaves the others as they are.
func (x *Folder) Deletes(ds []Version) {
	for i := range ds {
		d := &ds[i]
		switch x.k.standing(d.Revision, x.horizon) {
		case stays:
			d.Kept = true
		case counts:
			d.Kept = d.Kept || x.oldest < d.Revision && slices.Contains(x.deleted, d.Revision)
		}
	}
}

// Row tells of every cell of a row, sorted by column and newest first, whether it
// stays, and the same of the row's deletions, which hide cells of all families.
func (k *Keep) Row(cells []Cell, deletes []Revision) (cellStays, deleteStays []bool) {
	ds := make([]Version, len(deletes))
	for i, r := range deletes {
		ds[i].Revision = r
	}
	cellStays = make([]bool, len(cells))
	var fold *Folder
	var vs []Version
	for i := 0; i < len(cells); {
		if i == 0 || cells[i].Family != cells[i-1].Family {
			if fold != nil {
				fold.Deletes(ds)
			}
			fold = k.Fold(cells[i].Family, ds)
		}
		vs = vs[:0]
		for j := i; j < len(cells) && cells[j].Compare(cells[i]) == 0; j++ {
			vs = append(vs, Version{Revision: cells[j].Revision, Tombstone: cells[j].Tombstone})
		}
		fold.Column(vs)
		for j := range vs {
			cellStays[i+j] = vs[j].Kept
		}
		i += len(vs)
	}
	if fold != nil {
		fold.Deletes(ds)
	}
	deleteStays = make([]bool, len(ds))
	for i, d := range ds {
		deleteStays[i] = d.Kept || k.standing(d.Revision, k.Horizon) == stays
	}
	return cellStays, deleteStays
}
