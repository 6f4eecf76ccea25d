package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

// testFilter checks that every row that matches a filter is returned and contains
// everything selected. Other rows may be returned too.
func testFilter(f *fixture) {
	f.put(1, "1", "a:x=1 c:cn=ann+smith")
	f.put(2, "2", "a:x=2 c:cn=bob+smith c:sn=y")
	f.put(3, "3", "a:x=3 a:y=3")
	f.put(4, "4", "a:x=4 c:mail=x c:cn="+fmt.Sprintf("%0100d", 0)+" c:zed=z")
	has := func(fam table.Family, q string) table.Filter { return table.Has{Family: fam, Qualifier: []byte(q)} }
	match := func(atEnd bool, parts ...string) table.Filter {
		m := table.HasMatch{Family: 'c', Prefix: []byte("z"), AtEnd: atEnd}
		for _, p := range parts {
			m.Parts = append(m.Parts, []byte(p))
		}
		return m
	}
	for _, x := range []struct {
		name   string
		filter table.Filter
		want   string
	}{
		{"has", has('c', "sn"), "2"},
		{"has in a row of columns", has('c', "zed"), "4"},
		{"has not", has('c', "nothing"), ""},
		{"range", table.HasRange{ColumnRange: table.ColumnPrefix('c', []byte("c"))}, "124"},
		{"match", match(false, "e"), "4"},
		{"match at the end", match(true, "d"), "4"},
		{"match not", match(true, "e"), ""},
		{"value", table.HasValue{Family: 'a', Qualifier: []byte("x"), From: []byte("2"), To: []byte("3")}, "23"},
		{"value that contains", table.HasValue{Family: 'a', Qualifier: []byte("x"), Parts: [][]byte{[]byte("4")}, AtEnd: true}, "4"},
		{"value that begins", table.HasValue{Family: 'c', Qualifier: []byte("cn"), Prefix: []byte("ann"), Parts: [][]byte{[]byte("smith")}}, "1"},
		{"value not", table.HasValue{Family: 'c', Qualifier: []byte("cn"), Prefix: []byte("ann"), Parts: [][]byte{[]byte("n")}}, ""},
		{"all", table.All{has('a', "x"), has('c', "cn")}, "124"},
		{"any", table.Any{has('a', "y"), has('c', "sn")}, "23"},
		{"all of none", table.All{}, "1234"},
		{"any of none", table.Any{}, ""},
		{"keys", table.Any{table.KeyMatch{Prefix: []byte("1")}, table.KeyMatch{Parts: [][]byte{[]byte("3")}}}, "13"},
		{"key or column", table.Any{table.KeyMatch{Prefix: []byte("1"), Parts: [][]byte{{}}}, has('c', "sn")}, "12"},
		{"unknown to the engine", oddRows{}, "13"},
	} {
		for _, s := range []table.Select{
			{}, {Families: []table.Family{'a'}}, {Families: []table.Family{'a'}, View: at(3)}, {Families: []table.Family{'a'}, View: view{max: 4}},
			{Families: []table.Family{'c', 'a'}, Reverse: true},
			{Columns: []table.ColumnRange{table.Column('a', []byte("x"))}, Families: []table.Family{'a'}, MaxCells: 1},
		} {
			plain := map[string]string{}
			for _, row := range f.scan(table.Range{}, s) {
				k, v, _ := strings.Cut(row, ": ")
				plain[k] = v
			}
			s.Filter = x.filter
			got := map[string]string{}
			for _, row := range f.scan(table.Range{}, s) {
				k, v, _ := strings.Cut(row, ": ")
				if got[k] = v; v != plain[k] {
					f.Errorf("%s: row %s is %q with the filter, %q without", x.name, k, v, plain[k])
				}
			}
			for _, k := range strings.Split(x.want, "") {
				if _, ok := plain[k]; ok && got[k] == "" {
					f.Errorf("%s at %s: row %s is lost", x.name, showView(s.View), k)
				}
			}
		}
	}
}

// oddRows is a filter of a type that no engine knows.
type oddRows struct{}

func (oddRows) Match(r table.Row) bool { return len(r.Key) > 0 && r.Key[0]%2 == 1 }

