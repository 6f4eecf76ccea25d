package conformance

import (
	"fmt"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

// history formats everything that is stored for some rows.
func (f *fixture) history(r table.Range) string {
	f.Helper()
	var out []string
	for p, err := range f.tab.(table.Redactor).History(f.ctx, r) {
		if err != nil {
			f.Fatalf("History: %v", err)
		}
		out = append(out, fmt.Sprintf("%s: %s %d", p.Key, showCells(p.Cells), p.Deletes))
	}
	return strings.Join(out, " | ")
}

func (f *fixture) redact(upTo table.Revision, rs ...table.Redaction) {
	f.Helper()
	for range 2 { // Redact may be repeated
		if err := f.tab.(table.Redactor).Redact(f.ctx, upTo, rs); err != nil {
			f.Fatalf("Redact: %v", err)
		}
	}
}

// testRedact checks that data removed from the past is gone from all states, and that
// everything else is unchanged.
func testRedact(f *fixture) {
	f.put(1, "1", "a:x=secret a:y=1 c:x=1 c:secret=1")
	f.put(3, "1", "a:x=3 c:secret-")
	f.put(5, "1", "a:y-")
	f.put(1, "2", "a:x=2 c:x=2")
	f.put(4, "2", "!")
	f.put(9, "2", "a:x=9")
	if got, want := f.history(table.Range{}), "1: a:x=3@3 a:x=secret@1 a:y=(tombstone)@5 a:y=1@1 "+
		"c:secret=(tombstone)@3 c:secret=1@1 c:x=1@1 [] | 2: a:x=9@9 a:x=2@1 c:x=2@1 [4]"; got != want {
		f.Errorf("the past is %s, want %s", got, want)
	}
	f.redact(6,
		table.Redaction{Row: []byte("1"), Columns: cells("c:secret-"),
			Cells: []table.Cell{{Family: 'a', Qualifier: []byte("x"), Revision: 1, Tombstone: true}}},
		table.Redaction{Row: []byte("2"), All: true},
		table.Redaction{Row: []byte("none"), All: true})
	for _, x := range []struct {
		at       table.Revision
		row, was string
	}{
		{1, "1", "a:y=1@1 c:x=1@1"},
		{3, "1", "a:x=3@3 a:y=1@1 c:x=1@1"},
		{9, "1", "a:x=3@3 c:x=1@1"},
		{3, "2", ""},
		{9, "2", "a:x=9@9"},
	} {
		f.wantRow(x.row, table.Select{View: at(x.at)}, x.was)
	}
	f.redact(9, table.Redaction{Row: []byte("1"), Cells: []table.Cell{
		{Family: 'a', Qualifier: []byte("y"), Revision: 1, Value: []byte("other")},
		{Family: 'a', Qualifier: []byte("z"), Revision: 1, Value: []byte("of none")}}})
	f.wantRow("1", table.Select{View: at(1)}, "a:y=other@1 c:x=1@1")
	if got := f.history(table.Range{}); strings.Contains(got, "secret") || strings.Contains(got, "none") {
		f.Errorf("left is %s", got)
	}
}

// testRedactWide checks that History returns all columns of a row with many columns, and
// that Redact changes such a row.
func testRedactWide(f *fixture) {
	const n = 9000
	m := table.Mutation{Row: []byte("group")}
	for i := range n {
		m.Cells = append(m.Cells, table.Cell{Family: 'c', Qualifier: fmt.Appendf(nil, "member %05d", i), Value: []byte("1")})
	}
	f.apply(1, m)
	f.put(2, "group", "c:later=2")
	seen := map[string]bool{}
	for p, err := range f.tab.(table.Redactor).History(f.ctx, table.Range{}) {
		if err != nil {
			f.Fatal(err)
		}
		for _, c := range p.Cells {
			seen[string(c.Qualifier)] = true
		}
	}
	if len(seen) != n+1 {
		f.Errorf("%d columns have a past", len(seen))
	}
	f.redact(1, table.Redaction{Row: []byte("group"), Columns: m.Cells[:n-1]})
	f.wantRow("group", table.Select{View: at(1)}, "c:member 08999=1@1")
	f.redact(1, table.Redaction{Row: []byte("group"), All: true})
	f.wantRow("group", table.Select{}, "c:later=2@2")
	f.put(3, "group", "c:last=3")
	f.wantRow("group", table.Select{}, "c:last=3@3 c:later=2@2")
}

// testRedactModel changes the past of random writes, continues to write, and compares all
// reads with the model.
func testRedactModel(f *fixture) {
	rapid.Check(f.T, func(t *rapid.T) {
		p := fmt.Sprintf("past%06d-", modelRuns.Add(1))
		m := &model{}
		for r := table.Revision(1); r <= 16; {
			for range rapid.IntRange(1, 8).Draw(t, "commits") {
				ms := drawMutations(t, p)
				if err := f.tab.Apply(f.ctx, r, ms); err != nil {
					t.Fatal(err)
				}
				for _, x := range ms {
					m.events = append(m.events, event{r, x})
				}
				r++
			}
			upTo := table.Revision(rapid.IntRange(1, int(r-1)).Draw(t, "up to"))
			rs := m.drawRedactions(t, p, upTo)
			if err := f.tab.(table.Redactor).Redact(f.ctx, upTo, rs); err != nil {
				t.Fatal(err)
			}
			for i := range rs {
				m.redact(&rs[i], upTo)
			}
			f.compare(t, m, p, drawLateView(t, upTo, r))
			past := table.Revision(rapid.IntRange(0, int(upTo)).Draw(t, "past"))
			f.compare(t, m, p, view{max: past, low: past})
		}
	})
}

// drawRedactions returns random redactions of whole rows, of columns, and of existing
// versions.
func (m *model) drawRedactions(t *rapid.T, p string, upTo table.Revision) (rs []table.Redaction) {
	for _, row := range rapid.SliceOfNDistinct(rapid.SampledFrom(modelRows), 1, 3, rapid.ID).Draw(t, "redacted") {
		x := table.Redaction{Row: []byte(p + row), All: rapid.IntRange(0, 4).Draw(t, "all") == 0}
		for _, e := range m.events {
			if string(e.m.Row) != string(x.Row) || e.rev > upTo {
				continue
			}
			for _, c := range e.m.Cells {
				c.Revision = e.rev
				switch rapid.IntRange(0, 5).Draw(t, "what") {
				case 0:
					x.Columns = append(x.Columns, c)
				case 1:
					c.Tombstone, c.Value = true, nil
					x.Cells = append(x.Cells, c)
				case 2:
					if !c.Tombstone {
						c.Value = []byte("other")
						x.Cells = append(x.Cells, c)
					}
				}
			}
		}
		x.Columns = slices.CompactFunc(table.SortVersions(x.Columns), func(a, b table.Cell) bool { return a.Compare(b) == 0 })
		x.Cells = table.SortVersions(x.Cells)
		rs = append(rs, x)
	}
	return rs
}

func (m *model) redact(x *table.Redaction, upTo table.Revision) {
	for i := range m.events {
		e := &m.events[i]
		if string(e.m.Row) != string(x.Row) || e.rev > upTo {
			continue
		}
		var left []table.Cell
		for _, c := range e.m.Cells {
			c.Revision = e.rev
			if c, stays := x.Change(&c, upTo); stays {
				left = append(left, c)
			}
		}
		e.m.Cells = left
		e.m.DeleteRow = e.m.DeleteRow && !x.All
	}
}
