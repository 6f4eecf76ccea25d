package lsm

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

func testTable(t testing.TB) *tableInfo {
	t.Helper()
	info, err := newTableInfo(7, table.Spec{Name: "t", Families: []table.FamilySpec{
		{Name: 'a'}, {Name: 'b', With: 'a'}, {Name: 'c', ImageLimit: 64}}})
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// TestKeyOrder checks the order of keys with random rows and qualifiers. Keys must sort by row.
// In a row the image must come before the columns, and the columns must be in order. In an
// image or column the revisions must go from newest to oldest. It also checks that keys can be
// parsed.
func TestKeyOrder(t *testing.T) {
	type key struct {
		row, q string
		image  bool
		rev    table.Revision
	}
	encode := func(k key) []byte {
		b := appendImage(nil, 7, 'a', []byte(k.row))
		if !k.image {
			b = appendColumn(nil, b, 'a', []byte(k.q))
		}
		return appendSuffix(b, k.rev)
	}
	order := func(a, b key) int {
		if d := strings.Compare(a.row, b.row); d != 0 {
			return d
		}
		if a.image != b.image {
			if a.image {
				return -1
			}
			return 1
		}
		if d := strings.Compare(a.q, b.q); d != 0 && !a.image {
			return d
		}
		return -cmp64(uint64(a.rev), uint64(b.rev))
	}
	text := rapid.StringOfN(rapid.SampledFrom([]rune{0, 1, 2, 3, 9, 'a', 0x7f}), 0, 4, -1)
	draw := rapid.Custom(func(t *rapid.T) key {
		return key{text.Draw(t, "row"), text.Draw(t, "q"), rapid.Bool().Draw(t, "image"),
			table.Revision(rapid.Uint64Range(1, maxRevision).Draw(t, "rev"))}
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := draw.Draw(t, "a"), draw.Draw(t, "b")
		x, y := encode(a), encode(b)
		if got, want := comparer.Compare(x, y), order(a, b); got != want {
			t.Fatalf("%x against %x: %d, want %d", x, y, got, want)
		}
		if want := order(a, b); want < 0 {
			s := comparer.Separator(nil, x, y)
			if comparer.Compare(x, s) > 0 || comparer.Compare(s, y) >= 0 {
				t.Fatalf("the separator of %x and %x is %x", x, y, s)
			}
		}
		p := comparer.Split.Prefix(x)
		next := comparer.ImmediateSuccessor(nil, p)
		if split(next) != len(next) || comparer.Compare(x, next) >= 0 ||
			!bytes.Equal(p, comparer.Split.Prefix(y)) && comparer.Compare(p, y) < 0 && comparer.Compare(next, y) > 0 {
			t.Fatalf("the successor of %x is %x, with %x there", p, next, y)
		}
		row, _, _, ok := cutEscaped(nil, x[headLen:])
		if !ok || string(row) != a.row || revisionOf(x) != a.rev {
			t.Fatalf("%x parses to row %q, revision %d", x, row, revisionOf(x))
		}
	})
}

func cmp64(a, b uint64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func drawCells(t *rapid.T, own table.Revision) []table.Cell {
	var cs []table.Cell
	for range rapid.IntRange(0, 20).Draw(t, "cells") {
		c := table.Cell{
			Family:    rapid.SampledFrom([]table.Family{'a', 'b'}).Draw(t, "family"),
			Qualifier: rapid.SliceOfN(rapid.Byte(), 0, 3).Draw(t, "qualifier"),
			Value:     bytes.Repeat([]byte("v"), rapid.SampledFrom([]int{0, 1, 127, 128, 300}).Draw(t, "value")),
			Revision:  table.Revision(rapid.IntRange(1, int(own)).Draw(t, "revision")),
		}
		if c.Tombstone = rapid.IntRange(0, 4).Draw(t, "dead") == 0; c.Tombstone {
			c.Value, c.Revision = nil, own
		}
		cs = append(cs, c)
	}
	return slices.Clone(table.LastOfEach(cs))
}

// TestImage checks that an encoded image decodes to the same cells, both completely and
// with a selection.
func TestImage(t *testing.T) {
	info := testTable(t)
	var e encoder
	rapid.Check(t, func(t *rapid.T) {
		cells := drawCells(t, 9)
		m, err := parseImage(9, bytes.Clone(e.image(9, true, cells)))
		if err != nil || !m.del || m.columns {
			t.Fatal(m, err)
		}
		got, err := m.clone().appendAll(nil)
		if d := cmp.Diff(cells, got, cmpopts.EquateEmpty()); d != "" || err != nil {
			t.Fatalf("%v (-want +got):\n%s", err, d)
		}
		from := []byte{rapid.Byte().Draw(t, "from")}
		s := table.Select{Families: []table.Family{'a'}, Columns: []table.ColumnRange{{Family: 'a', From: from}}}
		var sel selection
		if err := sel.set(info, &s); err != nil {
			t.Fatal(err)
		}
		max := rapid.IntRange(0, 3).Draw(t, "max")
		got, err = m.appendSelected(nil, &sel[0], max)
		want := slices.DeleteFunc(cells, func(c table.Cell) bool {
			return c.Family != 'a' || c.Tombstone || bytes.Compare(c.Qualifier, from) < 0
		})
		if max > 0 && len(want) > max {
			want = want[:max]
		}
		if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" || err != nil {
			t.Fatalf("%v (-want +got):\n%s", err, d)
		}
	})
}

// FuzzImage checks that no bytes make a decoder panic. Cells that can be decoded must
// remain the same when they are encoded and decoded again.
func FuzzImage(f *testing.F) {
	var e encoder
	f.Add(bytes.Clone(e.image(5, false, []table.Cell{{Family: 'a', Qualifier: []byte("q"), Value: []byte("v"), Revision: 5}})))
	f.Add(bytes.Clone(e.image(5, true, []table.Cell{{Family: 'a', Qualifier: []byte("q"), Value: bytes.Repeat([]byte("v"), 200), Revision: 3}})))
	f.Add(appendMarker(nil, true, 4))
	f.Add([]byte{0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f})
	f.Add([]byte{0, 0, 'a', 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01})
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := parseImage(5, b)
		if err != nil || m.columns {
			return
		}
		cells, err := m.appendAll(nil)
		if err != nil {
			return
		}
		again, err := parseImage(5, e.image(5, m.del, cells))
		if err != nil {
			t.Fatal(err)
		}
		got, err := again.appendAll(nil)
		if d := cmp.Diff(cells, got, cmpopts.EquateEmpty()); d != "" || err != nil {
			t.Fatalf("%v (-want +got):\n%s", err, d)
		}
	})
}

