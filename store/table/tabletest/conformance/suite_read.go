package conformance

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest"
)

func testCatalog(f *fixture) {
	names, err := f.s.Names(f.ctx)
	if err != nil || !slices.Contains(names, f.tn) || !slices.IsSorted(names) {
		f.Errorf("Names = %v, %v; want %s among them, sorted", names, err, f.tn)
	}
	spec := table.Spec{Name: f.tn, Families: families}
	f.put(1, "row", "a:q=v")
	if err := f.s.Create(f.ctx, spec); err != nil {
		f.Errorf("Create of an equal table: %v", err)
	}
	f.wantRow("row", table.Select{}, "a:q=v@1")
	spec.Families = families[:1]
	if err := f.s.Create(f.ctx, spec); err == nil {
		f.Error("Create with other families: no error")
	}
	if err := f.s.Drop(f.ctx, f.tn, "no_such_table"); err != nil {
		f.Errorf("Drop: %v", err)
	}
	if _, err := f.tab.Get(f.ctx, []byte("row"), table.Select{}); err == nil {
		f.Error("Get from a dropped table: no error")
	}
	spec.Families = families
	if err := f.s.Create(f.ctx, spec); err != nil {
		f.Fatalf("Create again: %v", err)
	}
	f.wantRow("row", table.Select{}, "")
}

func testGetAndScan(f *fixture) {
	f.wantRow("none", table.Select{}, "")
	f.wantScan(table.Range{}, table.Select{})
	f.put(1, "b", "a:x=1 b:y=2 c:z=3")
	f.put(2, "a", "a:x=4")
	f.put(3, "c", "c:z=5 c:w=")
	f.wantRow("b", table.Select{}, "a:x=1@1 b:y=2@1 c:z=3@1")
	f.wantRow("c", table.Select{}, "c:w=@3 c:z=5@3")
	all := []string{"a: a:x=4@2", "b: a:x=1@1 b:y=2@1 c:z=3@1", "c: c:w=@3 c:z=5@3"}
	f.wantScan(table.Range{}, table.Select{}, all...)
	f.wantScan(table.Range{Start: []byte("b")}, table.Select{}, all[1:]...)
	f.wantScan(table.Range{End: []byte("b")}, table.Select{}, all[:1]...)
	f.wantScan(table.Range{Start: []byte("a\x00"), End: []byte("c")}, table.Select{}, all[1:2]...)
	f.wantScan(table.Range{Start: []byte("c"), End: []byte("a")}, table.Select{})
	f.wantScan(table.Range{}, table.Select{MaxRows: 2}, all[:2]...)
	f.wantScan(table.Range{}, table.Select{MaxRows: 2, Reverse: true}, all[2], all[1])
	f.wantScan(table.Range{End: []byte("c")}, table.Select{Reverse: true}, all[1], all[0])
	n := 0
	for range f.tab.Scan(f.ctx, table.Range{}, table.Select{}) {
		n++
		break
	}
	if n != 1 {
		f.Errorf("a scan that was left gave %d rows", n)
	}
}

func testViews(f *fixture) {
	for r := table.Revision(10); r <= 50; r += 10 {
		f.put(r, "row", fmt.Sprintf("a:x=%d c:r%d=%d%020d", r, r, r, 0))
	}
	f.wantRow("row", table.Select{View: at(9)}, "")
	for r := table.Revision(10); r <= 50; r++ {
		want := fmt.Sprintf("a:x=%d@%d", r/10*10, r/10*10)
		for c := table.Revision(10); c <= r; c += 10 {
			want += fmt.Sprintf(" c:r%d=%d%020d@%d", c, c, 0, c)
		}
		f.wantRow("row", table.Select{View: at(r)}, want)
		// The low-water mark of this view is zero.
		f.wantRow("row", table.Select{View: view{max: r}}, want)
	}
}