// testFilterHidden checks that a filter tests a row as the view shows the row. So a
// tombstone hides a cell from the filter only if the view shows the tombstone.
func testFilterHidden(f *fixture) {
	f.put(1, "row", "c:sn=1 a:x=1")
	f.put(2, "row", "c:sn-")
	f.put(3, "row", "c:cn=3")
	f.put(4, "row", "!")
	f.put(5, "row", "c:sn=5")
	f.put(6, "row", "c:sn-")
	sn := table.Has{Family: 'c', Qualifier: []byte("sn")}
	value := func(v string) table.Filter {
		return table.HasValue{Family: 'c', Qualifier: []byte("sn"), From: []byte(v), To: []byte(v)}
	}
	cn := table.Has{Family: 'c', Qualifier: []byte("cn")}
	for _, x := range []struct {
		view   table.View
		filter table.Filter
		want   string
	}{
		{at(1), sn, "row: a:x=1@1"},
		{hiding(3, 2), sn, "row: a:x=1@1"},
		{hiding(4, 2, 4), sn, "row: a:x=1@1"},
		{at(3), cn, "row: a:x=1@1"},
		{hiding(4, 4), cn, "row: a:x=1@1"},
		{at(1), value("1"), "row: a:x=1@1"},
		{hiding(5, 2, 4, 5), value("1"), "row: a:x=1@1"}, // a newer version that is not visible does not match
		{hiding(6, 4, 6), value("5"), "row: a:x=1@1"},
	} {
		f.wantScan(table.Range{}, table.Select{View: x.view, Filter: x.filter, Families: []table.Family{'a'}}, x.want)
	}
}

func testIdempotent(f *fixture) {
	long := fmt.Sprintf("c:long=%090d", 1)
	ms := []table.Mutation{mutation("1", "!a:x=1 c:y=2"), mutation("2", "a:z- "+long), mutation("3", "a:x=1")}
	f.put(1, "1", "a:old=1")
	f.put(2, "2", "a:z=2")
	f.apply(5, ms...)
	f.put(7, "3", "a:x=7")
	f.apply(5, ms...)
	f.apply(5, ms[2], ms[1])
	f.wantScan(table.Range{}, table.Select{}, "1: a:x=1@5 c:y=2@5", "2: "+long+"@5", "3: a:x=7@7")
	f.wantScan(table.Range{}, table.Select{View: at(4)}, "1: a:old=1@1", "2: a:z=2@2")
	f.wantScan(table.Range{}, table.Select{View: at(6)}, "1: a:x=1@5 c:y=2@5", "2: "+long+"@5", "3: a:x=1@5")
	f.apply(8, mutation("4", "a:p=1"), mutation("4", "a:q=2 c:r=3")) // two mutations of one row
	f.apply(8, mutation("4", "b:s=4"))
	f.wantRow("4", table.Select{}, "a:p=1@8 a:q=2@8 b:s=4@8 c:r=3@8")
}

func testErase(f *fixture) {
	long := fmt.Sprintf("c:long=%090d", 1)
	f.put(1, "row", "a:x=1 a:y=1 c:x=1")
	f.put(2, "row", "a:x=2 a:y- c:x=2")
	f.put(3, "row", "a:z=3 "+long)
	f.put(4, "row", "!a:w=4")
	f.put(5, "row", "c:v=5 c:x-")
	f.put(4, "other", "a:x=4")
	erase := func(r table.Revision, rows ...string) {
		f.Helper()
		var keys [][]byte
		for _, x := range rows {
			keys = append(keys, []byte(x))
		}
		for range 2 {
			if err := f.tab.Erase(f.ctx, r, keys); err != nil {
				f.Fatalf("Erase: %v", err)
			}
		}
	}
	f.wantRow("row", table.Select{}, "a:w=4@4 c:v=5@5")
	erase(4, "row", "none")
	f.wantRow("row", table.Select{}, "a:x=2@2 a:z=3@3 "+long+"@3 c:v=5@5")
	f.wantRow("other", table.Select{}, "a:x=4@4")
	erase(2, "row")
	f.wantRow("row", table.Select{}, "a:x=1@1 a:y=1@1 a:z=3@3 "+long+"@3 c:v=5@5")
	f.wantRow("row", table.Select{View: at(2)}, "a:x=1@1 a:y=1@1 c:x=1@1")
	erase(5, "row", "other")
	f.wantRow("row", table.Select{}, "a:x=1@1 a:y=1@1 a:z=3@3 "+long+"@3 c:x=1@1")
	erase(3, "row")
	erase(1, "row")
	f.wantRow("row", table.Select{}, "")
	erase(4, "other")
	f.wantScan(table.Range{}, table.Select{})
}

