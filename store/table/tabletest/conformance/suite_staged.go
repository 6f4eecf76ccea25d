package conformance

import (
	"fmt"
	"strings"

	"pgregory.net/rapid"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

// A stagedLine is a branch. The merge is a revision of the trunk. Readers outside of the
// branch see the revisions of the branch only in states from the merge on.
type stagedLine struct {
	first, base, merge table.Revision // merge is 0 until the branch is merged
	gone               bool           // the branch was discarded
	revisions          []table.Revision
	hidden             [][]byte // rows in which the branch's batches did not see every revision
}

// A stagedWorld contains the branches. A stagedView uses it to determine which revisions
// are visible.
type stagedWorld struct {
	lines []*stagedLine
	of    map[table.Revision]*stagedLine // nil for revisions of the trunk
}

// shownBy returns the first state of the trunk that shows a revision, or 0 if no state
// does.
func (w *stagedWorld) shownBy(r table.Revision) table.Revision {
	if l := w.of[r]; l != nil {
		return l.merge
	}
	return r
}

// quiet returns the largest revision up to r at which no branch was open. Every branch
// that had begun by that revision was merged by that revision, or was discarded.
func (w *stagedWorld) quiet(r table.Revision) table.Revision {
	for range w.lines {
		for _, l := range w.lines {
			if !l.gone && (l.merge == 0 || l.merge > r) {
				r = min(r, l.base)
			}
		}
	}
	return r
}

// A stagedView shows the trunk at a revision, or a branch. If both is set, it shows the
// branch and the trunk at the revision.
type stagedView struct {
	w    *stagedWorld
	at   table.Revision
	line *stagedLine
	both bool
	low  table.Revision // if not 0, the low-water mark
}

// IsCausal implements table.Causal.
func (v stagedView) IsCausal() bool { return !v.both }

func (v stagedView) Visible(r table.Revision) bool {
	by := v.w.shownBy(r)
	return v.line != nil && v.w.of[r] == v.line || by != 0 && by <= v.at
}

func (v stagedView) Max() table.Revision {
	m := v.at
	if v.line != nil {
		for _, r := range v.line.revisions {
			m = max(m, r)
		}
	}
	return m
}

// Low returns a revision below all those revisions of branches that the view hides. The result
// may be far below Max.
func (v stagedView) Low() table.Revision {
	switch {
	case v.low != 0:
		return v.low
	case v.both:
		return v.w.quiet(min(v.at, v.line.base))
	}
	low := v.at
	for _, l := range v.w.lines {
		if l != v.line && !l.gone && (l.merge == 0 || l.merge > v.at) {
			low = min(low, l.first)
		}
	}
	return low
}

func (v stagedView) String() string {
	if v.line != nil {
		return fmt.Sprintf("the branch of %d", v.line.first)
	}
	return fmt.Sprintf("the trunk at %d", v.at)
}

// testStaged writes revisions of the trunk and of branches. It merges branches or erases
// their revisions, and collects garbage while branches are open. The family c has a
// shorter history, whose collection does not wait for branches. The test compares all
// reads of kept states with the model.
func testStaged(f *fixture) {
	unversioned := f.create(table.Spec{Families: families, Unversioned: true})
	rapid.Check(f.T, func(t *rapid.T) {
		x := &stagedRun{f: f, t: t, p: fmt.Sprintf("staged%06d-", modelRuns.Add(1)), m: &model{}, unversioned: unversioned}
		x.w.of = map[table.Revision]*stagedLine{}
		x.commit(nil)
		for range rapid.IntRange(4, 20).Draw(t, "steps") {
			x.step()
			x.look()
		}
	})
}

type stagedRun struct {
	unversioned string
	f           *fixture
	t           *rapid.T
	p           string
	m           *model
	w           stagedWorld
	now         uint64
	horizon     table.Revision
	trunk       []table.Revision // the states of the trunk
	hidden      []stagedFound    // rows in which batches of the trunk did not see every revision
}

// A stagedFound lists the rows in which a batch of the trunk did not see every revision.
type stagedFound struct {
	r    table.Revision
	rows [][]byte
}

// next returns the next revision of the trunk, or of the n-th branch.
func (x *stagedRun) next(branch int) table.Revision {
	x.now++
	slot := uint64(1)
	if branch >= 0 {
		slot = table.FirstBranch + uint64(branch)
	}
	return table.Revision(x.now<<(table.SlotBits+table.CounterBits) | slot<<table.CounterBits)
}

func (x *stagedRun) commit(l *stagedLine) {
	branch := -1
	for i, o := range x.w.lines {
		if o == l {
			branch = i
		}
	}
	r := x.next(branch)
	x.w.of[r] = l
	ms := drawMutations(x.t, x.p)
	v := stagedView{w: &x.w, at: r}
	if l != nil {
		v.at, v.line = l.base, l
	}
	if err := x.write(r, v, l, nil, ms); err != nil {
		x.t.Fatal(err)
	}
	if l != nil {
		l.revisions = append(l.revisions, r)
	} else {
		x.trunk = append(x.trunk, r)
	}
	for _, m := range ms {
		x.m.events = append(x.m.events, event{r, m})
	}
}

// write writes mutations. To a Batcher it also passes what the writer sees, and the rows
// that a merge joins.
func (x *stagedRun) write(r table.Revision, v stagedView, l *stagedLine, joined [][]byte, ms []table.Mutation) error {
	b, ok := x.f.s.(table.Batcher)
	if !ok {
		return x.f.tab.Apply(x.f.ctx, r, ms)
	}
	batch := table.Batch{Revision: r, View: v, Writes: []table.Write{{Table: x.f.tn, Mutations: ms}}}
	if len(joined) > 0 {
		batch.Joined = []table.Rows{{Table: x.f.tn, Keys: joined}}
	}
	batch.Last = func(found table.Found) table.Write {
		for _, rows := range found.Hidden {
			if l != nil {
				l.hidden = append(l.hidden, rows.Keys...)
			} else {
				x.hidden = append(x.hidden, stagedFound{r, rows.Keys})
			}
		}
		return table.Write{Table: x.unversioned}
	}
	wait, err := b.Commit(x.f.ctx, batch)
	if err == nil {
		err = wait()
	}
	return err
}

// merge makes a branch visible. The two sides are the branch and the trunk. merge joins
// the rows in which a batch of one side has found revisions of the other side. These rows
// include all rows that both sides changed.
func (x *stagedRun) merge(l *stagedLine) {
	joined := l.hidden
	for _, found := range x.hidden {
		if found.r > l.base {
			joined = append(joined, found.rows...)
		}
	}
	for _, o := range x.w.lines {
		if o.merge > l.base {
			joined = append(joined, o.hidden...)
		}
	}
	low := x.w.quiet(l.base)
	m := x.next(-1)
	l.merge = m
	if _, ok := x.f.s.(table.Batcher); ok {
		if err := x.write(m, stagedView{w: &x.w, at: m, low: low}, nil, joined, nil); err != nil {
			x.t.Fatal(err)
		}
	}
	x.trunk = append(x.trunk, m)
}

// open returns a branch that is neither merged nor discarded. It returns nil if there is
// no such branch.
func (x *stagedRun) open() *stagedLine {
	var all []*stagedLine
	for _, l := range x.w.lines {
		if l.merge == 0 && !l.gone {
			all = append(all, l)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return rapid.SampledFrom(all).Draw(x.t, "branch")
}

func (x *stagedRun) step() {
	l := x.open()
	switch k := rapid.IntRange(0, 9).Draw(x.t, "kind"); {
	case k < 3 || l == nil && k > 3:
		x.commit(nil)
	case k == 3:
		x.w.lines = append(x.w.lines, &stagedLine{base: x.trunk[len(x.trunk)-1], first: x.next(len(x.w.lines))})
	case k < 7:
		x.commit(l)
	case k == 7:
		x.merge(l)
	case k == 8:
		for _, r := range l.revisions {
			if err := x.f.tab.Erase(x.f.ctx, r, x.m.erase(r)); err != nil {
				x.t.Fatal(err)
			}
		}
		l.gone = true
	default:
		x.collect()
	}
}

// collect raises the horizons and then collects garbage. It does not raise the general
// horizon above a revision that a branch needs. It raises the horizon of the family c to
// the newest state.
func (x *stagedRun) collect() {
	x.horizon = max(x.horizon, x.w.quiet(rapid.SampledFrom(x.trunk).Draw(x.t, "horizon")))
	k := &table.Keep{
		Horizon: x.horizon,
		Visible: func(r table.Revision) bool { return x.w.shownBy(r) != 0 },
		Void:    func(table.Revision) bool { return false },
		ShownBy: func(r table.Revision) table.Revision {
			if by := x.w.shownBy(r); by != 0 {
				return by
			}
			return 1<<63 - 1
		},
		Families: map[table.Family]table.FamilyKeep{'c': {Horizon: x.trunk[len(x.trunk)-1]}},
	}
	x.f.collectAll(x.t, x.p, k)
}

// look compares the kept states with the model. Of the family c, only the newest state
// and the branches' own writes are kept.
func (x *stagedRun) look() {
	newest := x.trunk[len(x.trunk)-1]
	x.f.compare(x.t, x.m, x.p, stagedView{w: &x.w, at: newest})
	history := []table.Family{'a', 'b'}
	for _, at := range x.trunk {
		if at >= x.horizon {
			x.f.compareFamilies(x.t, x.m, x.p, stagedView{w: &x.w, at: at}, history)
		}
	}
	for _, l := range x.w.lines {
		if l.merge == 0 && !l.gone {
			x.f.compareFamilies(x.t, x.m, x.p, stagedView{w: &x.w, at: l.base, line: l}, history)
			x.f.compareFamilies(x.t, x.m, x.p, stagedView{w: &x.w, at: newest, line: l, both: true}, []table.Family{'c'})
		}
	}
}

// testStagedBase collects the state on which a branch is based, in a family whose collection
// does not wait for branches. The branch changes the row only after the collection. The new
// image must not hide cells of the trunk that the branch no longer sees.
func testStagedBase(f *fixture) {
	x := &stagedRun{f: f, unversioned: f.create(table.Spec{Families: families, Unversioned: true})}
	x.w.of = map[table.Revision]*stagedLine{}
	write := func(r table.Revision, v stagedView, l *stagedLine, row string) {
		f.Helper()
		if err := x.write(r, v, l, nil, []table.Mutation{mutation("row", row)}); err != nil {
			f.Fatal(err)
		}
	}
	long := strings.Repeat("v", 70) // makes the row columnar
	base, newest := x.next(-1), x.next(-1)
	write(base, stagedView{w: &x.w, at: base}, nil, "c:p=1")
	write(newest, stagedView{w: &x.w, at: newest}, nil, "c:q="+long)
	f.collect(&table.Keep{Horizon: base, Families: map[table.Family]table.FamilyKeep{'c': {Horizon: newest}}}, "row")

	own := x.next(0)
	branch := &stagedLine{first: own, base: base, revisions: []table.Revision{own}}
	x.w.lines, x.w.of[own] = []*stagedLine{branch}, branch
	write(own, stagedView{w: &x.w, at: base, line: branch}, branch, "c:r="+long)
	want := fmt.Sprintf("c:p=1@%d c:q=%s@%d", base, long, newest)
	f.wantRow("row", table.Select{View: stagedView{w: &x.w, at: newest}}, want)
	want += fmt.Sprintf(" c:r=%s@%d", long, own)
	f.wantRow("row", table.Select{View: stagedView{w: &x.w, at: newest, line: branch, both: true}}, want)
}
