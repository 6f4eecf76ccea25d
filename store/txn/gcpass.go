package txn

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/seed-4dac0d86/ldapd/store/journal"
	"github.com/seed-4dac0d86/ldapd/store/pause"
	"github.com/seed-4dac0d86/ldapd/store/revision"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

const (
	// passRows is the number of rows collected at once. passCommits bounds the number of
	// commits whose rows are gathered for one batch.
	passRows    = 1024
	passCommits = 512
)

// A pass is one collection. It first collects the families without history, up to
// secretHorizon, and then all families.
type pass struct {
	db      *DB
	b       *bounds
	o       CollectOptions
	horizon table.Revision // if zero, collect only families without history
	sum     Collection
	begun   time.Time // start of the pass, to limit the rate
	looked  int
	pinned  []table.Revision
	noted   *journal.Collected
}

func (p *pass) run(ctx context.Context) (err error) {
	p.begun = time.Now()
	if p.noted, err = p.db.log.Collected(ctx); err != nil {
		return err
	}
	if p.pinned, err = p.readPinned(ctx); err != nil {
		return err
	}
	if err := p.young(ctx); err != nil || p.horizon == 0 {
		return err
	}
	lost := slices.ContainsFunc(p.noted.Pinned, func(m table.Revision) bool { return !slices.Contains(p.pinned, m) })
	if p.o.All || lost {
		if err := p.everything(ctx); err != nil {
			return err
		}
	}
	for _, slot := range p.b.slots {
		if err := p.old(ctx, slot); err != nil {
			return err
		}
	}
	if err := p.derived(ctx); err != nil {
		return err
	}
	if p.o.Dry || slices.Equal(p.pinned, p.noted.Pinned) {
		return nil
	}
	p.noted.Pinned = p.pinned
	return p.db.log.NoteCollected(ctx, p.noted)
}

// readPinned returns the revisions of all checkpoints, including checkpoints that are being
// made, and the bases of all parked branches. It also returns the revisions of ended
// checkpoints, and the bases of ended branches, that snapshots on this server still read.
// Callers must call readPinned after all servers honour the horizon. The creator of a
// checkpoint holds a snapshot of the same state until the checkpoint is recorded. So
// readPinned finds the checkpoint of every state that the horizon has passed.
func (p *pass) readPinned(ctx context.Context) ([]table.Revision, error) {
	all, err := p.db.log.AllCheckpoints(ctx)
	if err == nil && !p.o.Dry {
		err = p.db.dropUnfinished(ctx, all)
	}
	if err != nil {
		return nil, err
	}
	pinned := append(p.db.registry.pins(), p.b.parked...) //rule:parked-base
	for _, c := range all {
		pinned = append(pinned, c.Revision) //rule:checkpoint
	}
	slices.Sort(pinned)
	return slices.Compact(pinned), nil
}

// keep returns the rule for what must be kept in the rows of a table.
func (p *pass) keep(name string, horizon table.Revision) *table.Keep {
	k := &table.Keep{
		Horizon: horizon, Pinned: p.pinned, Visible: p.b.visible, Void: p.b.void, ShownBy: p.b.shownBy, Dry: p.o.Dry,
		Families: map[table.Family]table.FamilyKeep{},
	}
	if p.db.o.Derived != nil && p.db.o.Derived(name) {
		k.Visible, k.Void, k.ShownBy = nil, nil, nil // no commit wrote these cells
		return k
	}
	for _, f := range p.db.o.Secrets[name] {
		k.Families[f] = table.FamilyKeep{Horizon: p.secretHorizon()}
	}
	if p.db.Shared() {
		marks := p.markHorizon()
		if horizon > 0 && !p.b.slots[len(p.b.slots)-1].IsBranch() {
			marks = 0 // the method young has already removed the marks
		}
		k.Families[table.MarkFamily] = table.FamilyKeep{Horizon: marks, All: marks > 0}
	}
	return k
}

// secretHorizon returns the revision below which secrets have no history.
func (p *pass) secretHorizon() table.Revision {
	return min(p.b.secrets, p.b.before(p.db.o.SecretAge))
}