func TestMergeRanges(t *testing.T) {
	parse := func(s string) (rs []table.ColumnRange) {
		for _, x := range strings.Fields(s) {
			from, to, _ := strings.Cut(x, "-")
			rs = append(rs, table.ColumnRange{From: []byte(from), To: []byte(to)})
		}
		return rs
	}
	for _, x := range [][2]string{
		{"", ""}, {"b-c", "b-c"}, {"c-d a-b", "a-b c-d"}, {"a-c b-d", "a-d"}, {"a-b b-c", "a-c"},
		{"a-d b-c", "a-d"}, {"b- a-c", "a-"}, {"a- b-c", "a-"}, {"a-b c- d-e", "a-b c-"},
	} {
		if d := cmp.Diff(parse(x[1]), mergeRanges(parse(x[0]))); d != "" {
			t.Errorf("%s (-want +got):\n%s", x[0], d)
		}
	}
}

// counted returns the numbers of keys and seeks that f adds to the metrics.
func counted(s *Store, f func()) Metrics {
	a := s.Metrics()
	f()
	b := s.Metrics()
	return Metrics{KeysRead: b.KeysRead - a.KeysRead, Seeks: b.Seeks - a.Seeks, KeysWritten: b.KeysWritten - a.KeysWritten}
}

// TestOldVersionsCostNothing checks that a read of a row with ten thousand versions
// examines one key, in the present state and in past states.
func TestOldVersionsCostNothing(t *testing.T) {
	s := openTest(t, Options{Path: "store", FS: vfs.NewMem(), NoSync: true, MemTable: 256 << 10})
	ctx := context.Background()
	if err := s.Create(ctx, crashSpecs...); err != nil {
		t.Fatal(err)
	}
	const n = 10_000
	for r := table.Revision(1); r <= n; r++ {
		if err := commitRow(s, r, "row"); err != nil {
			t.Fatal(err)
		}
	}
	for _, v := range []table.View{nil, upTo(n), upTo(n / 2), upTo(1)} {
		m := counted(s, func() {
			if row, err := s.Table("data").Get(ctx, []byte("row"), table.Select{View: v, Families: []table.Family{'a'}}); err != nil || len(row.Cells) != 1 {
				t.Fatal(row, err)
			}
		})
		if m.KeysRead != 1 || m.Seeks != 1 {
			t.Errorf("at %v: %d keys and %d seeks", v, m.KeysRead, m.Seeks)
		}
	}
	m := counted(s, func() {
		for _, err := range s.Table("data").Scan(ctx, table.Range{}, table.Select{View: upTo(n / 2), Families: []table.Family{'a'}}) {
			if err != nil {
				t.Fatal(err)
			}
		}
	})
	if m.KeysRead != 1 || m.Seeks > 3 {
		t.Errorf("a scan touched %d keys with %d seeks", m.KeysRead, m.Seeks)
	}
}

