package txn

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-4dac0d86/ldapd/store/lsm"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest/conformance"
)

var (
	histories  = flag.Int("histories", 150, "number of random histories of TestLines")
	oneHistory = flag.Int("history", -1, "the only history of TestLines to run")
)

// lineSpec has a family whose rows are kept in one piece ('a'), a family whose rows soon
// have a key for each column ('c'), and a family of secrets.
var lineSpec = table.Spec{Name: "data", Families: []table.FamilySpec{
	{Name: 'a'}, {Name: 'c', ImageLimit: 24}, {Name: secretFamily}, {Name: table.MarkFamily},
}}

var lineFamilies = []table.Family{'a', 'c', secretFamily}

// A lineWorld is a store of one server with branches, and the list of its commits. From this
// list, want computes what readers must see. In each column, readers must see the newest
// visible cell, unless a newer visible commit deleted the row. Transactions have no marks, so
// every merge succeeds although the branch and the trunk change the same rows and columns.
type lineWorld struct {
	t        *testing.T
	r        *rand.Rand
	open     func() table.Store
	store    table.Store
	db       *DB
	now      time.Time
	commits  []lineCommit
	branches []*lineBranch
	trunk    []table.Revision // the commits of the trunk and the merges
	pinned   []table.Revision
	log      []string
}

type lineCommit struct {
	revision table.Revision
	branch   *lineBranch // nil for the trunk
	writes   []table.Mutation
}

type lineBranch struct {
	name        string
	base, merge table.Revision
	gone        bool
	parked      bool
}

func (w *lineWorld) say(format string, args ...any) {
	w.log = append(w.log, fmt.Sprintf(format, args...))
}

func (w *lineWorld) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatalf("%v\n%s", err, strings.Join(w.log, "\n"))
	}
}

func (w *lineWorld) start() {
	w.store = w.open()
	ctx := context.Background()
	w.must(w.store.Create(ctx, lineSpec))
	var err error
	w.db, err = Open(ctx, w.store, Options{
		Now: func() time.Time { return w.now }, Secrets: map[string][]table.Family{"data": {secretFamily}},
		SecretAge: 5 * time.Millisecond, Log: slog.New(slog.DiscardHandler),
	})
	w.must(err)
}

func (w *lineWorld) stop() {
	w.must(w.db.Close(context.Background()))
	w.must(w.store.Close())
}

// shows reports whether a state shows the commit c. If b is nil, the state is that of
// the trunk at the given revision. Otherwise it is the state of the branch b.
func (w *lineWorld) shows(c *lineCommit, b *lineBranch, at table.Revision) bool {
	if b != nil {
		if c.branch == b {
			return true
		}
		at = b.base
	}
	switch {
	case c.branch == nil:
		return c.revision <= at
	case c.branch.merge == 0:
		return false
	}
	return c.branch.merge <= at
}

// want computes, from the list of commits, what a state must show. A branch shows its own
// secrets and those of the trunk's newest state.
func (w *lineWorld) want(b *lineBranch, at table.Revision) map[string]string {
	type place struct {
		row, column string
		family      table.Family
	}
	newest := map[place]table.Cell{}
	deleted := map[place]table.Revision{}
	for i := range w.commits {
		c := &w.commits[i]
		shows := w.shows(c, b, at)
		now := b != nil && w.shows(c, nil, w.trunk[len(w.trunk)-1])
		for _, m := range c.writes {
			for _, f := range lineFamilies {
				if m.DeleteRow && (shows || now && f == secretFamily) {
					p := place{string(m.Row), "", f}
					deleted[p] = max(deleted[p], c.revision)
				}
			}
			for _, x := range m.Cells {
				p := place{string(m.Row), string(x.Qualifier), x.Family}
				if (shows || now && x.Family == secretFamily) && c.revision >= newest[p].Revision {
					x.Revision = c.revision
					newest[p] = x
				}
			}
		}
	}
	seen := map[string]string{}
	for p, x := range newest {
		if !x.Tombstone && x.Revision >= deleted[place{p.row, "", p.family}] {
			seen[fmt.Sprintf("%s %c:%s", p.row, p.family, p.column)] = fmt.Sprintf("%s@%s", x.Value, x.Revision)
		}
	}
	return seen
}

