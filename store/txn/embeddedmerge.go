package txn

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/seed-4dac0d86/ldapd/store/journal"
	"github.com/seed-4dac0d86/ldapd/store/revision"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// An embeddedMerge is the merge of a branch on a store of one server. It looks for conflicts first:
// it compares the marks of all commits after the branch's base with the branch's summary. It reads
// the branch's own records only if the summary may contain a mark that conflicts with one of those
// marks.
type embeddedMerge struct {
	branches *embeddedBrancher
	slot     revision.Slot
	cell     revision.Cell
	heads    *revision.Vector
	own      *branchSummary

	hidden   map[string][][]byte         // by table: Record.Hidden of the commits after the base
	upTo     table.Revision              // the trunk's commits up to here are compared with the summary
	suspects map[uint64][]suspect        // by row hash: marks to be compared with the branch's records
	met      map[uint64][]table.Revision // by row hash: the commits whose marks conflict with the branch's marks
}

// A suspect is a mark of a commit that is not in the branch.
type suspect struct {
	mark Mark
	by   table.Revision
}

// check compares a branch with the commits that are shown. The caller holds
// x.changing, so the branch does not change.
func (x *embeddedBrancher) check(ctx context.Context, b *Branch) (*embeddedMerge, error) {
	c, err := x.current(b)
	if err == nil {
		err = b.changeable(&c)
	}
	if err != nil {
		return nil, err
	}
	own, err := x.summary(ctx, b.slot, &c)
	if err != nil {
		return nil, err
	}
	now := x.e.db.current.Load()
	m := &embeddedMerge{
		branches: x, slot: b.slot, cell: c, heads: now.heads, own: own, upTo: c.Base,
		hidden: map[string][][]byte{}, suspects: map[uint64][]suspect{}, met: map[uint64][]table.Revision{},
	}
	return m, m.compareUpTo(ctx, now.max)
}

// errSuspects means that a commit made since the last comparison has to be compared with
// the branch's records.
var errSuspects = errors.New("a commit may conflict with the branch")

// swap merges a branch that nothing conflicts with. It returns errSuspects if a
// commit that was not compared yet may conflict.
func (x *embeddedMerge) swap(ctx context.Context, message []byte) (m table.Revision, err error) {
	err = x.branches.swap(ctx, func() (*change, error) {
		before := x.upTo
		if err := x.others(ctx, x.branches.e.last.head); err != nil {
			return nil, err
		}
		if len(x.suspects) > 0 {
			clear(x.suspects)
			x.upTo = before
			return nil, errSuspects
		}
		c, err := x.change(message)
		if err == nil {
			m = c.batch.Revision
		}
		return c, err
	})
	if err == nil {
		delete(x.branches.summaries, x.slot)
	}
	return m, err
}

// change returns the commit that merges the branch. The caller holds e.mu.
func (x *embeddedMerge) change(message []byte) (*change, error) {
	e := x.branches.e
	m, err := e.clock.Next()
	if err != nil {
		return nil, err
	}
	cell := x.cell
	cell.State, cell.Merge = revision.Merged, m
	archived := cell
	freeing := journal.ArchiveWrite(x.slot, &cell)
	at := position{head: m, ordinal: e.last.ordinal + 1, lines: e.last.lines.with(x.slot, cell, &archived, m)}
	view := e.state(at)
	view.low, view.complete = x.heads.NoBranchWithin(x.cell.Base), true
	hidden := maps.Clone(x.own.hidden)
	for name, keys := range x.hidden {
		hidden[name] = slices.Concat(hidden[name], keys)
	}
	rec := &journal.Record{Revision: m, Prio: m, Kind: journal.Merge, IDs: x.own.ids.all, Keys: x.own.keys.all, AllChanged: x.own.all, Message: message}
	if x.own.all {
		e.db.changes.everything(at.ordinal)
	} else {
		e.db.changes.touch(rec.IDs, rec.Keys, at.ordinal)
	}
	// This makes transactions that began before the merge start again, because their
	// marks are not compared with the marks of the branch.
	e.recent.knownSince = at.ordinal
	return &change{table.Batch{
		Revision: m, View: view, Joined: table.SortedRows(hidden),
		Writes: []table.Write{{Table: journal.Cluster, Mutations: freeing}},
		Last: func(found table.Found) table.Write {
			rec.Hidden = found.Hidden
			return rec.Write()
		},
	}, at}, nil
}