type upTo table.Revision

func (u upTo) Max() table.Revision           { return table.Revision(u) }
func (u upTo) Low() table.Revision           { return table.Revision(u) }
func (u upTo) Visible(r table.Revision) bool { return r <= table.Revision(u) }

// TestWideRowCostsNothing checks that adding, testing and removing one member of a large
// group reads and writes a constant number of keys.
func TestWideRowCostsNothing(t *testing.T) {
	s := openTest(t, Options{Path: "store", FS: vfs.NewMem(), NoSync: true})
	ctx := context.Background()
	if err := s.Create(ctx, crashSpecs...); err != nil {
		t.Fatal(err)
	}
	member := func(i int) table.Cell {
		return table.Cell{Family: 'c', Qualifier: fmt.Appendf(nil, "member%07d", i), Value: []byte("position")}
	}
	b, err := s.Bulk(ctx, 1, table.BulkOptions{})
	if err != nil {
		t.Fatal(err)
	}
	const n = 50_000
	for i := range n {
		if err := b.Add("data", table.Mutation{Row: []byte("group"), Cells: []table.Cell{member(i)}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Finish(ctx, nil); err != nil {
		t.Fatal(err)
	}
	write := func(r table.Revision, c table.Cell) {
		t.Helper()
		m := counted(s, func() {
			if err := s.Table("data").Apply(ctx, r, []table.Mutation{{Row: []byte("group"), Cells: []table.Cell{c}}}); err != nil {
				t.Fatal(err)
			}
		})
		if m.KeysWritten != 1 || m.Seeks != 1 {
			t.Errorf("one member took %d keys and %d seeks", m.KeysWritten, m.Seeks)
		}
	}
	has := func(c table.Cell, want int) {
		t.Helper()
		m := counted(s, func() {
			row, err := s.Table("data").Get(ctx, []byte("group"), table.Select{View: upTo(9), Families: []table.Family{'c'},
				Columns: []table.ColumnRange{table.Column('c', c.Qualifier)}})
			if err != nil || len(row.Cells) != want {
				t.Fatal(row, err)
			}
		})
		if m.KeysRead > 2 || m.Seeks > 2 {
			t.Errorf("testing a member took %d keys and %d seeks", m.KeysRead, m.Seeks)
		}
	}
	write(2, member(n))
	has(member(n), 1)
	gone := member(77)
	gone.Tombstone = true
	write(3, gone)
	has(gone, 0)
	has(member(n+1), 0)
	m := counted(s, func() {
		row, err := s.Table("data").Get(ctx, []byte("group"), table.Select{MaxCells: 10, Families: []table.Family{'c'},
			Columns: []table.ColumnRange{{Family: 'c', From: member(n / 2).Qualifier}}})
		if err != nil || len(row.Cells) != 10 {
			t.Fatal(len(row.Cells), err)
		}
	})
	if m.KeysRead > 11 {
		t.Errorf("a page of 10 members took %d keys", m.KeysRead)
	}
}

// TestPooledIterators checks that a second read of a state reuses an iterator, and that reads
// return the right cells after a late revision.
func TestPooledIterators(t *testing.T) {
	s := openTest(t, Options{Path: "store", FS: vfs.NewMem(), NoSync: true})
	ctx := context.Background()
	if err := s.Create(ctx, crashSpecs...); err != nil {
		t.Fatal(err)
	}
	get := func(v table.View) int {
		row, err := s.Table("data").Get(ctx, []byte("row"), table.Select{View: v, Families: []table.Family{'a'}})
		if err != nil {
			t.Fatal(err)
		}
		return int(row.Newest())
	}
	for r := table.Revision(2); r < 100; r += 2 {
		if err := commitRow(s, r, "row"); err != nil {
			t.Fatal(err)
		}
		get(upTo(r))
		before := s.Metrics().Iterators
		if got := get(upTo(r)); got != int(r) || s.Metrics().Iterators != before {
			t.Fatalf("a read at %d saw %d and opened %d iterators", r, got, s.Metrics().Iterators-before)
		}
	}
	if err := commitRow(s, 51, "row"); err != nil { // a late revision
		t.Fatal(err)
	}
	for v, want := range map[table.Revision]int{51: 51, 50: 50, 52: 52, 98: 98} {
		if got := get(upTo(v)); got != want {
			t.Errorf("after a late revision a read at %d saw %d", v, got)
		}
	}
}