// unversioned creates an unversioned table for Swap.
func (f *fixture) unversioned() table.Table {
	return f.s.Table(f.create(table.Spec{Unversioned: true, Families: []table.FamilySpec{{Name: 'h'}, {Name: 'i'}}}))
}

// swap calls Swap. If Swap returns false, swap reads the cell to find out whether the
// swap happened.
func swap(ctx context.Context, t table.Table, row, q string, old, now []byte, more ...table.Cell) (bool, error) {
	c := table.Cell{Family: 'h', Qualifier: []byte(q), Value: now, Tombstone: now == nil}
	ok, err := t.Swap(ctx, []byte(row), 'h', []byte(q), old, append(more, c))
	if err != nil || ok {
		return ok, err
	}
	r, err := t.Get(ctx, []byte(row), table.Select{})
	if err != nil {
		return false, err
	}
	have := r.Find('h', []byte(q))
	return have != nil && now != nil && bytes.Equal(have.Value, now) && !bytes.Equal(old, now), nil
}

func testSwap(f *fixture) {
	t := f.unversioned()
	want := func(ok bool, row, q string, old, now []byte, more ...table.Cell) {
		f.Helper()
		if got, err := swap(f.ctx, t, row, q, old, now, more...); got != ok || err != nil {
			f.Errorf("Swap %s:%s from %q to %q = %v, %v; want %v", row, q, old, now, got, err, ok)
		}
	}
	cell := func(s string) table.Cell { return cells(s)[0] }
	content := func(want string) {
		f.Helper()
		rows, err := collect(f.ctx, t, table.Range{}, table.Select{})
		if err != nil {
			f.Fatal(err)
		}
		got := ""
		for _, r := range rows {
			for i := range r.Cells {
				r.Cells[i].Revision = 0 // the contract does not specify revisions in unversioned tables
			}
			got += string(r.Key) + "{" + showCells(r.Cells) + "}"
		}
		if got != want {
			f.Errorf("the table holds %s, want %s", got, want)
		}
	}
	b := func(s string) []byte { return []byte(s) }
	content("")
	want(false, "r", "q", b("x"), b("y"))
	want(true, "r", "q", nil, b("1"))
	want(false, "r", "q", nil, b("2"))
	want(false, "r", "q", b("0"), b("2"))
	want(true, "r", "q", b("1"), b("2"), cell("i:side=s"), cell("h:p=p"))
	content("r{h:p=p h:q=2 i:side=s}")
	want(false, "r", "q", b("1"), b("3"), cell("h:p=bad"))
	want(true, "r2", "q", nil, b("4"))
	want(true, "r", "q", b("2"), nil, cell("h:p-"))
	content("r{i:side=s}r2{h:q=4}")
	want(true, "r", "q", nil, b("5"))
	content("r{h:q=5 i:side=s}r2{h:q=4}")
	row, err := t.Get(f.ctx, b("r"), table.Select{Columns: []table.ColumnRange{table.Column('h', b("q"))}, Families: []table.Family{'h'}})
	if err != nil || len(row.Cells) != 1 || string(row.Cells[0].Value) != "5" {
		f.Errorf("Get of the swapped column = %v, %v", row, err)
	}
	if ok, err := t.Swap(f.ctx, b("r"), 'h', b("q"), b("5"), []table.Cell{{Family: 'h', Qualifier: b("q")}}); err == nil {
		f.Errorf("Swap to an empty value = %v, no error", ok)
	}
}

// testSwapRace increments a counter concurrently: no increment may be lost.
func testSwapRace(f *fixture) {
	t := f.unversioned()
	const writers, each = 8, 25
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := 0; i < each; {
				row, err := t.Get(f.ctx, []byte("n"), table.Select{})
				if err != nil {
					f.Error(err)
					return
				}
				var old []byte
				n := 0
				if c := row.Find('h', []byte("n")); c != nil {
					old = c.Value
					n, _ = strconv.Atoi(strings.Split(string(old), " ")[0])
				}
				// The writer's number makes each value unique.
				ok, err := swap(f.ctx, t, "n", "n", old, fmt.Appendf(nil, "%d %d", n+1, w))
				if err != nil {
					f.Error(err)
					return
				}
				if ok {
					i++
				}
			}
		})
	}
	wg.Wait()
	row, err := t.Get(f.ctx, []byte("n"), table.Select{})
	if err != nil || len(row.Cells) != 1 || !strings.HasPrefix(string(row.Cells[0].Value), fmt.Sprint(writers*each, " ")) {
		f.Errorf("after %d increments the row is %s, %v", writers*each, showCells(row.Cells), err)
	}
}