func (w *lineWorld) got(s *Snapshot, scan bool) map[string]string {
	ctx, tab := context.Background(), w.db.Table("data")
	seen := map[string]string{}
	add := func(row *table.Row) {
		for _, c := range row.Cells {
			seen[fmt.Sprintf("%s %c:%s", row.Key, c.Family, c.Qualifier)] = fmt.Sprintf("%s@%s", c.Value, c.Revision)
		}
	}
	sel := table.Select{Families: lineFamilies}
	if !scan {
		for row := range lineRows {
			got, err := s.Get(ctx, tab, lineRow(row), sel)
			w.must(err)
			add(&got)
		}
		return seen
	}
	for row, err := range s.Scan(ctx, tab, table.Range{}, sel) {
		w.must(err)
		add(&row)
	}
	return seen
}

// check compares a state with want. It ignores secrets in past states, because secrets
// have no history. It also ignores secrets in scans of a branch, because such a scan need not
// find rows that have only secrets.
func (w *lineWorld) check(what string, s *Snapshot, b *lineBranch, past bool) {
	w.t.Helper()
	want := w.want(b, s.Max())
	for _, scan := range []bool{false, true} {
		got := w.got(s, scan)
		if past || scan && b != nil {
			for _, seen := range []map[string]string{got, want} {
				maps.DeleteFunc(seen, func(k, _ string) bool { return strings.Contains(k, fmt.Sprintf(" %c:", secretFamily)) })
			}
		}
		if !maps.Equal(got, want) {
			w.t.Fatalf("%s, scanned %v:\n got %v\nwant %v\n%s", what, scan, got, want, strings.Join(w.log, "\n"))
		}
	}
}

const lineRows = 3

func lineRow(n int) []byte { return fmt.Appendf(nil, "row%d", n) }

// write returns random changes of one or two rows.
func (w *lineWorld) write() (ms []table.Mutation) {
	for _, row := range w.r.Perm(lineRows)[:1+w.r.IntN(2)] {
		m := table.Mutation{Row: lineRow(row), DeleteRow: w.r.IntN(12) == 0}
		for range 1 + w.r.IntN(3) {
			c := table.Cell{Family: lineFamilies[w.r.IntN(3)], Qualifier: fmt.Appendf(nil, "q%d", w.r.IntN(4))}
			if c.Tombstone = w.r.IntN(3) == 0; !c.Tombstone {
				c.Value = fmt.Appendf(nil, "v%d", w.r.IntN(100))
			}
			m.Cells = append(m.Cells, c)
		}
		ms = append(ms, m)
	}
	return ms
}

func (w *lineWorld) commit(b *lineBranch) { w.apply(b, w.write()) }

// apply commits changes in a branch, or on the trunk if b is nil.
func (w *lineWorld) apply(b *lineBranch, ms []table.Mutation) {
	fn := func(tx *Tx) error {
		for _, m := range ms {
			tx.Write(w.db.Table("data"), m)
		}
		return nil
	}
	ctx := context.Background()
	var r table.Revision
	var err error
	if b == nil {
		r, err = w.db.Update(ctx, fn)
		w.trunk = append(w.trunk, r)
	} else {
		r, err = w.branch(b).Update(ctx, fn)
	}
	w.must(err)
	name := "the trunk"
	if b != nil {
		name = b.name
	}
	w.say("%s in %s: %s", r, name, conformance.ShowMutations(ms))
	w.commits = append(w.commits, lineCommit{r, b, ms})
}

func (w *lineWorld) branch(b *lineBranch) *Branch {
	w.t.Helper()
	x, err := w.db.Branch(b.name)
	w.must(err)
	return x
}

// The method "some" returns an open branch. If parked is set, it may also return a parked branch.
// It returns nil if there is none.
func (w *lineWorld) some(parked bool) *lineBranch {
	all := slices.DeleteFunc(slices.Clone(w.branches), func(b *lineBranch) bool { return b.gone || b.merge != 0 || b.parked && !parked })
	if len(all) == 0 {
		return nil
	}
	return all[w.r.IntN(len(all))]
}

func (w *lineWorld) create() *lineBranch {
	b := &lineBranch{name: fmt.Sprintf("b%d", len(w.branches)), base: w.trunk[len(w.trunk)-1]}
	w.branches = append(w.branches, b)
	_, err := w.db.CreateBranch(context.Background(), b.name)
	w.must(err)
	w.say("%s begins at %s", b.name, b.base)
	return b
}

