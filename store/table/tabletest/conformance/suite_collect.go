package conformance

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

// collect calls Collect for some rows.
func (f *fixture) collect(k *table.Keep, rows ...string) table.Collected {
	f.Helper()
	keys := make([][]byte, len(rows))
	for i, r := range rows {
		keys[i] = []byte(r)
	}
	got, err := f.tab.(table.Collector).Collect(f.ctx, keys, k)
	if err != nil {
		f.Fatalf("Collect of %q: %v", rows, err)
	}
	return got
}

// keys returns the keys of the rows that have any cells.
func (f *fixture) keys(r table.Range) string {
	f.Helper()
	var got []string
	for key, err := range f.tab.(table.Collector).Keys(f.ctx, r) {
		if err != nil {
			f.Fatalf("Keys: %v", err)
		}
		got = append(got, string(key))
	}
	return strings.Join(got, " ")
}

// testCollect checks that Collect leaves the cells that a kept state shows, and removes rows
// without such cells. The kept states are the pinned states and the states from the horizon on.
func testCollect(f *fixture) {
	f.put(1, "changed", "a:x=1 a:y=1 c:x=1")
	f.put(2, "changed", "a:x=2 c:x=2")
	f.put(3, "changed", "a:x=3")
	f.put(5, "changed", "a:x=5")
	f.put(1, "deleted", "a:x=1 c:x=1")
	f.put(3, "deleted", "!")
	f.put(1, "emptied", "a:x=1")
	f.put(3, "emptied", "a:x-")
	f.put(1, "again", "a:x=1 a:y=1")
	f.put(3, "again", "!a:x=3")
	f.put(5, "late", "a:x=5")
	rows := []string{"changed", "deleted", "emptied", "again", "late", "none"}

	dry := f.collect(&table.Keep{Horizon: 4, Pinned: []table.Revision{2}, Dry: true}, rows...)
	if done := f.collect(&table.Keep{Horizon: 4, Pinned: []table.Revision{2}}, rows...); done != dry || done.Cells == 0 {
		f.Errorf("removed %+v, to be removed were %+v", done, dry)
	}
	if again := f.collect(&table.Keep{Horizon: 4, Pinned: []table.Revision{2}}, rows...); again.Cells != 0 {
		f.Errorf("once more removed %+v", again)
	}
	for _, x := range []struct {
		at  table.Revision
		row string
		was string
	}{
		{2, "changed", "a:x=2@2 a:y=1@1 c:x=2@2"},
		{4, "changed", "a:x=3@3 a:y=1@1 c:x=2@2"},
		{5, "changed", "a:x=5@5 a:y=1@1 c:x=2@2"},
		{2, "deleted", "a:x=1@1 c:x=1@1"},
		{4, "deleted", ""},
		{2, "emptied", "a:x=1@1"},
		{4, "emptied", ""},
		{2, "again", "a:x=1@1 a:y=1@1"},
		{4, "again", "a:x=3@3"},
		{5, "late", "a:x=5@5"},
	} {
		f.wantRow(x.row, table.Select{View: at(x.at)}, x.was)
	}
	f.collect(&table.Keep{Horizon: 6}, rows...)
	f.wantRow("changed", table.Select{}, "a:x=5@5 a:y=1@1 c:x=2@2")
	if got, want := f.keys(table.Range{}), "again changed late"; got != want {
		f.Errorf("left are the rows %s, want %s", got, want)
	}
	f.collectFamily()
}

// collectFamily checks that a family can have a later horizon than the other families. It
// also checks that a collection can remove a family completely.
func (f *fixture) collectFamily() {
	f.Helper()
	f.put(11, "young", "a:x=1 c:x=1")
	f.put(12, "young", "a:x=2 c:x=2")
	f.put(13, "young", "a:x=3 c:x=3")
	f.collect(&table.Keep{Horizon: 11, Families: map[table.Family]table.FamilyKeep{'c': {Horizon: 13}}}, "young")
	f.wantRow("young", table.Select{View: at(11)}, "a:x=1@11")
	f.wantRow("young", table.Select{View: at(13)}, "a:x=3@13 c:x=3@13")
	f.collect(&table.Keep{Families: map[table.Family]table.FamilyKeep{'c': {Horizon: 13, All: true}}}, "young")
	f.wantRow("young", table.Select{View: at(12)}, "a:x=2@12")
	f.wantRow("young", table.Select{View: at(13)}, "a:x=3@13")
}

// testCollectWide checks that each column of a row with many columns is collected
// separately.
func testCollectWide(f *fixture) {
	const n = 9000
	add := func(r table.Revision, from, to int, tombstone bool) {
		m := table.Mutation{Row: []byte("group")}
		for i := from; i < to; i++ {
			c := table.Cell{Family: 'c', Qualifier: fmt.Appendf(nil, "member %05d", i), Tombstone: tombstone}
			if !tombstone {
				c.Value = fmt.Appendf(nil, "%d", r)
			}
			m.Cells = append(m.Cells, c)
		}
		f.apply(r, m)
	}
	add(1, 0, n, false)
	add(2, 100, n, true)
	add(3, 50, 150, false)
	if got := f.collect(&table.Keep{Horizon: 4}, "group").Cells; got < 2*(n-150)+50+50 {
		f.Errorf("%d cells went", got)
	}
	if row := f.get("group", table.Select{}); len(row.Cells) != 150 || string(row.Cells[49].Value) != "1" || string(row.Cells[149].Value) != "3" {
		f.Errorf("%d columns are left", len(row.Cells))
	}
	add(5, 0, 150, true)
	f.collect(&table.Keep{Horizon: 6}, "group")
	if got := f.keys(table.Range{}); got != "" {
		f.Errorf("left is %s", got)
	}
}

