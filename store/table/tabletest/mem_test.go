package tabletest_test

import (
	"context"
	"testing"

	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest"
)

// upTo is a view of everything up to a revision.
type upTo table.Revision

func (u upTo) Max() table.Revision           { return table.Revision(u) }
func (u upTo) Low() table.Revision           { return table.Revision(u) }
func (u upTo) Visible(r table.Revision) bool { return r <= table.Revision(u) }

var memSpecs = []table.Spec{
	{Name: "data", Families: []table.FamilySpec{{Name: 'a'}, {Name: 'b'}}},
	{Name: "journal", Families: []table.FamilySpec{{Name: 'j'}}, Unversioned: true},
}

func put(row string, qv ...string) table.Mutation {
	m := table.Mutation{Row: []byte(row)}
	for i := 0; i < len(qv); i += 2 {
		m.Cells = append(m.Cells, table.Cell{Family: 'a', Qualifier: []byte(qv[i]), Value: []byte(qv[i+1])})
	}
	return m
}

func show(rows ...table.Row) string {
	s := ""
	for _, r := range rows {
		s += string(r.Key) + "{"
		for _, c := range r.Cells {
			s += string(c.Qualifier) + "=" + string(c.Value) + " "
		}
		s += "}"
	}
	return s
}

func scan(t *testing.T, h table.Table, r table.Range, s table.Select) string {
	t.Helper()
	out := ""
	for row, err := range h.Scan(context.Background(), r, s) {
		if err != nil {
			t.Fatal(err)
		}
		out += show(row)
	}
	return out
}

func TestMemVersions(t *testing.T) {
	ctx := context.Background()
	m := tabletest.NewMem()
	if err := m.Create(ctx, memSpecs...); err != nil {
		t.Fatal(err)
	}
	h := m.Table("data")
	steps := []struct {
		r table.Revision
		m []table.Mutation
	}{
		{1, []table.Mutation{put("x", "p", "1", "q", "1"), put("y", "p", "1")}},
		{2, []table.Mutation{{Row: []byte("x"), Cells: []table.Cell{{Family: 'a', Qualifier: []byte("p"), Tombstone: true}}}}},
		{3, []table.Mutation{{Row: []byte("x"), DeleteRow: true, Cells: put("", "z", "3").Cells}}},
		{4, []table.Mutation{{Row: []byte("y"), DeleteRow: true}}},
	}
	for range 2 { // Apply is idempotent
		for _, s := range steps {
			if err := h.Apply(ctx, s.r, s.m); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, c := range []struct {
		at   table.Revision
		want string
	}{
		{0, ""}, {1, "x{p=1 q=1 }y{p=1 }"}, {2, "x{q=1 }y{p=1 }"}, {3, "x{z=3 }y{p=1 }"}, {4, "x{z=3 }"},
	} {
		if got := scan(t, h, table.Range{}, table.Select{View: upTo(c.at)}); got != c.want {
			t.Errorf("at %d: %s, want %s", c.at, got, c.want)
		}
	}
	if got := scan(t, h, table.Range{}, table.Select{View: upTo(2), Reverse: true}); got != "y{p=1 }x{q=1 }" {
		t.Errorf("reverse: %s", got)
	}
	if err := h.Erase(ctx, 3, [][]byte{[]byte("x")}); err != nil {
		t.Fatal(err)
	}
	if got := scan(t, h, table.Range{}, table.Select{}); got != "x{q=1 }" {
		t.Errorf("after erasing 3: %s", got)
	}
}

func TestMemSwap(t *testing.T) {
	ctx := context.Background()
	m := tabletest.NewMem()
	if err := m.Create(ctx, memSpecs...); err != nil {
		t.Fatal(err)
	}
	h := m.Table("journal")
	swap := func(old, new string, want bool) {
		t.Helper()
		var o []byte
		if old != "" {
			o = []byte(old)
		}
		c := table.Cell{Family: 'j', Qualifier: []byte("s"), Value: []byte(new), Tombstone: new == ""}
		if ok, err := h.Swap(ctx, []byte("r"), 'j', []byte("s"), o, []table.Cell{c}); err != nil || ok != want {
			t.Fatalf("%q -> %q: %v %v", old, new, ok, err)
		}
	}
	swap("a", "b", false)
	swap("", "a", true)
	swap("", "b", false)
	swap("a", "b", true)
	swap("b", "", true)
	swap("", "c", true)
}

func TestBatchMemCrash(t *testing.T) {
	ctx := context.Background()
	m := tabletest.NewBatchMem()
	if err := m.Create(ctx, memSpecs...); err != nil {
		t.Fatal(err)
	}
	commit := func(r table.Revision, v string) func() error {
		wait, err := m.Commit(ctx, table.Batch{Revision: r, Writes: []table.Write{
			{Table: "data", Mutations: []table.Mutation{put("x", "p", v)}},
			{Table: "journal", Mutations: []table.Mutation{{Row: []byte("r"), Cells: []table.Cell{{Family: 'j', Value: []byte(v)}}}}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		return wait
	}
	commit(1, "1")
	if err := commit(2, "2")(); err != nil {
		t.Fatal(err)
	}
	commit(3, "3")
	lost := commit(4, "4")
	m.Crash(1)
	for _, n := range []string{"data", "journal"} {
		if got := scan(t, m.Table(n), table.Range{}, table.Select{}); got != "x{p=3 }" && got != "r{=3 }" {
			t.Errorf("%s after the crash: %s", n, got)
		}
	}
	if lost() == nil {
		t.Error("a lost commit was called durable")
	}
}
