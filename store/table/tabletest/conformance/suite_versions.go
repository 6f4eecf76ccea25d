package conformance

import (
	"fmt"
	"strings"
	"sync"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

var versionTests = []suiteTest{
	{"Versions", testVersions},
	{"VersionsOfMany", testVersionsOfMany},
	{"ApplyVersions", testApplyVersions},
	{"ApplyVersionsRace", testApplyVersionsRace},
	{"SwapGet", testSwapGet},
}

// versions formats the result of Versions for some rows. A row without cells is "-".
func (f *fixture) versions(fam table.Family, after table.Revision, rows ...string) string {
	f.Helper()
	keys := make([][]byte, len(rows))
	for i, r := range rows {
		keys[i] = []byte(r)
	}
	got, err := f.tab.(table.Versioner).Versions(f.ctx, keys, fam, after)
	if err != nil || len(got) != len(rows) {
		f.Fatalf("Versions of %q: %d rows, %v", rows, len(got), err)
	}
	var out []string
	for i, r := range got {
		if string(r.Key) != rows[i] {
			f.Errorf("row %d of %q is %q", i, rows, r.Key)
		}
		if len(r.Cells) == 0 {
			out = append(out, "-")
			continue
		}
		out = append(out, showCells(r.Cells))
	}
	return strings.Join(out, " | ")
}

// testVersions checks that Versions returns exactly the cells with revisions above the
// given one, whether or not a view would show them.
func testVersions(f *fixture) {
	f.put(3, "1", "a:x=3 a:y=3 c:x=3")
	f.put(9, "1", "a:x=9")
	f.put(5, "1", "a:x=5 a:y-") // a late revision, below the newest one
	f.put(7, "1", "!a:z=7")
	f.put(4, "2", "c:x=4")
	for _, x := range []struct {
		after table.Revision
		want  string
	}{
		{0, "a:x=9@9 a:x=5@5 a:x=3@3 a:y=(tombstone)@5 a:y=3@3 a:z=7@7 | - | -"},
		{3, "a:x=9@9 a:x=5@5 a:y=(tombstone)@5 a:z=7@7 | - | -"},
		{5, "a:x=9@9 a:z=7@7 | - | -"},
		{9, "- | - | -"},
	} {
		if got := f.versions('a', x.after, "1", "2", "none"); got != x.want {
			f.Errorf("after %d\n got %s\nwant %s", x.after, got, x.want)
		}
	}
	if err := f.tab.Erase(f.ctx, 9, [][]byte{[]byte("1")}); err != nil {
		f.Fatal(err)
	}
	if got, want := f.versions('a', 5, "1"), "a:z=7@7"; got != want {
		f.Errorf("after 9 was erased\n got %s\nwant %s", got, want)
	}
}

// testVersionsOfMany tests Versions with a column that has very many versions, and with
// very many rows.
func testVersionsOfMany(f *fixture) {
	const versions, rows = 300, 700
	for r := range versions {
		f.put(table.Revision(r+1), "much", fmt.Sprintf("a:x=%d", r))
	}
	var ms []table.Mutation
	keys := []string{"much"}
	for i := range rows {
		keys = append(keys, fmt.Sprintf("row %d", i))
		ms = append(ms, mutation(keys[i+1], "a:x=1"))
	}
	f.apply(1000, ms...)
	if got := strings.Count(f.versions('a', 10, keys...), "a:x="); got != versions-10+rows {
		f.Errorf("%d cells, want %d", got, versions-10+rows)
	}
}

// testApplyVersions tests ApplyVersions for few rows and for many. It reads what was there before, what it
// has written, and not more.
func testApplyVersions(f *fixture) {
	for _, n := range []int{3, 60} {
		var ms []table.Mutation
		var keys [][]byte
		for i := range n {
			row := fmt.Sprintf("%d of %d", i, n)
			f.put(3, row, "a:x=3 a:y=3 c:x=3")
			f.put(9, row, "a:x=9")
			if i%3 == 1 {
				ms = append(ms, mutation(row, "!a:z=5"))
			} else {
				ms = append(ms, mutation(row, "a:x=5 a:y- b:q=5"))
			}
			if i%3 != 2 {
				keys = append(keys, []byte(row))
			}
		}
		got, err := table.ApplyVersions(f.ctx, f.tab, 5, ms, keys, 'a', 3)
		if err != nil || len(got) != len(keys) {
			f.Fatalf("ApplyVersions of %d rows: %d rows, %v", n, len(got), err)
		}
		for i, r := range got {
			want := "a:x=9@9 a:x=5@5 a:y=(tombstone)@5"
			if i%2 == 1 {
				want = "a:x=9@9 a:z=5@5"
			}
			if string(r.Key) != string(keys[i]) || showCells(r.Cells) != want {
				f.Errorf("row %q has %s, want %q with %s", r.Key, showCells(r.Cells), keys[i], want)
			}
		}
		row := fmt.Sprintf("%d of %d", n-1, n)
		if got := f.versions('a', 4, row); got != "a:x=9@9 a:x=5@5 a:y=(tombstone)@5" {
			f.Errorf("row %q, which was written and not read, has %s", row, got)
		}
	}
	if _, err := table.ApplyVersions(f.ctx, f.tab, 6, []table.Mutation{mutation("1", "z:x=1")}, [][]byte{[]byte("1")}, 'a', 0); err == nil {
		f.Error("ApplyVersions into an unknown family: no error")
	}
}

// testApplyVersionsRace makes writers write a cell into one row at once. Of two of them, one finds the other's cell.
func testApplyVersionsRace(f *fixture) {
	const writers = 6
	var found [writers]map[table.Revision]bool
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			found[i] = map[table.Revision]bool{}
			rows, err := table.ApplyVersions(f.ctx, f.tab, table.Revision(i+1), []table.Mutation{mutation("row", fmt.Sprintf("a:%d=1", i))}, [][]byte{[]byte("row")}, 'a', 0)
			if err != nil {
				f.Error(err)
				return
			}
			for _, c := range rows[0].Cells {
				found[i][c.Revision] = true
			}
		})
	}
	wg.Wait()
	for i := range writers {
		for j := range writers {
			if !found[i][table.Revision(j+1)] && !found[j][table.Revision(i+1)] {
				f.Errorf("neither %d nor %d found the other", i, j)
			}
		}
	}
}

