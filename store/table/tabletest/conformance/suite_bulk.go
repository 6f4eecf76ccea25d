package conformance

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

var bulkTests = []suiteTest{
	{"Bulk", testBulk},
	{"BulkMerges", testBulkMerges},
	{"BulkSpills", testBulkSpills},
	{"BulkAbort", testBulkAbort},
	{"BulkLate", testBulkLate},
	{"BulkRejects", testBulkRejects},
}

func (f *fixture) bulk(r table.Revision, o table.BulkOptions) table.Bulk {
	f.Helper()
	b, err := f.s.(table.Bulker).Bulk(f.ctx, r, o)
	if err != nil {
		f.Fatalf("Bulk: %v", err)
	}
	f.Cleanup(func() {
		if err := b.Abort(); err != nil {
			f.Errorf("Abort: %v", err)
		}
	})
	return b
}

func (f *fixture) add(b table.Bulk, ms ...table.Mutation) {
	f.Helper()
	if err := b.Add(f.tn, ms...); err != nil {
		f.Fatalf("Add: %v", err)
	}
}

// finish ends a load, which must have written over the given rows of the fixture's table.
func (f *fixture) finish(b table.Bulk, over string, last ...table.Write) {
	f.Helper()
	err := b.Finish(f.ctx, func(o table.Overwritten) []table.Write {
		var got []string
		for _, rows := range o.Rows {
			for _, key := range rows.Keys {
				got = append(got, string(key))
			}
			if rows.Table != f.tn {
				f.Errorf("rows of the table %s were written over", rows.Table)
			}
		}
		if s := strings.Join(got, " "); s != over || o.All {
			f.Errorf("the rows %q were written over, want %q (all: %t)", s, over, o.All)
		}
		return last
	})
	if err != nil {
		f.Fatalf("Finish: %v", err)
	}
}

func testBulk(f *fixture) {
	un := f.create(table.Spec{Unversioned: true, Families: []table.FamilySpec{{Name: 'h'}, {Name: 'i'}}})
	if ok, err := swap(f.ctx, f.s.Table(un), "head", "n", nil, []byte("old"), cells("h:gone=1")...); !ok {
		f.Fatal(err)
	}
	var done float64
	b := f.bulk(5, table.BulkOptions{Progress: func(d, of float64) { done = d / of }})
	f.add(b, mutation("2", "c:z=1 a:y=2"), mutation("1", "a:x=1"))
	f.add(b, mutation("2", "a:x=1"), mutation("\x00", "b:\x00=1"), mutation("3", "a:x=last"))
	f.wantScan(table.Range{}, table.Select{}) // no row is visible before Finish
	f.finish(b, "", table.Write{Table: un, Mutations: []table.Mutation{mutation("head", "h:n=5 h:gone- i:m=1")}})
	f.wantScan(table.Range{}, table.Select{}, "\x00: b:\x00=1@5", "1: a:x=1@5", "2: a:x=1@5 a:y=2@5 c:z=1@5", "3: a:x=last@5")
	f.wantScan(table.Range{}, table.Select{View: at(4)})
	f.wantRow("2", table.Select{Families: []table.Family{'c'}}, "c:z=1@5")
	row, err := f.s.Table(un).Get(f.ctx, []byte("head"), table.Select{})
	if err != nil || len(row.Cells) != 2 || string(row.Cells[0].Value) != "5" || string(row.Cells[1].Value) != "1" {
		f.Errorf("the unversioned row is %s, %v", showCells(row.Cells), err)
	}
	if done != 1 {
		f.Errorf("progress ended at %v", done)
	}
	if err := b.Add(f.tn, mutation("4", "a:x=1")); err == nil {
		f.Error("Add after Finish: no error")
	}
	f.put(6, "2", "a:x- b:w=6")
	f.wantRow("2", table.Select{}, "a:y=2@5 b:w=6@6 c:z=1@5")
}

func testBulkMerges(f *fixture) {
	f.put(1, "1", "a:x=1 a:y=1 c:x=1")
	f.put(2, "2", fmt.Sprintf("c:big=%0100d c:x=2", 1))
	f.put(2, "3", "a:x=2")
	b := f.bulk(5, table.BulkOptions{})
	f.add(b, mutation("1", "a:x=5 a:y-"), mutation("2", "c:x=5 c:y=5"))
	f.add(b, mutation("3", "!a:y=5"), mutation("4", fmt.Sprintf("c:big=%0100d", 4)), mutation("1", fmt.Sprintf("c:a=%060d", 5)))
	f.finish(b, "1 2 3")
	big := func(n int) string { return fmt.Sprintf("c:big=%0100d", n) }
	f.wantScan(table.Range{}, table.Select{},
		fmt.Sprintf("1: a:x=5@5 c:a=%060d@5 c:x=1@1", 5), "2: "+big(1)+"@2 c:x=5@5 c:y=5@5", "3: a:y=5@5", "4: "+big(4)+"@5")
	f.wantScan(table.Range{}, table.Select{View: at(4)},
		"1: a:x=1@1 a:y=1@1 c:x=1@1", "2: "+big(1)+"@2 c:x=2@2", "3: a:x=2@2")
	f.wantScan(table.Range{}, table.Select{View: hiding(6, 5)},
		"1: a:x=1@1 a:y=1@1 c:x=1@1", "2: "+big(1)+"@2 c:x=2@2", "3: a:x=2@2")
}

