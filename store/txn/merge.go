package txn

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/journal"
	"github.com/seed-4dac0d86/ldapd/store/pause"
	"github.com/seed-4dac0d86/ldapd/store/revision"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// A merge makes a branch visible by one commit, m, which the branch's cell names. On a shared
// store, the merge writes no marks: the branch's marks are in the rows already, and a commit of
// the trunk that finds such a mark looks at the branch's cell. Writing the marks again would
// take long and leave m undecided all that time, and the low-water mark cannot pass an
// undecided commit.

// A Clash is a row that a branch and the trunk both changed since the branch began, so that
// neither change can follow the other.
type Clash struct {
	Table string
	Row   []byte
	With  table.Revision // the commit in the trunk, or in another branch that was merged
}

// A ClashError reports that a branch cannot be merged.
type ClashError struct {
	Branch  string
	Clashes []Clash // sorted by table and row
}

func (e *ClashError) Error() string {
	return fmt.Sprintf("the branch %s cannot be merged: since it began, commits changed %d rows that it changed too", e.Branch, len(e.Clashes))
}

// freezes is how many times a merge tries to freeze the branch's cell. Each time, a
// commit of the trunk may thaw the cell again.
const freezes = 3

func (x *clusterBrancher) merge(ctx context.Context, b *Branch, message []byte) (table.Revision, error) {
	for try := range freezes {
		r, met, err := x.tryMerge(ctx, b, message)
		if met == nil || err != nil {
			return r, err
		}
		random := x.e.db.o.random()
		if err := x.awaitFree(ctx, met, random); err != nil {
			return 0, err
		}
		if err := pause.For(ctx, jittered(x.e.db.o.Poll<<try, random)); err != nil {
			return 0, err
		}
	}
	return 0, fmt.Errorf("%w: commits were quicker than the merge of %s", ErrConflict, b.name)
}

func (x *clusterBrancher) clashes(ctx context.Context, b *Branch) ([]Clash, error) {
	c, err := x.read(ctx, b)
	if err != nil {
		return nil, err
	}
	if err := b.changeable(&c.cell); err != nil {
		return nil, err
	}
	return (&mergeCheck{c: *c, dry: true}).run(ctx)
}

// mayHaveChanged returns all ids, because a server does not know the commits that other
// servers make in the branch.
func (x *clusterBrancher) mayHaveChanged(_ context.Context, _ *Branch, ids iter.Seq[entry.ID]) ([]entry.ID, error) {
	return slices.Collect(ids), nil
}

func (x *clusterBrancher) tryMerge(ctx context.Context, b *Branch, message []byte) (r table.Revision, met *branchCell, err error) {
	if err := b.db.gate.enter(ctx, false); err != nil {
		return 0, nil, err
	}
	defer b.db.gate.leave()
	if err := errors.Join(canceled(ctx), x.e.clock.drifted()); err != nil {
		return 0, nil, err
	}
	c, err := x.read(ctx, b)
	if err != nil {
		return 0, nil, err
	}
	if err := b.changeable(&c.cell); err != nil {
		return 0, nil, err
	}
	if c.isBusy() {
		return 0, c, nil
	}
	frozen := c.cell //rule:frozen-first
	frozen.State = revision.Frozen
	if done, err := c.swap(ctx, frozen); err != nil || !done {
		return 0, c, err
	}
	// From here on the branch has exactly the commits that this cell shows.
	check := &mergeCheck{c: *c} //rule:frozen-check
	var clashes []Clash
	err = c.renewing(ctx, func(ctx context.Context) (err error) {
		clashes, err = check.run(ctx) //rule:frozen-run
		return err
	})
	if err != nil || len(clashes) > 0 {
		c.reopen(ctx)
		if errors.Is(err, errTaken) {
			return 0, c, nil
		}
		if err == nil {
			err = &ClashError{b.name, clashes}
		}
		return 0, nil, err
	}
	m := &merger{c: c, rec: &journal.Record{Kind: journal.Merge, IDs: check.ids, Keys: check.keys, AllChanged: check.all, Message: message}}
	return m.commit(context.WithoutCancel(ctx))
}

// A merger commits the merge of a branch whose cell is frozen.
type merger struct {
	c   *branchCell // the frozen cell
	rec *journal.Record
	p   *pendingCommit
}

