package conformance

import (
	"bytes"
	"fmt"
	"slices"

	"pgregory.net/rapid"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

var copyTests = []suiteTest{
	{"Copy", testCopy},
	{"CopyWide", testCopyWide},
	{"CopyUnversioned", testCopyUnversioned},
}

// A renaming is a Rewriter that moves rows behind a prefix, replaces qualifiers and values, and leaves out what
// begins with "q".
type renaming struct{ prefix string }

func (w renaming) Row(key []byte) ([]byte, error) {
	if bytes.HasPrefix(key, []byte("q")) {
		return nil, nil
	}
	return append([]byte(w.prefix), key...), nil
}

func (w renaming) Cell(c *table.Cell) (bool, error) {
	if bytes.HasPrefix(c.Qualifier, []byte("q")) {
		return false, nil
	}
	c.Qualifier = renamed(c.Qualifier)
	if !c.Tombstone {
		c.Value = append([]byte("new "), c.Value...)
	}
	return true, nil
}

// renamed changes the order of qualifiers.
func renamed(q []byte) []byte {
	if string(q) == "s" {
		return []byte("\x00first")
	}
	return q
}

// testCopy copies a table with random versions, late revisions, tombstones and deleted rows, and compares the copy with
// models at all revisions.
func testCopy(f *fixture) {
	to := f.create(table.Spec{Families: families})
	runs := map[string]*model{}
	rapid.Check(f.T, func(t *rapid.T) {
		m, p := &model{}, fmt.Sprintf("run%06d-", modelRuns.Add(1))
		for _, r := range rapid.SliceOfNDistinct(rapid.IntRange(1, 24), 1, 10, rapid.ID).Draw(t, "revisions") {
			ms := drawMutations(t, p)
			if err := f.tab.Apply(f.ctx, table.Revision(r), ms); err != nil {
				t.Fatal(err)
			}
			for _, x := range ms {
				m.events = append(m.events, event{table.Revision(r), x})
			}
		}
		runs[p] = m
	})
	f.apply(20, table.Mutation{Row: []byte("late"), Cells: cells("a:p=1")})
	f.apply(3, table.Mutation{Row: []byte("q, left out"), Cells: cells("a:p=1")})
	f.copy(f.tn, to, table.RevisionSpan{UpTo: 12})
	if row, err := f.s.Table(to).Get(f.ctx, []byte("to late"), table.Select{}); err != nil || len(row.Cells) > 0 {
		f.Errorf("revisions after the span were copied: %v, %v", row, err)
	}
	f.copy(f.tn, to, table.RevisionSpan{After: 12})
	if row, err := f.s.Table(to).Get(f.ctx, []byte("to late"), table.Select{}); err != nil || len(row.Cells) != 1 {
		f.Errorf("the second span: %v, %v", row, err)
	}
	for p, m := range runs {
		for r := range table.Revision(25) {
			v := hiding(r, r/2)
			for _, row := range modelRows {
				got, err := f.s.Table(to).Get(f.ctx, []byte("to "+p+row), table.Select{View: v})
				if err != nil {
					f.Fatal(err)
				}
				if want := inCopy(m.row(p+row, v)); showCells(got.Cells) != want {
					f.Fatalf("%q at %+v\n got %s\nwant %s", p+row, v, showCells(got.Cells), want)
				}
			}
		}
	}
	if row, err := f.s.Table(to).Get(f.ctx, []byte("to q, left out"), table.Select{}); err != nil || len(row.Cells) > 0 {
		f.Errorf("%v, %v", row, err)
	}
}

// inCopy returns the cells that a copy has in place of cells.
func inCopy(cs []table.Cell) string {
	var out []table.Cell
	for _, c := range cs {
		if keep, _ := (renaming{}).Cell(&c); keep {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, table.Cell.Compare)
	return showCells(out)
}

func (f *fixture) copy(from, to string, span table.RevisionSpan) {
	f.Helper()
	if err := f.s.Table(from).(table.Copier).CopyTo(f.ctx, f.s.Table(to), renaming{"to "}, span); err != nil {
		f.Fatal(err)
	}
}

// testCopyWide copies a row with more columns than an engine reads at once, some of which have older versions, and a deletion
// of the row.
func testCopyWide(f *fixture) {
	to := f.create(table.Spec{Families: families})
	write := func(r table.Revision, step int, del bool) {
		m := table.Mutation{Row: []byte("wide"), DeleteRow: del}
		for i := 0; i < 9000; i += step {
			m.Cells = append(m.Cells, table.Cell{Family: 'c', Qualifier: fmt.Appendf(nil, "p%05d", i), Value: fmt.Appendf(nil, "%d", r)})
		}
		f.apply(r, m)
	}
	write(1, 1, false)
	write(2, 3, true)
	write(3, 7, false)
	f.copy(f.tn, to, table.RevisionSpan{UpTo: 2})
	f.copy(f.tn, to, table.RevisionSpan{After: 2})
	for r := range table.Revision(5) {
		was, err := f.tab.Get(f.ctx, []byte("wide"), table.Select{View: at(r)})
		if err != nil {
			f.Fatal(err)
		}
		is, err := f.s.Table(to).Get(f.ctx, []byte("to wide"), table.Select{View: at(r)})
		if err != nil {
			f.Fatal(err)
		}
		if want := inCopy(was.Cells); showCells(is.Cells) != want || r > 0 && want == "" {
			f.Errorf("at %d: %d cells, want %d", r, len(is.Cells), len(was.Cells))
		}
	}
}

// testCopyUnversioned copies an unversioned table.
func testCopyUnversioned(f *fixture) {
	spec := table.Spec{Families: families, Unversioned: true}
	from, to := f.create(spec), f.create(spec)
	t := f.s.Table(from)
	for i, cs := range []string{"a:p=1 b:p=2 c:r=3", "a:s=1 a:t=2", "a:p=1"} {
		if _, err := t.Swap(f.ctx, fmt.Appendf(nil, "row %d", i), 'a', []byte("none"), nil, cells(cs)); err != nil {
			f.Fatal(err)
		}
	}
	if _, err := t.Swap(f.ctx, []byte("row 2"), 'a', []byte("p"), []byte("1"), cells("a:p-")); err != nil {
		f.Fatal(err)
	}
	f.copy(from, to, table.RevisionSpan{After: 12})
	var got string
	for row, err := range f.s.Table(to).Scan(f.ctx, table.Range{}, table.Select{}) {
		if err != nil {
			f.Fatal(err)
		}
		for i := range row.Cells {
			row.Cells[i].Revision = 0
		}
		got += fmt.Sprintf("%s: %s\n", row.Key, showCells(row.Cells))
	}
	if want := "to row 0: a:p=new 1 b:p=new 2 c:r=new 3\nto row 1: a:\x00first=new 1 a:t=new 2\n"; got != want {
		f.Errorf("%q, want %q", got, want)
	}
}