func (w *lineWorld) merge(b *lineBranch) {
	m, err := w.branch(b).Merge(context.Background(), nil)
	w.must(err)
	b.merge, w.trunk = m, append(w.trunk, m)
	w.say("%s merged at %s", b.name, b.merge)
}

func (w *lineWorld) discard(b *lineBranch) {
	w.must(w.branch(b).Discard(context.Background()))
	b.gone = true
	w.say("%s discarded", b.name)
}

func (w *lineWorld) park(b *lineBranch) {
	ctx, x := context.Background(), w.branch(b)
	w.must(x.Park(ctx))
	b.parked = true
	w.say("%s parked", b.name)
	_, merging := x.Merge(ctx, nil)
	_, changing := x.Update(ctx, func(tx *Tx) error {
		tx.Write(w.db.Table("data"), w.write()[0])
		return nil
	})
	for _, err := range []error{merging, changing} {
		if !errors.Is(err, ErrParked) {
			w.t.Fatalf("a parked branch was changed: %v", err)
		}
	}
}

func (w *lineWorld) step() {
	ctx := context.Background()
	w.now = w.now.Add(time.Duration(w.r.IntN(4)) * time.Millisecond)
	b := w.some(false)
	switch k := w.r.IntN(21); {
	case k < 6 || b == nil && k > 8:
		w.commit(nil)
	case k < 8:
		w.create()
	case k == 8:
		c, err := w.db.Checkpoint(ctx, fmt.Sprintf("c%d", len(w.pinned)))
		w.must(err)
		w.pinned = append(w.pinned, c.Revision)
		w.say("a checkpoint of %s", c.Revision)
	case k < 14:
		w.commit(b)
	case k < 16:
		w.merge(b)
	case k == 16:
		w.discard(w.some(true))
	case k == 20:
		w.park(b)
	case k == 17:
		w.stop()
		w.start()
		w.say("opened again")
	default:
		o := CollectOptions{All: w.r.IntN(2) == 0, Retention: time.Duration(w.r.IntN(10)) * time.Millisecond}
		done, err := w.db.Collect(ctx, o)
		w.must(err)
		w.say("collected up to %s, all %v", done.Horizon, o.All)
	}
}

// look checks the newest state, each branch, and states of the past.
func (w *lineWorld) look() {
	ctx := context.Background()
	s := w.db.Snapshot()
	w.check("now", s, nil, false)
	s.Close()
	for _, b := range w.branches {
		if b.gone || b.merge != 0 {
			continue
		}
		s, err := w.branch(b).Snapshot(ctx)
		w.must(err)
		w.check(b.name, s, b, false)
		s.Close()
	}
	for _, at := range slices.Concat(w.pinned, w.trunk) {
		if at < w.db.Horizon() && !slices.Contains(w.pinned, at) {
			continue
		}
		s, err := w.db.At(ctx, at)
		w.must(err)
		w.check("at "+at.String(), s, nil, true)
		s.Close()
	}
}

// TestLines makes random histories with branches on the stores of one server. It reads
// every kept state and every branch, and compares them with want. Besides commits, a history
// contains merges, discards, parked branches, collections and checkpoints, and opens the store
// again.
func TestLines(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"local", "lsm"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			first, n := 0, *histories
			if *oneHistory >= 0 {
				first, n = *oneHistory, *oneHistory+1
			}
			for seed := first; seed < n; seed++ {
				w := newLineWorld(t, kind, seed)
				w.say("replay with -run TestLines/%s -history %d", kind, seed)
				w.start()
				w.commit(nil)
				for range 10 + w.r.IntN(25) {
					w.step()
					w.look()
				}
				w.stop()
			}
		})
	}
}

func newLineWorld(t *testing.T, kind string, seed int) *lineWorld {
	w := &lineWorld{t: t, r: rand.New(rand.NewPCG(uint64(seed), 3)), now: table.Epoch.Add(1000 * time.Hour)}
	mem, fs := tabletest.NewBatchMem(), vfs.NewMem()
	w.open = func() table.Store {
		if kind == "local" {
			mem.Reopen()
			return mem
		}
		s, err := lsm.Open(lsm.Options{Path: "store", FS: fs, Cache: 1 << 20, MemTable: 1 << 20})
		w.must(err)
		return s
	}
	return w
}