// commit writes the revision of the merge into the branch's cell, and then commits the merge. If
// the cell is no longer the frozen cell, commit does neither. The merge is an exception below this
// server's head until it is decided. An aborted merge stays an exception until the branch's cell
// no longer names the merge.
func (m *merger) commit(ctx context.Context) (r table.Revision, met *branchCell, err error) {
	w, c := m.c.w, m.c
	w.clock.Observe(max(c.heads.Max(), c.cell.Head)) //rule:merge-above
	w.mu.Lock()
	m.p, err = w.newCommit(m.rec)
	w.mu.Unlock()
	if err != nil {
		return 0, nil, err
	}
	named := *c
	next := c.cell
	next.State, next.Merge = revision.Merging, m.rec.Revision
	done, err := named.swap(ctx, next)
	if err == nil && !done { // another server thawed the branch
		w.finalise(m.p, journal.Aborted)
		return 0, &named, nil
	}
	if err == nil {
		err = w.step(ctx, func(ctx context.Context) error { return w.e.db.log.Begin(ctx, m.rec) })
	}
	if err != nil {
		m.settleLater()
		if errors.Is(err, journal.ErrTaken) { // another server has aborted the merge
			return 0, &named, nil
		}
		return 0, nil, fmt.Errorf("merging: %w", err)
	}
	if err := w.alive(); err != nil {
		m.settleLater()
		return 0, nil, fmt.Errorf("merging: %w", err)
	}
	var state journal.State
	err = w.step(ctx, func(ctx context.Context) (err error) {
		state, err = w.e.db.log.Decide(ctx, m.rec, journal.Committed)
		return err
	})
	switch {
	case err != nil:
		m.settleLater()
		return 0, nil, fmt.Errorf("%w: deciding the merge: %w", ErrUnknown, err)
	case state != journal.Committed:
		m.settleLater()
		return 0, &named, nil
	}
	w.finalise(m.p, journal.Committed)
	if err := w.awaitShown(m.p); err != nil {
		return 0, nil, err
	}
	next = named.cell
	next.State = revision.Merged
	if _, err := named.swap(ctx, next); err != nil {
		w.e.db.o.Log.Debug("the branch's cell still says merging", "branch", c.cell.Owner, "error", err)
	}
	return m.rec.Revision, nil, nil
}

// settleLater finds out the outcome of the merge in the background, and aborts it if it is
// undecided. An aborted merge stays undecided in this server's cell until the branch's cell
// cannot name the merge any more. If the answer to the swap that names the merge was lost, the
// swap may still reach the store. The swap fails once the branch's cell has changed.
func (m *merger) settleLater() { m.c.w.resolver.until(m.p, m.settle) }

// settle decides the merge.
func (m *merger) settle(ctx context.Context) (state journal.State, err error) {
	w := m.c.w
	err = w.step(ctx, func(ctx context.Context) error {
		if state, err = w.e.db.log.Decide(ctx, m.rec, journal.Aborted); err == nil && state == journal.None {
			var is journal.Record
			is, err = w.e.db.log.Forbid(ctx, m.rec.Revision, w.e.db.o.random())
			state = is.State
		}
		return err
	})
	if err != nil || state == journal.Committed {
		return state, err
	}
	now := *m.c
	for string(now.raw) == string(m.c.raw) || now.cell.State == revision.Merging && now.cell.Merge == m.rec.Revision { //rule:merge-void
		if done, err := now.reopen(ctx); err != nil || done {
			return journal.Aborted, err
		}
	}
	return journal.Aborted, nil
}

// A mergeCheck looks for the conflicts of a branch, and gathers what the branch changed.
type mergeCheck struct {
	c   branchCell
	dry bool // change nothing, and count no pending commit as a conflict

	rows map[string]map[string]bool // the rows with marks, by table
	ids  []entry.ID
	keys []uint64
	all  bool
}

func (x *mergeCheck) run(ctx context.Context) (clashes []Clash, err error) {
	if err := x.gather(ctx); err != nil {
		return nil, err
	}
	var met []Clash
	for _, name := range slices.Sorted(maps.Keys(x.rows)) {
		keys := make([][]byte, 0, len(x.rows[name]))
		for _, k := range slices.Sorted(maps.Keys(x.rows[name])) {
			keys = append(keys, []byte(k))
		}
		for part := range slices.Chunk(keys, applySize) {
			if met, err = x.readMarks(ctx, name, part, met); err != nil {
				return nil, err
			}
		}
	}
	known := map[table.Revision]bool{}
	for _, m := range met {
		stands, ok := known[m.With]
		if !ok {
			if stands, err = x.stands(ctx, m.With); err != nil {
				return nil, err
			}
			known[m.With] = stands
		}
		if stands {
			clashes = append(clashes, m)
		}
	}
	return clashes, nil
}

// gather reads the records of the branch's commits.
func (x *mergeCheck) gather(ctx context.Context) error {
	x.rows = map[string]map[string]bool{}
	own := x.c.cell.Archive()
	ids, keys := map[entry.ID]bool{}, map[uint64]bool{}
	for rec, err := range x.c.w.e.db.log.Lists(ctx, x.c.slot, own.First, own.Head) {
		if err != nil {
			return err
		}
		if !own.Shows(rec.Revision) {
			continue
		}
		for _, t := range rec.Rows {
			if !slices.Contains(rec.Marked, t.Table) {
				continue
			}
			if x.rows[t.Table] == nil {
				x.rows[t.Table] = map[string]bool{}
			}
			for _, k := range t.Keys {
				x.rows[t.Table][string(k)] = true
			}
		}
		for _, id := range rec.IDs {
			ids[id] = true
		}
		for _, k := range rec.Keys {
			keys[k] = true
		}
		x.all = x.all || rec.AllChanged
	}
	x.ids = slices.SortedFunc(maps.Keys(ids), entry.ID.Compare)
	x.keys = slices.Sorted(maps.Keys(keys))
	return nil
}