func testHidden(f *fixture) {
	f.put(1, "row", "a:x=1 a:y=1 c:x=1 c:y=1")
	f.put(2, "row", "a:x=2 a:new=2 c:x=2 c:new=2")
	f.put(3, "row", "a:y=3 c:y=3")
	f.put(4, "row", "a:x- c:x-")
	f.put(5, "row", "!a:z=5 c:z=5")
	f.put(6, "row", "a:w=6 c:w="+fmt.Sprintf("%080d", 6)) // family c becomes columnar here
	f.put(7, "row", "a:v=7 c:v=7")
	long := fmt.Sprintf("%080d", 6)
	f.wantRow("row", table.Select{View: hiding(1, 1)}, "")
	f.wantRow("row", table.Select{View: hiding(3, 2)}, "a:x=1@1 a:y=3@3 c:x=1@1 c:y=3@3")
	f.wantRow("row", table.Select{View: hiding(3, 1)}, "a:new=2@2 a:x=2@2 a:y=3@3 c:new=2@2 c:x=2@2 c:y=3@3")
	f.wantRow("row", table.Select{View: hiding(4, 2, 3)}, "a:y=1@1 c:y=1@1")
	f.wantRow("row", table.Select{View: hiding(5, 5)}, "a:new=2@2 a:y=3@3 c:new=2@2 c:y=3@3")
	f.wantRow("row", table.Select{View: hiding(5, 4)}, "a:z=5@5 c:z=5@5")
	f.wantRow("row", table.Select{View: hiding(6, 5)}, "a:new=2@2 a:w=6@6 a:y=3@3 c:new=2@2 c:w="+long+"@6 c:y=3@3")
	f.wantRow("row", table.Select{View: hiding(7, 6)}, "a:v=7@7 a:z=5@5 c:v=7@7 c:z=5@5")
	f.wantRow("row", table.Select{View: hiding(7, 4, 5, 6)},
		"a:new=2@2 a:v=7@7 a:x=2@2 a:y=3@3 c:new=2@2 c:v=7@7 c:x=2@2 c:y=3@3")
}

func testTombstones(f *fixture) {
	f.put(1, "row", "a:x=1 a:y=1 c:x=1")
	f.put(2, "row", "a:x- a:never- c:x-")
	f.wantRow("row", table.Select{}, "a:y=1@1")
	f.wantRow("row", table.Select{View: at(1)}, "a:x=1@1 a:y=1@1 c:x=1@1")
	f.put(3, "row", "a:x=3 a:y-")
	f.wantRow("row", table.Select{}, "a:x=3@3")
	f.put(4, "row", "a:x-")
	f.wantRow("row", table.Select{}, "")
	f.wantRow("row", table.Select{View: at(2)}, "a:y=1@1")
	f.wantRow("row", table.Select{MaxCells: 1, View: at(2)}, "a:y=1@1")
}

func testDeleteRow(f *fixture) {
	f.put(1, "row", "a:x=1 b:x=1 c:x=1")
	f.put(1, "rowz", "a:x=1")
	f.put(2, "row", "!")
	f.wantRow("row", table.Select{}, "")
	f.wantRow("row", table.Select{View: at(1)}, "a:x=1@1 b:x=1@1 c:x=1@1")
	f.wantRow("rowz", table.Select{}, "a:x=1@1")
	f.put(3, "row", "b:y=3")
	f.wantRow("row", table.Select{}, "b:y=3@3")
	f.wantRow("row", table.Select{View: at(2)}, "")
	f.put(4, "row", "!a:x=4 c:z=4")
	f.wantRow("row", table.Select{}, "a:x=4@4 c:z=4@4")
	f.put(5, "none", "!")
	f.wantRow("none", table.Select{}, "")
	big := fmt.Sprintf("c:big=%0200d", 1)
	f.put(6, "big", big+" c:b=6")
	f.put(7, "big", "!c:a=7")
	f.wantRow("big", table.Select{}, "c:a=7@7")
	f.put(8, "big", "c:b=8")
	f.wantRow("big", table.Select{}, "c:a=7@7 c:b=8@8")
	f.wantRow("big", table.Select{View: at(6)}, "c:b=6@6 "+big+"@6")
	f.put(9, "big", "!")
	f.wantScan(table.Range{}, table.Select{}, "row: a:x=4@4 c:z=4@4", "rowz: a:x=1@1")
}