// testConcurrent writes rows whose cells must always agree, while readers check that these
// cells agree.
func testConcurrent(f *fixture) {
	const rows, revisions = 4, 30
	var wg sync.WaitGroup
	done := make(chan struct{})
	for range 3 {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-done:
					return
				default:
				}
				row, err := f.tab.Get(f.ctx, fmt.Appendf(nil, "row%d", i%rows), table.Select{})
				if err != nil {
					f.Error(err)
					return
				}
				whole(f.T, row)
				for row, err := range f.tab.Scan(f.ctx, table.Range{}, table.Select{Families: []table.Family{'a'}}) {
					if err != nil {
						f.Error(err)
						return
					}
					whole(f.T, row)
				}
			}
		})
	}
	var writers sync.WaitGroup
	for w := range rows {
		writers.Go(func() {
			for r := range revisions {
				m := mutation(fmt.Sprintf("row%d", w), fmt.Sprintf("a:x=%d a:y=%d b:z=%d", r, r, r))
				if err := f.tab.Apply(f.ctx, table.Revision(r*rows+w+1), []table.Mutation{m}); err != nil {
					f.Error(err)
				}
			}
		})
	}
	writers.Wait()
	close(done)
	wg.Wait()
	for w := range rows {
		r := (revisions-1)*rows + w + 1
		f.wantRow(fmt.Sprintf("row%d", w), table.Select{}, fmt.Sprintf("a:x=%[1]d@%[2]d a:y=%[1]d@%[2]d b:z=%[1]d@%[2]d", revisions-1, r))
	}
}

// whole checks that all cells in family a of a row have the same revision and value.
func whole(t *testing.T, r table.Row) {
	for _, c := range r.Family('a') {
		if c.Revision != r.Family('a')[0].Revision || !bytes.Equal(c.Value, r.Cells[0].Value) {
			t.Errorf("torn row %q: %s", r.Key, showCells(r.Cells))
			return
		}
	}
}

func testLarge(f *fixture) {
	big := bytes.Repeat([]byte("0123456789abcdef"), table.MaxValue/16)
	m := table.Mutation{Row: []byte("big"), Cells: []table.Cell{
		{Family: 'a', Qualifier: []byte("q"), Value: big}, {Family: 'a', Qualifier: []byte("r"), Value: []byte("small")},
	}}
	f.apply(1, m)
	row := f.get("big", table.Select{})
	if len(row.Cells) != 2 || !bytes.Equal(row.Cells[0].Value, big) {
		f.Errorf("a value of %d bytes did not come back", len(big))
	}
	m.Cells[0].Value = append(big, 'x')
	if err := f.tab.Apply(f.ctx, 2, []table.Mutation{m}); !errors.Is(err, table.ErrTooLarge) {
		f.Errorf("Apply of %d bytes: %v, want ErrTooLarge", len(big)+1, err)
	}
	m.Cells[0].Family = 'h'
	if _, err := f.unversioned().Swap(f.ctx, []byte("r"), 'h', []byte("q"), nil, m.Cells[:1]); !errors.Is(err, table.ErrTooLarge) {
		f.Errorf("Swap of %d bytes: %v, want ErrTooLarge", len(big)+1, err)
	}
	f.wantRow("big", table.Select{Families: []table.Family{'a'}, Columns: []table.ColumnRange{table.Column('a', []byte("r"))}}, "a:r=small@1")
}