// inColumns returns changes of a row in the family whose rows soon have a key for each
// column. A column of the form "x-" is deleted.
func inColumns(columns ...string) []table.Mutation {
	m := table.Mutation{Row: lineRow(0)}
	for _, q := range columns {
		name, gone := strings.CutSuffix(q, "-")
		c := table.Cell{Family: 'c', Qualifier: []byte(name), Tombstone: gone}
		if !gone {
			c.Value = []byte("value of " + name)
		}
		m.Cells = append(m.Cells, c)
	}
	return []table.Mutation{m}
}

// A columnsStep is a change of the row on one of two lines, a branch and the trunk. A row is
// columnar if it has a key for each column. The row becomes columnar on one of the lines first;
// early is set in the steps on that line. The comments on the steps say how the line stores the
// row after the step.
type columnsStep struct {
	early   bool
	columns []string
}

// TestLinesColumns makes a row columnar on one line, and later on the other line, where it is
// still in one piece. One of the lines deletes an older column before the row is columnar
// there. The test checks what every line shows after each step and after the end of the branch.
func TestLinesColumns(t *testing.T) {
	t.Parallel()
	for name, steps := range map[string][]columnsStep{
		"late deletes": {
			{true, []string{"p", "q", "r"}}, // columnar, with a column named old
			{false, []string{"old-"}},       // in one piece
			{true, []string{"old"}},         // sets the column that the other line has deleted
			{false, []string{"s"}},
			{false, []string{"t", "u"}}, // columnar; the column old must not come back
			{true, []string{"p-"}}, {false, []string{"s-", "v"}},
		},
		"early deletes": {
			{true, []string{"old-"}},        // in one piece
			{true, []string{"p", "q", "r"}}, // columnar, without the column old
			{false, []string{"s"}},
			{false, []string{"t", "u"}}, // columnar, with a column named old; a merge must remove that column
			{true, []string{"p-"}}, {false, []string{"s-", "v"}},
		},
	} {
		for _, first := range []string{"branch", "trunk"} {
			for _, end := range []string{"merge", "discard"} {
				t.Run(name+" "+first+" "+end, func(t *testing.T) {
					t.Parallel()
					linesColumns(t, steps, first == "branch", end == "merge")
				})
			}
		}
	}
}

func linesColumns(t *testing.T, steps []columnsStep, branchFirst, merge bool) {
	w := newLineWorld(t, "lsm", 0)
	w.start()
	defer w.stop()
	w.apply(nil, inColumns("old"))
	b := w.create()
	for _, step := range steps {
		if step.early == branchFirst {
			w.apply(b, inColumns(step.columns...))
		} else {
			w.apply(nil, inColumns(step.columns...))
		}
		w.look()
	}
	if merge {
		w.merge(b)
	} else {
		w.discard(b)
	}
	w.look()
	w.apply(nil, inColumns("w", "q-"))
	w.look()
}

// TestLinesParked merges a branch that changed the same row as the trunk, while an older branch
// is parked. A column of the row was deleted after the parked branch began, and the tombstone
// was collected, but the state at the parked branch's base still has the column. The test
// checks what every line shows after the merge.
func TestLinesParked(t *testing.T) {
	t.Parallel()
	w := newLineWorld(t, "lsm", 0)
	w.start()
	defer w.stop()
	set := func(q, v string) []table.Mutation {
		c := table.Cell{Family: 'a', Qualifier: []byte(q), Value: []byte(v), Tombstone: v == ""}
		return []table.Mutation{{Row: lineRow(0), Cells: []table.Cell{c}}}
	}
	w.apply(nil, set("q", "old"))
	parked := w.create()
	w.apply(parked, inColumns("p")) // in another family
	w.park(parked)
	w.apply(nil, set("q", ""))
	w.apply(nil, set("r", "1"))
	b := w.create()
	w.apply(nil, set("s", "1"))
	w.apply(b, set("t", "1"))
	w.now = w.now.Add(time.Second)
	_, err := w.db.Collect(context.Background(), CollectOptions{All: true})
	w.must(err)
	w.merge(b)
	w.look()
}
