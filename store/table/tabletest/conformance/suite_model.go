package conformance

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"pgregory.net/rapid"

	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest"
)

// A model is the simplest implementation of the contract. It contains all mutations that
// were applied, and finds the cells that a view shows by examining each mutation.
type model struct {
	events []event
}

type event struct {
	rev table.Revision
	m   table.Mutation
}

func (m *model) row(key string, v table.View) []table.Cell {
	newest := map[string]table.Cell{}
	var deleted table.Revision
	for _, e := range m.events {
		if string(e.m.Row) != key || !v.Visible(e.rev) {
			continue
		}
		if e.m.DeleteRow {
			deleted = max(deleted, e.rev)
		}
		for _, c := range e.m.Cells {
			k := string(c.Family) + string(c.Qualifier)
			if c.Revision = e.rev; c.Revision >= newest[k].Revision {
				newest[k] = c
			}
		}
	}
	cs := slices.SortedFunc(maps.Values(newest), table.Cell.Compare)
	return slices.DeleteFunc(cs, func(c table.Cell) bool { return c.Tombstone || c.Revision < deleted })
}

func (m *model) erase(r table.Revision) (rows [][]byte) {
	m.events = slices.DeleteFunc(m.events, func(e event) bool {
		if e.rev == r {
			rows = append(rows, e.m.Row)
		}
		return e.rev == r
	})
	return rows
}

// modelRuns numbers the runs of a property. Each run uses rows of its own in the same
// table, because creating a table is slow on some engines.
var modelRuns atomic.Int64

// testModel applies random mutations in any order of revisions, erases some of them, and
// compares all reads with the model.
func testModel(f *fixture) {
	rapid.Check(f.T, func(t *rapid.T) {
		p := fmt.Sprintf("run%06d-", modelRuns.Add(1))
		m := &model{}
		free := []table.Revision{}
		for r := table.Revision(1); r <= 24; r++ {
			free = append(free, r)
		}
		var used []table.Revision
		for range rapid.IntRange(1, 14).Draw(t, "steps") {
			switch k := rapid.IntRange(0, 9).Draw(t, "kind"); {
			case k < 7 && len(free) > 0:
				i := 0
				if k == 0 {
					i = rapid.IntRange(0, len(free)-1).Draw(t, "late")
				}
				r := free[i]
				free = slices.Delete(free, i, i+1)
				used = append(used, r)
				ms := drawMutations(t, p)
				for range rapid.IntRange(1, 2).Draw(t, "times") {
					if err := f.tab.Apply(f.ctx, r, ms); err != nil {
						t.Fatal(err)
					}
				}
				for _, x := range ms {
					m.events = append(m.events, event{r, x})
				}
			case k == 7 && len(used) > 0:
				r := rapid.SampledFrom(used).Draw(t, "erased")
				if err := f.tab.Erase(f.ctx, r, m.erase(r)); err != nil {
					t.Fatal(err)
				}
				used = slices.DeleteFunc(used, func(x table.Revision) bool { return x == r })
			}
			f.compare(t, m, p, drawView(t, used))
		}
	})
}

func drawMutations(t *rapid.T, p string) []table.Mutation {
	var ms []table.Mutation
	for _, row := range rapid.SliceOfNDistinct(rapid.SampledFrom(modelRows), 1, 3, rapid.ID).Draw(t, "rows") {
		m := table.Mutation{Row: []byte(p + row), DeleteRow: rapid.IntRange(0, 5).Draw(t, "delete") == 0}
		seen := map[string]bool{}
		for range rapid.IntRange(0, 5).Draw(t, "cells") {
			c := table.Cell{
				Family:    rapid.SampledFrom([]table.Family{'a', 'b', 'c'}).Draw(t, "family"),
				Qualifier: []byte(rapid.SampledFrom(modelColumns).Draw(t, "column")),
				Tombstone: rapid.IntRange(0, 3).Draw(t, "tombstone") == 0,
			}
			if k := string(c.Family) + string(c.Qualifier); seen[k] {
				continue
			} else {
				seen[k] = true
			}
			if !c.Tombstone {
				c.Value = bytes.Repeat([]byte("v"), rapid.SampledFrom([]int{0, 1, 20, 70}).Draw(t, "size"))
			}
			m.Cells = append(m.Cells, c)
		}
		if len(m.Cells) > 0 || m.DeleteRow {
			ms = append(ms, m)
		}
	}
	return ms
}

