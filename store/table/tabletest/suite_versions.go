package tabletest

import (
	"fmt"
	"strings"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

var versionTests = []suiteTest{
	{"Versions", testVersions},
	{"VersionsOfMany", testVersionsOfMany},
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