// markHorizon returns the revision below which marks are removed. No running or future
// transaction on any server, and no merge, looks for marks below this revision.
func (p *pass) markHorizon() table.Revision { return min(p.b.young, p.secretHorizon()) }

// The method "young" collects the families without history. It examines the rows of commits that
// have fallen below the horizon of secrets since the last collection. Marks that a branch needs
// stay until the history of their rows is collected.
func (p *pass) young(ctx context.Context) error {
	if p.o.Dry || len(p.db.o.Secrets) == 0 && !p.db.Shared() {
		return nil
	}
	changed := false
	for _, slot := range p.b.slots {
		w := p.walk(0)
		for rec, err := range p.db.log.Lists(ctx, slot, p.noted.Young[slot], p.secretHorizon()) {
			if err == nil && slot.IsBranch() && !p.b.void(rec.Revision) && p.b.shownBy(rec.Revision) > p.markHorizon() {
				break
			}
			if err == nil {
				err = w.add(ctx, &rec)
			}
			if err != nil {
				return err
			}
			p.noted.Young[slot], changed = rec.Revision, true
		}
		if err := w.flush(ctx); err != nil {
			return err
		}
	}
	if !changed {
		return nil
	}
	return p.db.log.NoteCollected(ctx, p.noted)
}

// The method "old" considers the commits of a slot that have fallen below the horizon. It
// collects the rows of these commits. It then removes these commits from the journal, except
// the last committed one, because frontiers name that commit. Commits that are not consumed yet
// stay in the journal too (see Options.Consumed).
func (p *pass) old(ctx context.Context, slot revision.Slot) error {
	w := p.walk(p.horizon)
	done := p.db.collector.done[slot]
	var last journal.Record
	for rec, err := range p.db.log.Lists(ctx, slot, 0, p.horizon) {
		if err != nil {
			return err
		}
		if rec.State == journal.Pending {
			break // collect nothing beyond an undecided commit
		}
		if slot.IsBranch() && !p.b.swept(rec.Revision) { //rule:parked-journal
			break // the branch is parked, or its cells are still to be removed
		}
		if rec.Revision > done {
			if err := p.oldRows(ctx, w, &rec); err != nil {
				return err
			}
		}
		if rec.State == journal.Committed {
			last, rec = rec, last
		}
		if err := w.forget(ctx, rec); err != nil {
			return err
		}
	}
	if err := w.flush(ctx); err != nil || p.o.Dry {
		return err
	}
	if p.db.collector.done == nil {
		p.db.collector.done = map[revision.Slot]table.Revision{}
	}
	p.db.collector.done[slot] = last.Revision
	return nil
}

func (p *pass) consumed(r table.Revision) bool {
	return p.db.o.Consumed == nil || r <= p.db.o.Consumed()
}

// forget queues a commit. The commit is removed from the journal after the rows gathered so far
// are collected. It ignores a record of state None, and a commit that is not consumed yet.
func (w *walk) forget(ctx context.Context, rec journal.Record) error {
	if rec.State == journal.None || !w.p.consumed(rec.Revision) {
		return nil
	}
	w.p.sum.Commits++
	if w.gone = append(w.gone, rec); len(w.gone) < passCommits {
		return nil
	}
	return w.flush(ctx)
}

// oldRows gathers the rows of a commit. The record of a load into a table.Bulker that wrote over
// too many rows to list names none, so for such a load all rows of the store are examined.
func (p *pass) oldRows(ctx context.Context, w *walk, rec *journal.Record) error {
	if rec.Kind == journal.Bulk && rec.State == journal.Committed && len(rec.Rows) == 0 && !p.sum.Whole {
		return p.everything(ctx)
	}
	return w.add(ctx, rec)
}

// The method "everything" examines all rows of all tables except the journal's. These include the
// rows of all commits below the horizon.
func (p *pass) everything(ctx context.Context) error {
	names, err := p.db.store.Names(ctx)
	if err != nil {
		return err
	}
	for _, name := range names {
		if name == journal.Table || name == journal.Cluster {
			continue
		}
		if err := p.allOf(ctx, name); err != nil {
			return err
		}
	}
	p.sum.Whole = true
	return nil
}