// readMarks reads some rows of a table. It appends to met the marks in these rows that conflict
// with the branch's marks and that the branch's base does not show.
func (x *mergeCheck) readMarks(ctx context.Context, name string, keys [][]byte, met []Clash) ([]Clash, error) {
	t, ok := x.c.w.e.db.store.Table(name).(table.Versioner)
	if !ok {
		return nil, fmt.Errorf("table %s cannot be read version by version", name)
	}
	base, heads := x.c.cell.Base, x.c.heads
	// The marks of another branch that was merged after the base may be older than the base.
	after := min(base, heads.Low(), heads.Settled(base)) //rule:merge-after
	var rows []table.Row
	if err := x.c.w.step(ctx, func(ctx context.Context) (err error) {
		rows, err = t.Versions(ctx, keys, table.MarkFamily, after)
		return err
	}); err != nil {
		return nil, fmt.Errorf("reading the marks of others in %s: %w", name, err)
	}
	own := x.c.cell.Archive()
	for _, row := range rows {
		var mine []Mark
		for pass := range 2 {
			for i := range row.Cells {
				c := &row.Cells[i]
				isOwn := revision.SlotOf(c.Revision) == x.c.slot && c.Revision >= own.First
				if isOwn != (pass == 0) || isOwn && !own.Shows(c.Revision) || !isOwn && heads.VisibleAt(c.Revision, base) { //rule:merge-base
					continue
				}
				m, err := parseMark(c)
				if err != nil {
					return nil, err
				}
				if isOwn {
					mine = append(mine, m)
				} else if slices.ContainsFunc(mine, m.conflicts) {
					met = append(met, Clash{name, row.Key, c.Revision})
				}
			}
		}
	}
	sortClashes(met)
	return met, nil
}

// sortClashes sorts clashes by table, row and commit.
func sortClashes(all []Clash) {
	slices.SortFunc(all, func(a, b Clash) int {
		return cmp.Or(strings.Compare(a.Table, b.Table), bytes.Compare(a.Row, b.Row), a.With.Compare(b.With))
	})
}

// stands reports whether a commit that the base does not show was committed or merged,
// and therefore is a conflict. It waits until a pending commit is decided, because that
// commit may have read the branch's cell before the cell was frozen.
func (x *mergeCheck) stands(ctx context.Context, r table.Revision) (bool, error) {
	w := x.c.w
	random := w.e.db.o.random()
	patience := time.Now().Add(2 * w.e.db.o.Lease)
	for try := 0; ; try++ {
		heads, err := w.readHeads(ctx)
		if err != nil {
			return false, err
		}
		decided, stands, err := x.decided(ctx, heads, r)
		if err != nil || decided { //rule:merge-waits
			return stands, err
		}
		if x.dry {
			return false, nil
		}
		if time.Now().After(patience) {
			return false, fmt.Errorf("%w: %s is not decided", ErrConflict, r)
		}
		if err := pause.For(ctx, jittered(min(time.Millisecond<<min(try, 6), w.e.db.o.Poll), random)); err != nil {
			return false, err
		}
	}
}

func (x *mergeCheck) decided(ctx context.Context, heads *journal.Heads, r table.Revision) (decided, stands bool, err error) {
	switch {
	case heads.Visible(r):
		return true, true, nil
	case heads.Void(r):
		return true, false, nil
	case revision.SlotOf(r).IsBranch():
		return x.otherBranch(ctx, heads, r)
	}
	rec := journal.Record{}
	err = x.c.w.step(ctx, func(ctx context.Context) (err error) {
		if rec, err = x.c.w.e.db.log.State(ctx, r); err == nil && rec.State == journal.None && !x.dry {
			rec, err = x.c.w.e.db.log.Forbid(ctx, r, x.c.w.e.db.o.random())
		}
		return err
	})
	stands = rec.State == journal.Committed && !rec.ByCell // if the cell decides, the heads will tell
	return stands || rec.State == journal.Aborted, stands, err
}

// otherBranch does what the method decided does, for a commit in another branch that is not
// merged. If that branch is frozen, its merge may have looked for conflicts before this branch
// was frozen, so otherBranch thaws it. If its merge has begun to commit, otherBranch returns
// false for decided.
func (x *mergeCheck) otherBranch(ctx context.Context, heads *journal.Heads, r table.Revision) (decided, stands bool, err error) {
	slot := revision.SlotOf(r)
	c := x.c.w.branchCell(heads, slot)
	switch {
	case r < c.cell.First:
		return true, false, nil
	case c.cell.State == revision.Merging:
		return false, false, nil
	case c.cell.State != revision.Frozen || x.dry:
		return true, false, nil
	}
	decided, err = c.reopen(ctx)
	return decided, false, err
}
