package table

import (
	"context"
	"iter"
	"slices"
)

// A Collector is a Table that can remove history. The tables of all engines are
// Collectors.
type Collector interface {
	// Collect physically removes versions from the given rows. It keeps every version that a
	// state kept by k shows. It returns counts of the removed cells and bytes. An
	// unversioned table has no history, so Collect removes nothing from it. Callers may
	// repeat Collect, and several servers may call it at once. If Collect returns an error,
	// it may have removed some of the versions.
	Collect(ctx context.Context, rows [][]byte, k *Keep) (Collected, error)
	// Forget physically removes rows from an unversioned table. The rows must never be
	// written again.
	Forget(ctx context.Context, rows [][]byte) (Collected, error)
	// Keys streams the keys, in order, of all rows that have any stored cell, including
	// cells that no view shows. The keys stay valid.
	Keys(ctx context.Context, r Range) iter.Seq2[[]byte, error]
}

// A Reclaimer is a Store that releases the space of collected garbage on request.
type Reclaimer interface {
	// Reclaim releases the space of tables that contain much garbage. If now is set, it also
	// releases the space of tables that contain little garbage.
	Reclaim(ctx context.Context, now bool) error
	// Purge rewrites files until no file that the store uses contains data that was
	// replaced or removed before the call. If the store itself deletes the files that it
	// no longer uses, Purge returns after they are deleted.
	Purge(ctx context.Context) error
}

// Collected counts the cells and bytes that a collection removed. An engine need not
// count cells that it removes without reading them.
type Collected struct{ Cells, Bytes int64 }

// Add adds o to the counts.
func (c *Collected) Add(o Collected) {
	c.Cells += o.Cells
	c.Bytes += o.Bytes
}

// Keep specifies which states of rows stay readable.
type Keep struct {
	// Horizon is the first state that is kept, and all later states are kept too. Callers
	// must choose a Horizon up to which no commit of the trunk is pending.
	Horizon Revision
	// Pinned lists states before Horizon that are kept.
	Pinned []Revision
	// Visible reports whether a revision up to Horizon was committed, and Void reports
	// whether it was aborted. Collection does not remove the cells of a revision that was
	// neither committed nor aborted, such as a revision of a branch. If Visible and Void
	// are nil, all revisions were committed.
	Visible, Void func(Revision) bool
	// ShownBy returns the first revision whose state shows r: r itself, or the merge of the
	// branch that r belongs to. If ShownBy is nil, the first revision is always r itself.
	// Collection does not remove the cells of a revision that is first shown by a state
	// above the horizon.
	ShownBy func(r Revision) Revision
	// Families has rules for single families. For these families, the fields Horizon and
	// Pinned of Keep do not apply.
	Families map[Family]FamilyKeep
	// Dry makes a collection count the cells that it would remove, without removing them.
	Dry bool
}

// FamilyKeep is the rule for one family.
type FamilyKeep struct {
	Horizon Revision
	// All removes everything written up to Horizon, even the newest versions.
	All bool
}

// Of returns the rule of a family.
func (k *Keep) Of(f Family) FamilyKeep {
	if r, ok := k.Families[f]; ok {
		return r
	}
	return FamilyKeep{Horizon: k.Horizon}
}

// States returns those states of a family that must be kept, in ascending order: the pinned
// states, then the horizon. The result does not contain the states after the horizon, although
// they are kept too: a collection never removes versions that were written after the horizon.
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

// A standing classifies a revision for collection.
type standing uint8

const (
	counts standing = iota // committed, and not above the horizon
	stays                  // first shown by a state above the horizon, or neither committed nor aborted
	void                   // aborted
)

// Shows reports whether a state shows r. The parameter state is the revision of that state. The
// revision r must be committed.
func (k *Keep) Shows(state, r Revision) bool {
	return r <= state && (k.ShownBy == nil || k.ShownBy(r) <= state) //rule:checkpoint-branches
}

func (k *Keep) standing(r, horizon Revision) standing {
	switch {
	case r > horizon:
		return stays
	case k.Void != nil && k.Void(r):
		return void
	case k.Visible != nil && !k.Visible(r), k.ShownBy != nil && k.ShownBy(r) > horizon:
		return stays
	}
	return counts
}

// A Version is a cell of one column without its value, or a deletion of the row.
type Version struct {
	Revision  Revision
	Tombstone bool
	Kept      bool // a Folder sets this field if the version is kept
	// shown is set if this version is the newest version of its column in some kept state. A
	// tombstone can be the newest version, and so can a cell that a deletion hides.
	shown bool
}

// A Folder decides which versions of one family of a row are kept. Callers call Column
// for each column, and then Deletes.
type Folder struct {
	k       *Keep
	horizon Revision
	states  []Revision
	deleted []Revision // for each state, the newest deletion of the row that the state shows
	oldest  Revision   // the oldest of the kept versions
}

// Fold returns a Folder for a family of a row. deletes are the revisions that deleted
// the row, in any order.
func (k *Keep) Fold(f Family, deletes []Version) *Folder {
	x := &Folder{k: k, horizon: k.Of(f).Horizon, states: k.States(f), oldest: ^Revision(0)}
	x.deleted = make([]Revision, len(x.states))
	for _, d := range deletes {
		if k.standing(d.Revision, x.horizon) != counts {
			continue
		}
		for i, s := range x.states {
			if k.Shows(s, d.Revision) {
				x.deleted[i] = max(x.deleted[i], d.Revision)
			}
		}
	}
	return x
}

// Column sets Kept in a column's versions, which must be sorted newest first.
func (x *Folder) Column(vs []Version) {
	for i := range vs {
		vs[i].Kept = x.k.standing(vs[i].Revision, x.horizon) == stays
	}
	x.show(vs)
	older := false
	for i := len(vs) - 1; i >= 0; i-- {
		v := &vs[i]
		// A tombstone is kept if it hides an older version that is also kept.
		v.Kept = v.Kept || v.Tombstone && v.shown && older
		if v.Kept {
			older, x.oldest = true, min(x.oldest, v.Revision)
		}
	}
}

// show finds the newest version of a column in each kept state, and sets shown in this
// version. It also sets Kept, unless the version is a tombstone or a deletion hides it.
func (x *Folder) show(vs []Version) {
	at := 0
	for i := len(x.states) - 1; i >= 0; i-- {
		for at < len(vs) && (!x.k.Shows(x.states[i], vs[at].Revision) || x.k.standing(vs[at].Revision, x.horizon) != counts) {
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

// Deletes sets Kept in the deletions of the row that must be kept. A deletion must be
// kept if collection may not remove it yet, or if it hides older versions of this family
// that are kept. Deletes does not change other deletions.
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

// Row reports which cells and which deletions of a row are kept. The cells must be sorted
// by column and newest first. The deletions of a row hide cells of all families.
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
