package hbase_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

// TestCutAfter removes everything after a revision from a clone of a table, and compares
// the clone with what the table shows at that revision.
func TestCutAfter(t *testing.T) {
	s := open(t)
	original := create(t, s, data, heads)
	apply := func(r table.Revision, ms ...table.Mutation) {
		t.Helper()
		if err := original.Apply(t.Context(), r, ms); err != nil {
			t.Fatal(err)
		}
	}
	for r := table.Revision(1); r <= 20; r++ {
		apply(r, put("kept", cell('a', "q", fmt.Sprint(r)), cell('b', fmt.Sprint(r), "x")),
			put(fmt.Sprintf("new at %02d", r), cell('a', "q", "x")))
	}
	apply(5, put("deleted", cell('a', "q", "x"), cell('b', "r", "y")))
	apply(12, table.Mutation{Row: []byte("deleted"), DeleteRow: true})
	apply(5, put("gone", cell('a', "q", "x")))
	apply(15, put("gone", gone('a', "q")))
	var wide []table.Cell
	for i := range 5000 {
		wide = append(wide, cell('a', fmt.Sprintf("%05d", i), "x"))
	}
	apply(4, put("wide", wide[:3000]...))
	apply(16, put("wide", wide...))
	if err := original.Erase(t.Context(), 7, [][]byte{[]byte("kept"), []byte("new at 07")}); err != nil {
		t.Fatal(err)
	}

	name := s.FullName("data") + "-cut"
	if err := s.TakeSnapshot(t.Context(), "data", name); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.DeleteSnapshot(t.Context(), name); err != nil {
			t.Error(err)
		}
	}()
	if all, err := s.Snapshots(t.Context()); err != nil || len(all) != 1 || all[0].Name != name || all[0].Table != "data" || all[0].Taken.IsZero() {
		t.Errorf("snapshots: %+v, %v", all, err)
	}
	if err := s.Clone(t.Context(), name, "copy"); err != nil {
		t.Fatal(err)
	}
	clone := s.Table("copy")
	if n, err := s.CutAfter(t.Context(), "copy", 10); err != nil || n != 14 {
		t.Errorf("%d rows, %v", n, err)
	}
	if n, err := s.CutAfter(t.Context(), "copy", 10); err != nil || n != 0 {
		t.Errorf("a second cut: %d rows, %v", n, err)
	}
	if n, err := s.CutAfter(t.Context(), "heads", 10); err != nil || n != 0 {
		t.Errorf("an unversioned table: %d rows, %v", n, err)
	}
	for _, r := range []table.Revision{3, 10, 20} {
		want := rowsOf(t, original, min(r, 10))
		if d := cmp.Diff(want, rowsOf(t, clone, r)); d != "" {
			t.Errorf("at %d: (-want +got)\n%s", r, d)
		}
	}
}

func rowsOf(t *testing.T, x table.Table, r table.Revision) (rows []table.Row) {
	t.Helper()
	for row, err := range x.Scan(t.Context(), table.Range{}, table.Select{View: upTo(r)}) {
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row.Clone())
	}
	return rows
}
