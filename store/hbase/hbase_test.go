package hbase_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-4dac0d86/ldapd/store/hbase"
	"github.com/seed-4dac0d86/ldapd/store/hbase/hbasetest"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest/conformance"
)

// open returns a store without tables on the HBase of the tests.
func open(tb testing.TB) *hbase.Store {
	tb.Helper()
	url := hbase.Scheme + hbasetest.Start(tb) + "/" + hbasetest.Prefix(tb)
	s, err := hbase.Open(tb.Context(), url, hbase.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		names, err := s.Names(ctx)
		if err != nil {
			tb.Error(err)
		}
		if err := s.Drop(ctx, names...); err != nil {
			tb.Error(err)
		}
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	return s
}

// TestMain limits each test that uses rapid to 15 runs, because each run makes hundreds of
// calls of HBase. The flag -rapid.checks changes the limit.
func TestMain(m *testing.M) {
	if err := flag.Set("rapid.checks", "15"); err != nil {
		panic(err)
	}
	flag.Parse()
	os.Exit(m.Run())
}

func TestConformance(t *testing.T) {
	if testing.Short() {
		t.Skip("needs an HBase")
	}
	url := hbase.Scheme + hbasetest.Start(t) + "/" + hbasetest.Prefix(t)
	if os.Getenv(hbasetest.QuorumEnv) == "" { // other tests find HBase by ZooKeeper
		url = hbase.RPCScheme + hbasetest.Shared(t).Servers() + "/" + hbasetest.Prefix(t)
	}
	conformance.Run(t, func(t *testing.T) table.Store {
		s, err := hbase.Open(t.Context(), url, hbase.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}

var data = table.Spec{Name: "data", Families: []table.FamilySpec{{Name: 'a'}, {Name: 'b'}}}
var heads = table.Spec{Name: "heads", Families: []table.FamilySpec{{Name: 'h'}}, Unversioned: true}

// create creates tables and returns the first one.
func create(tb testing.TB, s *hbase.Store, specs ...table.Spec) table.Table {
	tb.Helper()
	if err := s.Create(tb.Context(), specs...); err != nil {
		tb.Fatal(err)
	}
	return s.Table(specs[0].Name)
}

func cell(f table.Family, q, v string) table.Cell {
	return table.Cell{Family: f, Qualifier: []byte(q), Value: []byte(v)}
}

func gone(f table.Family, q string) table.Cell {
	return table.Cell{Family: f, Qualifier: []byte(q), Tombstone: true}
}

func put(row string, cells ...table.Cell) table.Mutation {
	return table.Mutation{Row: []byte(row), Cells: cells}
}

// view is a table.View that shows every revision up to max except the revisions in
// hidden.
type view struct {
	low, max table.Revision
	hidden   map[table.Revision]bool
}

func (v view) Max() table.Revision           { return v.max }
func (v view) Low() table.Revision           { return v.low }
func (v view) Visible(r table.Revision) bool { return r <= v.max && !v.hidden[r] }
func upTo(r table.Revision) view             { return view{low: r, max: r} }
func text(r table.Row) string {
	s := string(r.Key) + ":"
	for _, c := range r.Cells {
		s += fmt.Sprintf(" %c.%q=%q@%d", c.Family, c.Qualifier, c.Value, c.Revision)
	}
	return s
}

func apply(tb testing.TB, t table.Table, r table.Revision, ms ...table.Mutation) {
	tb.Helper()
	if err := t.Apply(tb.Context(), r, ms); err != nil {
		tb.Fatal(err)
	}
}

func scanText(tb testing.TB, t table.Table, r table.Range, s table.Select) []string {
	tb.Helper()
	var rows []string
	for row, err := range t.Scan(tb.Context(), r, s) {
		if err != nil {
			tb.Fatal(err)
		}
		rows = append(rows, text(row))
	}
	return rows
}

func TestReadAndWrite(t *testing.T) {
	s := open(t)
	d := create(t, s, data)
	apply(t, d, 10, put("r1", cell('a', "x", "1"), cell('a', "", "empty"), cell('b', "\x00z", "zero")), put("r2", cell('b', "y", "2")))
	apply(t, d, 20, put("r1", cell('a', "x", "1b")), table.Mutation{Row: []byte("r2"), DeleteRow: true, Cells: []table.Cell{cell('a', "n", "new")}})
	apply(t, d, 30, put("r1", gone('a', "x")))
	for _, c := range []struct {
		s    table.Select
		want []string
	}{
		{table.Select{}, []string{`r1: a.""="empty"@10 b."\x00z"="zero"@10`, `r2: a."n"="new"@20`}},
		{table.Select{View: upTo(20)}, []string{`r1: a.""="empty"@10 a."x"="1b"@20 b."\x00z"="zero"@10`, `r2: a."n"="new"@20`}},
		{table.Select{View: upTo(10)}, []string{`r1: a.""="empty"@10 a."x"="1"@10 b."\x00z"="zero"@10`, `r2: b."y"="2"@10`}},
		{table.Select{View: upTo(9)}, nil},
		{table.Select{View: view{max: 40, hidden: map[table.Revision]bool{20: true, 30: true}}},
			[]string{`r1: a.""="empty"@10 a."x"="1"@10 b."\x00z"="zero"@10`, `r2: b."y"="2"@10`}},
		{table.Select{Families: []table.Family{'b'}}, []string{`r1: b."\x00z"="zero"@10`}},
		{table.Select{Reverse: true, MaxRows: 1}, []string{`r2: a."n"="new"@20`}},
		{table.Select{View: upTo(25), Columns: []table.ColumnRange{table.Column('a', []byte("x")), table.Column('b', nil)}}, []string{`r1: a."x"="1b"@20`}},
		{table.Select{View: upTo(25), Families: []table.Family{'a'}, Columns: []table.ColumnRange{{Family: 'a', To: []byte("x")}}}, []string{`r1: a.""="empty"@10`, `r2: a."n"="new"@20`}},
	} {
		if diff := cmp.Diff(c.want, scanText(t, d, table.Range{}, c.s)); diff != "" {
			t.Errorf("%+v: %s", c.s, diff)
		}
	}
	row, err := d.Get(t.Context(), []byte("r1"), table.Select{View: upTo(20)})
	if err != nil || text(row) != `r1: a.""="empty"@10 a."x"="1b"@20 b."\x00z"="zero"@10` {
		t.Error(text(row), err)
	}
}

func TestSwap(t *testing.T) {
	s := open(t)
	h := create(t, s, heads)
	swap := func(old, new string) bool {
		t.Helper()
		c := gone('h', "q")
		if new != "" {
			c = cell('h', "q", new)
		}
		var was []byte
		if old != "" {
			was = []byte(old)
		}
		ok, err := h.Swap(t.Context(), []byte("r"), 'h', []byte("q"), was, []table.Cell{c})
		if err != nil {
			t.Fatal(err)
		}
		return ok
	}
	for i := range 50 { // several rounds take place in the same millisecond
		for _, c := range []struct {
			old, new string
			want     bool
		}{{"", "a", true}, {"", "b", false}, {"b", "c", false}, {"a", "c", true}, {"c", "", true}, {"c", "d", false}} {
			if got := swap(c.old, c.new); got != c.want {
				t.Fatalf("round %d: swap %q to %q: %v", i, c.old, c.new, got)
			}
		}
	}
	if row, err := h.Get(t.Context(), []byte("r"), table.Select{}); err != nil || len(row.Cells) != 0 {
		t.Error(text(row), err)
	}
}
