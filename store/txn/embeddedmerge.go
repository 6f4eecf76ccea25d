package txn

import (
	"bytes"
	"context"
	"maps"
	"slices"

	"github.com/seed-4dac0d86/ldapd/store/journal"
	"github.com/seed-4dac0d86/ldapd/store/revision"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// An embeddedMergeCheck looks for conflicts that keep a branch from being merged, on a store of
// one server. It compares the marks of all commits after the branch's base with the
// branch's summary. It reads the branch's own records only if the summary may contain a
// mark that conflicts with one of those marks.
type embeddedMergeCheck struct {
	e     *embedded
	slot  revision.Slot
	cell  revision.Cell
	heads *revision.Vector
	own   *branchSummary

	beside   map[string][][]byte         // by table: Record.Beside of the commits after the base
	upTo     table.Revision              // the trunk's commits up to here are compared with the summary
	suspects map[uint64][]suspect        // by row hash: marks to be compared with the branch's records
	met      map[uint64][]table.Revision // by row hash: the commits whose marks conflict with the branch's marks
}

// A suspect is a mark of a commit that is not in the branch.
type suspect struct {
	mark Mark
	by   table.Revision
}

// checkBranch compares a branch with the commits that are shown. The caller holds
// e.branching, so the branch does not change.
func (e *embedded) checkBranch(ctx context.Context, b *Branch) (*embeddedMergeCheck, error) {
	c, err := e.current(b)
	if err == nil {
		err = b.changeable(&c)
	}
	if err != nil {
		return nil, err
	}
	own, err := e.summary(ctx, b.slot, &c)
	if err != nil {
		return nil, err
	}
	now := e.db.current.Load()
	x := &embeddedMergeCheck{
		e: e, slot: b.slot, cell: c, heads: now.heads, own: own, upTo: c.Base,
		beside: map[string][][]byte{}, suspects: map[uint64][]suspect{}, met: map[uint64][]table.Revision{},
	}
	return x, x.compareUpTo(ctx, now.max)
}

// compareUpTo compares the branch with the trunk's commits up to a revision.
func (x *embeddedMergeCheck) compareUpTo(ctx context.Context, upTo table.Revision) error {
	if err := x.others(ctx, upTo); err != nil || len(x.suspects) == 0 {
		return err
	}
	defer clear(x.suspects)
	for rec, err := range x.e.db.log.Scan(ctx, x.slot, x.cell.First, x.cell.Head) {
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
func (x *embeddedMergeCheck) confirm(m placed) {
	for _, s := range x.suspects[m.row] {
		if s.mark.conflicts(m.Mark) && !slices.Contains(x.met[m.row], s.by) {
			x.met[m.row] = append(x.met[m.row], s.by)
		}
	}
}

// The method "others" looks for suspects in the trunk's commits up to a revision, and in all
// branches that these commits merged.
func (x *embeddedMergeCheck) others(ctx context.Context, upTo table.Revision) error {
	for rec, err := range x.e.db.log.Scan(ctx, revision.OnlySlot, x.upTo, upTo) {
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

func (x *embeddedMergeCheck) other(ctx context.Context, rec *journal.Record) error {
	if err := x.compare(rec); err != nil || rec.Kind != journal.Merge {
		return err
	}
	for _, s := range x.heads.Slots() {
		for _, a := range x.heads.Archives(s) {
			if a.Merge != rec.Revision {
				continue
			}
			for rec, err := range x.e.db.log.Scan(ctx, s, a.First, a.Head) {
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
func (x *embeddedMergeCheck) compare(rec *journal.Record) error {
	marks, err := notesOf(rec)
	if err != nil {
		return err
	}
	for _, m := range marks {
		if x.own.mayMeet(m) {
			x.suspects[m.row] = append(x.suspects[m.row], suspect{m.Mark, rec.Revision})
		}
	}
	addRows(x.beside, rec.Beside)
	return nil
}

// clashes returns the rows with conflicting marks of the branch and other commits. It
// finds the keys of these rows in the branch's records, because marks in the journal have
// only hashes of rows.
func (x *embeddedMergeCheck) clashes(ctx context.Context) (clashes []Clash, err error) {
	if len(x.met) == 0 {
		return nil, nil
	}
	seen := map[uint64]bool{}
	for rec, err := range x.e.db.log.Lists(ctx, x.slot, x.cell.First, x.cell.Head) {
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

// sortedRows lists rows by table and key, each once.
func sortedRows(keys map[string][][]byte) (rows []table.Rows) {
	for _, name := range slices.Sorted(maps.Keys(keys)) {
		ks := slices.Clone(keys[name])
		slices.SortFunc(ks, bytes.Compare)
		rows = append(rows, table.Rows{Table: name, Keys: slices.CompactFunc(ks, bytes.Equal)})
	}
	return rows
}