func testContext(f *fixture) {
	f.put(1, "1", "a:x=1")
	f.put(1, "2", "a:x=1")
	ended := errors.New("why the context ended")
	ctx, end := context.WithCancelCause(f.ctx)
	cancel := func() { end(ended) }
	defer cancel()
	n := 0
	var last error
	for _, err := range f.tab.Scan(ctx, table.Range{}, table.Select{}) {
		if last = err; err == nil {
			n++
			cancel()
		}
	}
	if n == 0 || n == 1 && !errors.Is(last, ended) {
		f.Errorf("a scan canceled at its first row gave %d rows and ended with %v", n, last)
	}
	un := f.unversioned()
	for name, call := range map[string]func() error{
		"Get":     func() error { _, err := f.tab.Get(ctx, []byte("1"), table.Select{}); return err },
		"GetMany": func() error { _, err := f.tab.GetMany(ctx, [][]byte{[]byte("1")}, table.Select{}); return err },
		"Scan":    func() error { _, err := collect(ctx, f.tab, table.Range{}, table.Select{}); return err },
		"Apply":   func() error { return f.tab.Apply(ctx, 2, []table.Mutation{mutation("1", "a:x=2")}) },
		"Erase":   func() error { return f.tab.Erase(ctx, 1, [][]byte{[]byte("1")}) },
		"Swap": func() error {
			_, err := un.Swap(ctx, []byte("r"), 'h', []byte("q"), nil, cells("h:q=1"))
			return err
		},
	} {
		if err := call(); !errors.Is(err, ended) {
			f.Errorf("%s with a context that has ended: %v, want the cause", name, err)
		}
	}
	f.wantRow("1", table.Select{}, "a:x=1@1")
}

func testErrors(f *fixture) {
	none := f.s.Table("conf_no_such_table")
	if _, err := none.Get(f.ctx, []byte("r"), table.Select{}); err == nil {
		f.Error("Get from a table that does not exist: no error")
	}
	if _, err := collect(f.ctx, none, table.Range{}, table.Select{}); err == nil {
		f.Error("Scan of a table that does not exist: no error")
	}
	if err := none.Apply(f.ctx, 1, []table.Mutation{mutation("r", "a:x=1")}); err == nil {
		f.Error("Apply to a table that does not exist: no error")
	}
	if err := f.tab.Apply(f.ctx, 1, []table.Mutation{mutation("r", "z:x=1")}); err == nil {
		f.Error("Apply to a family that does not exist: no error")
	}
	f.wantRow("r", table.Select{}, "")
	if f.s.String() == "" {
		f.Error("the store has no name")
	}
}

// testOwnership checks that callers may reuse the bytes that they passed, and may keep
// the bytes that were returned.
func testOwnership(f *fixture) {
	row, q, v := []byte("row"), []byte("qualifier"), []byte("value")
	f.apply(1, table.Mutation{Row: row, Cells: []table.Cell{
		{Family: 'a', Qualifier: q, Value: v}, {Family: 'c', Qualifier: q, Value: bytes.Repeat(v, 30)},
	}})
	for _, b := range [][]byte{row, q, v} {
		clear(b)
	}
	got := f.get("row", table.Select{})
	narrow := f.get("row", table.Select{Columns: []table.ColumnRange{table.ColumnPrefix('a', []byte("q"))}})
	before := showCells(got.Cells)
	for i := range 20 {
		f.put(table.Revision(2+i), "row", fmt.Sprintf("a:qualifier=other%d c:qualifier=other", i))
		f.get("row", table.Select{})
	}
	if showCells(got.Cells) != before || !strings.HasPrefix(before, "a:qualifier=value@1 c:qualifier=valuevalue") || showCells(narrow.Cells) != before {
		f.Errorf("what Get gave has changed to %s", showCells(got.Cells))
	}
}

func testClose(t *testing.T, open func(t *testing.T) table.Store) {
	s := open(t)
	f := newFixture(t, s)
	f.put(1, "1", "a:x=1")
	f.put(1, "2", "a:x=1")
	if err := s.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	if _, err := f.tab.Get(f.ctx, []byte("1"), table.Select{}); !errors.Is(err, table.ErrClosed) {
		t.Errorf("Get after Close: %v", err)
	}
	if _, err := collect(f.ctx, f.tab, table.Range{}, table.Select{}); !errors.Is(err, table.ErrClosed) {
		t.Errorf("Scan after Close: %v", err)
	}
	if err := f.tab.Apply(f.ctx, 2, []table.Mutation{mutation("1", "a:x=2")}); !errors.Is(err, table.ErrClosed) {
		t.Errorf("Apply after Close: %v", err)
	}
	if _, err := s.Names(f.ctx); !errors.Is(err, table.ErrClosed) {
		t.Errorf("Names after Close: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
}