// testLateDeletion deletes a row, and then makes it wide, at revisions before one at which it was wide already.
func testLateDeletion(f *fixture) {
	wide := fmt.Sprintf("c:p=%0100d", 1)
	f.put(1, "row", "c:r=1")
	f.put(21, "row", "c:p= "+fmt.Sprintf("c:q=%0100d", 1))
	f.put(6, "row", "!")
	f.put(14, "row", wide)
	for _, v := range []table.View{at(14), at(20), hiding(14, 7), hiding(20, 3, 16)} {
		f.wantRow("row", table.Select{View: v}, wide+"@14")
	}
}

// testLate writes revisions below existing ones, as a slow server would.
func testLate(f *fixture) {
	big := fmt.Sprintf("c:big=%0100d", 1)
	f.put(30, "row", "a:x=30 c:x=30")
	f.put(10, "row", "a:x=10 a:y=10 c:x=10 c:y=10")
	f.wantRow("row", table.Select{}, "a:x=30@30 a:y=10@10 c:x=30@30 c:y=10@10")
	f.wantRow("row", table.Select{View: at(20)}, "a:x=10@10 a:y=10@10 c:x=10@10 c:y=10@10")
	f.put(40, "row", big)
	f.put(20, "row", "a:y- c:y- c:z=20")
	f.wantRow("row", table.Select{}, "a:x=30@30 "+big+"@40 c:x=30@30 c:z=20@20")
	f.put(25, "row", "!a:w=25")
	f.wantRow("row", table.Select{}, "a:w=25@25 a:x=30@30 "+big+"@40 c:x=30@30")
	f.wantRow("row", table.Select{View: at(24)}, "a:x=10@10 c:x=10@10 c:z=20@20")
	f.put(35, "row", "c:v=35 c:x-")
	f.wantRow("row", table.Select{}, "a:w=25@25 a:x=30@30 "+big+"@40 c:v=35@35")
	f.put(50, "row", "c:u=50")
	f.put(45, "row", "!c:u=45")
	f.wantRow("row", table.Select{}, "c:u=50@50")
	f.wantRow("row", table.Select{View: at(44)}, "a:w=25@25 a:x=30@30 "+big+"@40 c:v=35@35")

	// A tombstone that was there before the row became columnar hides a late cell.
	f.put(7, "columnar", "c:x- c:y=7")
	f.put(17, "columnar", big)
	f.put(2, "columnar", "c:x=2")
	f.wantRow("columnar", table.Select{View: at(6)}, "c:x=2@2")
	f.wantRow("columnar", table.Select{}, big+"@17 c:y=7@7")
}

func testFamilies(f *fixture) {
	f.put(1, "1", "a:x=1 b:x=2 c:x=3")
	f.put(1, "2", "a:x=1")
	f.put(1, "3", "c:x=3")
	sel := func(fs ...table.Family) table.Select { return table.Select{Families: fs} }
	f.wantRow("1", sel('b'), "b:x=2@1")
	f.wantRow("1", sel('c', 'a'), "a:x=1@1 c:x=3@1")
	f.wantScan(table.Range{}, sel('b'), "1: b:x=2@1")
	f.wantScan(table.Range{}, sel('a'), "1: a:x=1@1", "2: a:x=1@1")
	f.wantScan(table.Range{}, sel('c', 'b'), "1: b:x=2@1 c:x=3@1", "3: c:x=3@1")
	s := sel('c', 'b')
	s.Reverse = true
	f.wantScan(table.Range{}, s, "3: c:x=3@1", "1: b:x=2@1 c:x=3@1")
	if _, err := f.tab.Get(f.ctx, []byte("1"), sel('z')); err == nil {
		f.Log("a family that the table does not have is taken for empty")
	}
}