// testCollectModel collects after random writes, continues to write, and compares reads that
// are still possible with the model.
func testCollectModel(f *fixture) {
	rapid.Check(f.T, func(t *rapid.T) {
		p := fmt.Sprintf("kept%06d-", modelRuns.Add(1))
		m := &model{}
		horizon, pinned := table.Revision(0), []table.Revision(nil)
		for r := table.Revision(1); r <= 24; {
			for range rapid.IntRange(1, 8).Draw(t, "commits") {
				ms := drawMutations(t, p)
				if err := f.tab.Apply(f.ctx, r, ms); err != nil {
					t.Fatal(err)
				}
				for _, x := range ms {
					m.events = append(m.events, event{r, x})
				}
				r++
			}
			old := horizon
			// Later writes have revisions above the horizon.
			horizon = table.Revision(rapid.IntRange(int(old), int(r-1)).Draw(t, "horizon"))
			pinned = slices.DeleteFunc(pinned, func(table.Revision) bool { return rapid.IntRange(0, 3).Draw(t, "gone") == 0 })
			if rapid.Bool().Draw(t, "moment") {
				pinned = append(pinned, table.Revision(rapid.IntRange(int(old), int(horizon)).Draw(t, "at")))
			}
			f.collectAll(t, p, &table.Keep{Horizon: horizon, Pinned: pinned})
			for _, at := range pinned {
				f.compare(t, m, p, view{max: at, low: at})
			}
			f.compare(t, m, p, drawLateView(t, horizon, r))
		}
	})
}

func (f *fixture) collectAll(t *rapid.T, p string, k *table.Keep) {
	var keys [][]byte
	for _, row := range modelRows {
		keys = append(keys, []byte(p+row))
	}
	if _, err := f.tab.(table.Collector).Collect(f.ctx, keys, k); err != nil {
		t.Fatal(err)
	}
}

// drawLateView returns a view that hides only revisions above the horizon.
func drawLateView(t *rapid.T, horizon, last table.Revision) view {
	v := view{max: table.Revision(rapid.IntRange(int(horizon), int(last-1)).Draw(t, "max")), low: horizon}
	for r := horizon + 1; r <= v.max; r++ {
		if rapid.IntRange(0, 4).Draw(t, "hide") == 0 {
			v.hidden = append(v.hidden, r)
		}
	}
	if len(v.hidden) == 0 {
		v.low = v.max
	}
	return v
}

// testKeys checks that Keys returns every row exactly once, whichever families its cells
// are in.
func testKeys(f *fixture) {
	var want []string
	for i := range 300 {
		row := fmt.Sprintf("row%03d", i)
		want = append(want, row)
		f.put(1, row, []string{"a:x=1", "c:x=1", "a:x=1 c:x=1"}[i%3])
	}
	f.put(2, "row007", "!")
	f.put(2, "row008", "a:x-")
	if got := f.keys(table.Range{}); got != strings.Join(want, " ") {
		f.Errorf("keys are %s", got)
	}
	if got := f.keys(table.Range{Start: []byte("row007"), End: []byte("row010")}); got != "row007 row008 row009" {
		f.Errorf("keys of a range are %s", got)
	}
}

// testForget checks that rows of an unversioned table can be removed.
func testForget(f *fixture) {
	t := f.s.Table(f.create(table.Spec{Families: families, Unversioned: true}))
	for _, row := range []string{"1", "2", "3"} {
		cs := cells("a:x=1 a:y=1 c:x=1")
		if ok, err := t.Swap(f.ctx, []byte(row), 'a', []byte("x"), nil, cs); err != nil || !ok {
			f.Fatal(ok, err)
		}
	}
	if _, err := t.(table.Collector).Forget(f.ctx, [][]byte{[]byte("1"), []byte("3"), []byte("none")}); err != nil {
		f.Fatal(err)
	}
	rows, err := collect(f.ctx, t, table.Range{}, table.Select{})
	if err != nil || len(rows) != 1 || !bytes.Equal(rows[0].Key, []byte("2")) || len(rows[0].Cells) != 3 {
		f.Errorf("left are %v, %v", rows, err)
	}
	var left []string
	for key, err := range t.(table.Collector).Keys(f.ctx, table.Range{}) {
		left = append(left, fmt.Sprint(string(key), err))
	}
	if got := strings.Join(left, " "); got != "2<nil>" {
		f.Errorf("keys left are %s", got)
	}
	if got, err := t.(table.Collector).Collect(f.ctx, [][]byte{[]byte("2")}, &table.Keep{Horizon: 1 << 62}); err != nil || got.Cells != 0 {
		f.Errorf("of what has no history went %+v, %v", got, err)
	}
	if _, err := f.tab.(table.Collector).Forget(f.ctx, [][]byte{[]byte("2")}); err == nil {
		f.Error("rows of a versioned table were forgotten")
	}
}