var (
	modelRows    = []string{"a", "a\x00", "a\x00\x01", "a\xff", "b"}
	modelColumns = []string{"p", "p\x00", "p\x00q", "q", "r\xff", "s"}
)

// drawView returns a view that hides some revisions and whose low-water mark is below
// them.
func drawView(t *rapid.T, used []table.Revision) view {
	v := view{max: table.Revision(rapid.IntRange(0, 25).Draw(t, "max"))}
	low := v.max
	for _, r := range used {
		if r <= v.max && rapid.IntRange(0, 4).Draw(t, "hide") == 0 {
			v.hidden = append(v.hidden, r)
			low = min(low, r-1)
		}
	}
	v.low = table.Revision(rapid.IntRange(0, int(low)).Draw(t, "low"))
	if rapid.Bool().Draw(t, "tight") {
		v.low = low
	}
	return v
}

// compare reads all rows of a run in several ways and compares the results with the
// model.
func (f *fixture) compare(t *rapid.T, m *model, p string, v table.View) {
	f.compareFamilies(t, m, p, v, rapid.SampledFrom([][]table.Family{nil, {'a'}, {'c'}, {'b', 'c'}}).Draw(t, "families"))
}

// compareFamilies is like compare, for some families.
func (f *fixture) compareFamilies(t *rapid.T, m *model, p string, v table.View, families []table.Family) {
	s := table.Select{View: v, Families: families, Reverse: rapid.Bool().Draw(t, "reverse"), MaxCells: rapid.IntRange(0, 3).Draw(t, "max cells")}
	if rapid.Bool().Draw(t, "narrow") {
		c := table.ColumnRange{Family: rapid.SampledFrom([]table.Family{'a', 'c'}).Draw(t, "narrowed"),
			From: []byte(rapid.SampledFrom(modelColumns).Draw(t, "from"))}
		switch rapid.IntRange(0, 2).Draw(t, "range") {
		case 0:
			c = table.Column(c.Family, c.From)
		case 1:
			c.To = []byte("r")
		}
		s.Columns = append(s.Columns, c)
	}
	var filter table.Filter
	if rapid.Bool().Draw(t, "filtered") {
		any := table.Any{table.HasMatch{Family: 'a', Prefix: []byte("p"), Parts: [][]byte{[]byte("q")}, AtEnd: true}}
		if !slices.Equal(families, []table.Family{'a', 'b'}) { // the history of c may be gone
			any = append(any, table.Has{Family: 'c', Qualifier: []byte(rapid.SampledFrom(modelColumns).Draw(t, "has"))})
		}
		any = append(any, table.HasValue{Family: 'a', Qualifier: []byte(rapid.SampledFrom(modelColumns).Draw(t, "value of")), From: []byte("3"), To: []byte("6")})
		filter = any
	}
	var want []string
	must := map[string]bool{}
	for _, row := range modelRows {
		all := m.row(p+row, v)
		w := showCells(tabletest.Project(all, s))
		got, err := f.tab.Get(f.ctx, []byte(p+row), s)
		if err != nil {
			t.Fatal(err)
		}
		if showCells(got.Cells) != w {
			t.Fatalf("Get %q at %+v, %+v\n got %s\nwant %s", p+row, v, s, showCells(got.Cells), w)
		}
		if w != "" {
			want = append(want, p+row+": "+w)
			must[want[len(want)-1]] = filter == nil || filter.Match(table.Row{Key: []byte(p + row), Cells: all})
		}
	}
	if s.Reverse {
		slices.Reverse(want)
	}
	s.Filter = filter
	rows, err := collect(f.ctx, f.tab, table.Prefix([]byte(p)), s)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range rows {
		got = append(got, string(r.Key)+": "+showCells(r.Cells))
	}
	// A scan with a filter may return more rows, but must not lose or change a row that
	// matches.
	want = slices.DeleteFunc(want, func(w string) bool { return !must[w] && !slices.Contains(got, w) })
	if !slices.Equal(got, want) {
		t.Fatalf("Scan at %+v, %+v\n got %s\nwant %s", v, s, strings.Join(got, "\n     "), strings.Join(want, "\n     "))
	}
}