func testColumns(f *fixture) {
	for _, fam := range []string{"a", "c"} { // a is stored in one piece, c in columns
		row := "row" + fam
		set := ""
		for i := range 20 {
			set += fmt.Sprintf("%s:%02d=%03d ", fam, i, i)
		}
		f.put(1, row, set+"b:x=y")
		fm := table.Family(fam[0])
		rng := func(from, to string) table.ColumnRange {
			return table.ColumnRange{Family: fm, From: []byte(from), To: []byte(to)}
		}
		only := []table.Family{fm}
		for _, x := range []struct {
			cols []table.ColumnRange
			want []int
		}{
			{[]table.ColumnRange{table.Column(fm, []byte("07"))}, []int{7}},
			{[]table.ColumnRange{table.Column(fm, []byte("99"))}, nil},
			{[]table.ColumnRange{table.Column(fm, []byte("0"))}, nil},
			{[]table.ColumnRange{table.ColumnPrefix(fm, []byte("1"))}, []int{10, 11, 12, 13, 14, 15, 16, 17, 18, 19}},
			{[]table.ColumnRange{rng("03", "06")}, []int{3, 4, 5}},
			{[]table.ColumnRange{rng("18", "")}, []int{18, 19}},
			{[]table.ColumnRange{rng("", "02")}, []int{0, 1}},
			{[]table.ColumnRange{rng("15", "16"), rng("03", "05"), rng("04", "06")}, []int{3, 4, 5, 15}},
			{[]table.ColumnRange{rng("05", "05")}, nil},
		} {
			want := ""
			for _, i := range x.want {
				want += fmt.Sprintf(" %s:%02d=%03d@1", fam, i, i)
			}
			f.wantRow(row, table.Select{Families: only, Columns: x.cols}, trim(want))
			if fam == "a" {
				f.wantRow(row, table.Select{Columns: x.cols}, trim(want+" b:x=y@1"))
			}
		}
		f.wantRow(row, table.Select{Families: []table.Family{'b'},
			Columns: []table.ColumnRange{table.Column(fm, []byte("07"))}}, "b:x=y@1")
	}
}

func trim(s string) string { return string(bytes.TrimSpace([]byte(s))) }

func testMaxCells(f *fixture) {
	f.put(1, "row", "a:x=1 a:y=1 b:x=1 c:x=1")
	f.put(2, "row", "a:x- b:z=2")
	for n, want := range []string{
		"a:y=1@1 b:x=1@1 b:z=2@2 c:x=1@1", "a:y=1@1", "a:y=1@1 b:x=1@1",
		"a:y=1@1 b:x=1@1 b:z=2@2", "a:y=1@1 b:x=1@1 b:z=2@2 c:x=1@1", "a:y=1@1 b:x=1@1 b:z=2@2 c:x=1@1",
	} {
		f.wantRow("row", table.Select{MaxCells: n}, want)
	}
	f.put(3, "other", "a:p=1 a:q=1")
	f.wantScan(table.Range{}, table.Select{MaxCells: 1}, "other: a:p=1@3", "row: a:y=1@1")
}

// testWideRow pages through a row with very many columns. An engine that reads the whole
// row again for each page needs minutes.
func testWideRow(f *fixture) {
	n := 100_000
	switch f.s.(type) {
	case *tabletest.Mem, *tabletest.BatchMem: // they insert each cell into a list, which is slow
		n = 5_000
	}
	if testing.Short() {
		n = 5_000
	}
	q := func(i int) []byte { return fmt.Appendf(nil, "member-%08d", i) }
	for i := 0; i < n; i += 10_000 {
		m := table.Mutation{Row: []byte("group")}
		for j := i; j < min(i+10_000, n); j++ {
			m.Cells = append(m.Cells, table.Cell{Family: 'c', Qualifier: q(j), Value: []byte("m")})
		}
		f.apply(table.Revision(i+1), m)
	}
	f.put(table.Revision(n+1), "group", fmt.Sprintf("c:%s- a:cn=g", q(n/2)))
	var from []byte
	got, pages := 0, 0
	for {
		s := table.Select{MaxCells: 1000, Families: []table.Family{'c'},
			Columns: []table.ColumnRange{{Family: 'c', From: from}}}
		row := f.get("group", s)
		for _, c := range row.Cells {
			if got == n/2 {
				got++
			}
			if !bytes.Equal(c.Qualifier, q(got)) {
				f.Fatalf("column %d is %q", got, c.Qualifier)
			}
			got++
		}
		if len(row.Cells) < 1000 {
			break
		}
		from = append(bytes.Clone(row.Cells[999].Qualifier), 0)
		pages++
	}
	if got != n || pages != (n-1)/1000 {
		f.Errorf("paged through %d columns in %d full pages, want %d", got, pages, n)
	}
	f.wantRow("group", table.Select{Families: []table.Family{'c'},
		Columns: []table.ColumnRange{table.Column('c', q(n-1)), table.Column('c', q(n/2))}},
		fmt.Sprintf("c:%s=m@%d", q(n-1), (n-1)/10_000*10_000+1))
	f.wantRow("group", table.Select{Families: []table.Family{'a'}}, fmt.Sprintf("a:cn=g@%d", n+1))
}