// derived examines all rows of the tables that are written by WriteDerived, because the
// journal does not name these rows.
func (p *pass) derived(ctx context.Context) error {
	if p.db.o.Derived == nil || p.sum.Whole {
		return nil
	}
	names, err := p.db.store.Names(ctx)
	if err != nil {
		return err
	}
	for _, name := range names {
		if !p.db.o.Derived(name) {
			continue
		}
		if err := p.allOf(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// allOf examines all rows of a table.
func (p *pass) allOf(ctx context.Context, name string) error {
	t, err := journal.Collector(p.db.store.Table(name), name)
	if err != nil {
		return err
	}
	keep, rows := p.keep(name, p.horizon), make([][]byte, 0, passRows)
	for key, err := range t.Keys(ctx, table.Range{}) {
		if err != nil {
			return err
		}
		if rows = append(rows, key); len(rows) == passRows {
			if err := p.collect(ctx, t, rows, keep); err != nil {
				return err
			}
			rows = rows[:0]
		}
	}
	return p.collect(ctx, t, rows, keep)
}

// collect collects rows of a table, which must be sorted.
func (p *pass) collect(ctx context.Context, t table.Collector, rows [][]byte, keep *table.Keep) error {
	removed, err := t.Collect(ctx, rows, keep)
	if err != nil {
		return err
	}
	p.sum.Removed.Add(removed)
	p.sum.Rows += len(rows)
	return p.throttle(ctx, len(rows))
}

// A walk gathers rows and collects them in batches. It collects each row of a batch once.
type walk struct {
	p       *pass
	horizon table.Revision
	rows    map[string]map[string]bool // gathered row keys by table
	n       int
	commits int
	gone    []journal.Record // commits to remove from the journal after their rows are collected
}

func (p *pass) walk(horizon table.Revision) *walk {
	return &walk{p: p, horizon: horizon, rows: map[string]map[string]bool{}}
}

func (w *walk) add(ctx context.Context, rec *journal.Record) error {
	for _, t := range rec.Rows {
		for _, key := range t.Keys {
			if err := w.addRow(ctx, t.Table, key); err != nil {
				return err
			}
		}
	}
	if w.commits++; w.commits >= passCommits {
		return w.flush(ctx)
	}
	return nil
}

func (w *walk) addRow(ctx context.Context, name string, key []byte) error {
	if w.p.sum.Whole {
		return nil
	}
	rows := w.rows[name]
	if rows == nil {
		rows = map[string]bool{}
		w.rows[name] = rows
	}
	if !rows[string(key)] {
		rows[string(key)] = true
		w.n++
	}
	if w.n >= passRows {
		return w.flush(ctx)
	}
	return nil
}

// flush collects the gathered rows and then removes the queued commits from the journal.
func (w *walk) flush(ctx context.Context) error {
	for _, name := range slices.Sorted(maps.Keys(w.rows)) {
		var keys [][]byte
		for _, k := range slices.Sorted(maps.Keys(w.rows[name])) {
			keys = append(keys, []byte(k))
		}
		t, err := journal.Collector(w.p.db.store.Table(name), name)
		if err == nil {
			err = w.p.collect(ctx, t, keys, w.p.keep(name, w.horizon))
		}
		if err != nil {
			return err
		}
	}
	clear(w.rows)
	w.n, w.commits = 0, 0
	if len(w.gone) > 0 && !w.p.o.Dry {
		if err := w.p.db.log.Forget(ctx, w.gone); err != nil {
			return err
		}
	}
	w.gone = w.gone[:0]
	return w.p.throttle(ctx, 0)
}

// errSpent ends a dry collection that has exhausted its budget.
var errSpent = errors.New("the budget is spent")

// throttle pauses as long as CollectOptions.Rate demands after examining n rows. It
// returns errSpent if the budget of a dry collection is exhausted.
func (p *pass) throttle(ctx context.Context, n int) error {
	p.looked += n
	if p.o.Dry && p.o.Budget > 0 && time.Since(p.begun) >= p.o.Budget {
		return errSpent
	}
	if p.o.Rate == 0 {
		return canceled(ctx)
	}
	due := p.begun.Add(time.Duration(p.looked) * time.Second / time.Duration(p.o.Rate))
	return pause.For(ctx, max(time.Until(due), 0))
}