// testSwapGet tests SwapGet of a cell that is absent, that has the value, and that has another one.
func testSwapGet(f *fixture) {
	tab, row := f.unversioned(), []byte("row")
	if _, err := tab.Swap(f.ctx, row, 'h', []byte("other"), nil, cells("h:other=o")); err != nil {
		f.Fatal(err)
	}
	for _, x := range []struct {
		old, now string
		ok       bool
		want     string
	}{
		{"", "1", true, "h:other=o h:q=1"},
		{"", "2", false, "h:other=o h:q=1"},
		{"2", "3", false, "h:other=o h:q=1"},
		{"1", "3", true, "h:other=o h:q=3"},
		{"3", strings.Repeat("long", 9), true, "h:other=o h:q=" + strings.Repeat("long", 9)},
	} {
		var old []byte
		if x.old != "" {
			old = []byte(x.old)
		}
		ok, got, err := table.SwapGet(f.ctx, tab, row, 'h', []byte("q"), old, cells("h:q="+x.now))
		for i := range got.Cells {
			got.Cells[i].Revision = 0
		}
		if err != nil || ok != x.ok || string(got.Key) != "row" || showCells(got.Cells) != x.want {
			f.Errorf("from %q to %q: %v, %q has %s, %v; want %v, %s", x.old, x.now, ok, got.Key, showCells(got.Cells), err, x.ok, x.want)
		}
	}
	if _, _, err := table.SwapGet(f.ctx, f.tab, row, 'a', []byte("q"), []byte("1"), cells("a:q=2")); err == nil {
		f.Error("SwapGet in a versioned table: no error")
	}
}