// testBulkSpills loads rows in many parts, and one row with very many columns, from
// several goroutines and with little memory.
func testBulkSpills(f *fixture) {
	const rows, parts, members = 500, 4, 20_000
	b := f.bulk(9, table.BulkOptions{Memory: 256 << 10})
	var wg sync.WaitGroup
	for w := range parts {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(1, uint64(w)))
			for _, i := range rnd.Perm(rows) {
				m := mutation(fmt.Sprintf("row%04d", i), fmt.Sprintf("a:p%d=%d c:q%d=%030d", w, i, w, i))
				for j := i * members / rows; j < (i+1)*members/rows; j++ {
					if j%parts == w {
						c := table.Cell{Family: 'c', Qualifier: fmt.Appendf(nil, "m%08d", j*7919%members), Value: fmt.Appendf(nil, "%060d", j)}
						if err := b.Add(f.tn, table.Mutation{Row: []byte("wide"), Cells: []table.Cell{c}}); err != nil {
							f.Error(err)
						}
					}
				}
				if err := b.Add(f.tn, m); err != nil {
					f.Error(err)
				}
			}
		})
	}
	wg.Wait()
	var large []table.Cell
	for i := range 3000 {
		large = append(large, table.Cell{Family: 'c', Qualifier: fmt.Appendf(nil, "n%08d", i), Value: fmt.Appendf(nil, "%0100d", i)})
	}
	slices.Reverse(large)
	f.add(b, table.Mutation{Row: []byte("wide"), DeleteRow: true, Cells: large})
	f.finish(b, "")
	n := 0
	for row, err := range f.tab.Scan(f.ctx, table.Prefix([]byte("row")), table.Select{}) {
		if err != nil {
			f.Fatal(err)
		}
		want := ""
		for _, part := range []string{"a:p%d=%d@9 ", "c:q%d=%030d@9 "} {
			for w := range parts {
				want += fmt.Sprintf(part, w, n)
			}
		}
		if got := showCells(row.Cells); got != trim(want) || string(row.Key) != fmt.Sprintf("row%04d", n) {
			f.Fatalf("row %q is %s, want %s", row.Key, got, want)
		}
		n++
	}
	wide := f.get("wide", table.Select{}).Cells
	if n != rows || len(wide) != members+3000 || !slices.IsSortedFunc(wide, table.Cell.Compare) {
		f.Errorf("%d rows and %d columns, want %d and %d", n, len(wide), rows, members+3000)
	}
}

func testBulkAbort(f *fixture) {
	f.put(1, "1", "a:x=1")
	b := f.bulk(5, table.BulkOptions{Memory: 1 << 10})
	for i := range 100 {
		f.add(b, mutation(fmt.Sprint(i), "a:x=5"))
	}
	for range 2 {
		if err := b.Abort(); err != nil {
			f.Errorf("Abort: %v", err)
		}
	}
	f.wantScan(table.Range{}, table.Select{}, "1: a:x=1@1")
	if err := b.Finish(f.ctx, nil); err == nil {
		f.Error("Finish after Abort: no error")
	}
	f.finish(f.bulk(6, table.BulkOptions{}), "") // a load without cells
	f.wantScan(table.Range{}, table.Select{}, "1: a:x=1@1")
}

// testBulkLate loads at a revision below existing revisions.
func testBulkLate(f *fixture) {
	f.put(3, "1", "a:x=3 c:x=3")
	f.put(9, "1", "a:y- c:x=9")
	f.put(9, "2", "!a:x=9")
	f.put(9, "3", fmt.Sprintf("c:big=%0100d", 1))
	b := f.bulk(5, table.BulkOptions{})
	f.add(b, mutation("1", fmt.Sprintf("a:x=5 a:y=5 c:x=5 c:w=%0100d", 5)), mutation("2", "a:y=5"), mutation("3", "c:x=5"))
	f.finish(b, "1 2 3")
	w := fmt.Sprintf("c:w=%0100d@5", 5)
	f.wantScan(table.Range{}, table.Select{},
		"1: a:x=5@5 "+w+" c:x=9@9", "2: a:x=9@9", fmt.Sprintf("3: c:big=%0100d@9 c:x=5@5", 1))
	f.wantScan(table.Range{}, table.Select{View: at(8)}, "1: a:x=5@5 a:y=5@5 "+w+" c:x=5@5", "2: a:y=5@5", "3: c:x=5@5")
	f.wantRow("1", table.Select{View: at(4)}, "a:x=3@3 c:x=3@3")
}

func testBulkRejects(f *fixture) {
	b := f.bulk(5, table.BulkOptions{})
	if err := b.Add("conf_no_such_table", mutation("r", "a:x=1")); err == nil {
		f.Error("Add to a table that does not exist: no error")
	}
	if err := b.Add(f.tn, mutation("r", "z:x=1")); err == nil {
		f.Error("Add to a family that does not exist: no error")
	}
	late := func(table.Overwritten) []table.Write {
		return []table.Write{{Table: f.tn, Mutations: []table.Mutation{mutation("r", "a:x=1")}}}
	}
	if err := b.Finish(f.ctx, late); err == nil {
		f.Error("Finish with a row of a versioned table: no error")
	}
	f.wantScan(table.Range{}, table.Select{})
}