func testGetMany(f *fixture) {
	for i := range 50 {
		f.put(table.Revision(i+1), fmt.Sprintf("row%02d", i), fmt.Sprintf("a:x=%d", i))
	}
	var keys [][]byte
	for _, i := range []int{7, 49, 7, 0, 99, 30} {
		keys = append(keys, fmt.Appendf(nil, "row%02d", i))
	}
	rows, err := f.tab.GetMany(f.ctx, keys, table.Select{View: at(40)})
	if err != nil || len(rows) != len(keys) {
		f.Fatalf("GetMany = %d rows, %v", len(rows), err)
	}
	for i, want := range []string{"a:x=7@8", "", "a:x=7@8", "a:x=0@1", "", "a:x=30@31"} {
		if !bytes.Equal(rows[i].Key, keys[i]) || showCells(rows[i].Cells) != want {
			f.Errorf("answer %d is %q: %s, want %q: %s", i, rows[i].Key, showCells(rows[i].Cells), keys[i], want)
		}
	}
	if rows, err := f.tab.GetMany(f.ctx, nil, table.Select{}); err != nil || len(rows) != 0 {
		f.Errorf("GetMany of nothing = %v, %v", rows, err)
	}
}

func testOrder(f *fixture) {
	keys := []string{
		"\x00", "\x00\x00", "\x00\x01", "\x00\xff", "\x01", "a", "a\x00", "a\x00\x00b", "a\x00\x01", "a\x00\xff",
		"a\x01", "a\xff", "a\xff\x00", "a\xff\xff", "ab", "b", "\xff", "\xff\x00", "\xff\xff", "\xff\xff\xff",
	}
	slices.Sort(keys)
	for i := range keys {
		k := keys[(i*7)%len(keys)] // not in ascending order
		f.apply(1, table.Mutation{Row: []byte(k), Cells: []table.Cell{
			{Family: 'a', Qualifier: []byte(k), Value: []byte(k)},
			{Family: 'c', Qualifier: []byte(k), Value: bytes.Repeat([]byte(k), 50)},
		}})
	}
	for i, from := range keys {
		for j := i; j <= len(keys); j++ {
			r := table.Range{Start: []byte(from)}
			if j < len(keys) {
				r.End = []byte(keys[j])
			}
			f.wantKeys(r, false, keys[i:j])
			if (i+j)%5 == 0 {
				back := slices.Clone(keys[i:j])
				slices.Reverse(back)
				f.wantKeys(r, true, back)
			}
		}
		row := f.get(from, table.Select{Columns: []table.ColumnRange{table.Column('a', []byte(from)),
			table.ColumnPrefix('c', []byte(from))}})
		if len(row.Cells) != 2 || string(row.Cells[0].Value) != from {
			f.Errorf("row %q is %s", from, showCells(row.Cells))
		}
	}
	f.wantKeys(table.Prefix([]byte("a")), false, keys[slices.Index(keys, "a"):slices.Index(keys, "b")])
	f.wantKeys(table.Prefix([]byte("\xff")), false, keys[slices.Index(keys, "\xff"):])
}

func (f *fixture) wantKeys(r table.Range, reverse bool, want []string) {
	f.Helper()
	rows, err := collect(f.ctx, f.tab, r, table.Select{Reverse: reverse})
	if err != nil {
		f.Fatalf("Scan: %v", err)
	}
	var got []string
	for _, row := range rows {
		got = append(got, string(row.Key))
	}
	if !slices.Equal(got, want) {
		f.Errorf("Scan [%q, %q) reverse %v = %q, want %q", r.Start, r.End, reverse, got, want)
	}
}