// compareUpTo compares the branch with the trunk's commits up to a revision.
func (x *embeddedMerge) compareUpTo(ctx context.Context, upTo table.Revision) error {
	if err := x.others(ctx, upTo); err != nil || len(x.suspects) == 0 {
		return err
	}
	defer clear(x.suspects)
	for rec, err := range x.branches.e.db.log.Scan(ctx, x.slot, x.cell.First, x.cell.Head) {
		if err != nil {
			return err
		}
		marks, err := notesOf(&rec)
		if err != nil {
			return err
		}
		for _, m := range marks {
			x.confirm(m)
		}
	}
	return nil
}

// confirm notes which suspects conflict with a mark of the branch.
func (x *embeddedMerge) confirm(m placed) {
	for _, s := range x.suspects[m.row] {
		if s.mark.conflicts(m.Mark) && !slices.Contains(x.met[m.row], s.by) {
			x.met[m.row] = append(x.met[m.row], s.by)
		}
	}
}

// The method "others" looks for suspects in the trunk's commits up to a revision, and in all
// branches that these commits merged.
func (x *embeddedMerge) others(ctx context.Context, upTo table.Revision) error {
	for rec, err := range x.branches.e.db.log.Scan(ctx, revision.OnlySlot, x.upTo, upTo) {
		if err == nil && rec.State == journal.Committed {
			err = x.other(ctx, &rec)
		}
		if err != nil {
			return err
		}
	}
	x.upTo = max(x.upTo, upTo)
	return nil
}

func (x *embeddedMerge) other(ctx context.Context, rec *journal.Record) error {
	if err := x.compare(rec); err != nil || rec.Kind != journal.Merge {
		return err
	}
	for _, s := range x.heads.Slots() {
		for _, a := range x.heads.Archives(s) {
			if a.Merge != rec.Revision {
				continue
			}
			for rec, err := range x.branches.e.db.log.Scan(ctx, s, a.First, a.Head) {
				if err == nil {
					err = x.compare(&rec)
				}
				if err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// compare looks for suspects in one commit.
func (x *embeddedMerge) compare(rec *journal.Record) error {
	marks, err := notesOf(rec)
	if err != nil {
		return err
	}
	for _, m := range marks {
		if x.own.mayMeet(m) {
			x.suspects[m.row] = append(x.suspects[m.row], suspect{m.Mark, rec.Revision})
		}
	}
	addRows(x.hidden, rec.Hidden)
	return nil
}

// clashes returns the rows with conflicting marks of the branch and other commits. It
// finds the keys of these rows in the branch's records, because marks in the journal have
// only hashes of rows.
func (x *embeddedMerge) clashes(ctx context.Context) (clashes []Clash, err error) {
	if len(x.met) == 0 {
		return nil, nil
	}
	seen := map[uint64]bool{}
	for rec, err := range x.branches.e.db.log.Lists(ctx, x.slot, x.cell.First, x.cell.Head) {
		if err != nil {
			return nil, err
		}
		for _, t := range rec.Rows {
			if !slices.Contains(rec.Marked, t.Table) {
				continue
			}
			for _, key := range t.Keys {
				row := rowHash(t.Table, key)
				for _, r := range x.met[row] {
					if !seen[row] {
						clashes = append(clashes, Clash{t.Table, key, r})
					}
				}
				seen[row] = seen[row] || len(x.met[row]) > 0
			}
		}
	}
	sortClashes(clashes)
	return clashes, nil
}

// gathered is a set of ids or keys for a journal record. The field most is the largest number
// that the record may list. The set stops growing when it has most+1 elements, which shows
// that there are too many for the record.
type gathered[T comparable] struct {
	most int
	set  map[T]bool
	all  []T
}

func (g *gathered[T]) add(xs []T) {
	for _, x := range xs {
		if g.set[x] || g.full() {
			continue
		}
		if g.set == nil {
			g.set = map[T]bool{}
		}
		g.set[x] = true
		g.all = append(g.all, x)
	}
}

// full reports whether the set has stopped growing. In that case the list all may be
// incomplete.
func (g *gathered[T]) full() bool { return len(g.all) > g.most }
