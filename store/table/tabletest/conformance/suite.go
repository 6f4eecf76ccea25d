package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

// Run tests a store against the contract of package table. It opens one store for all tests,
// and a second one for the test of Close. It creates and drops a table for each test. All tests
// except that of Close run in parallel, because with some engines they spend most of the time
// waiting. The tests of Batcher and Bulker run only if the store implements them, and the tests
// of Versioner run only if the store is not a Batcher.
//
// Run requires only what every engine can do. In particular, it never writes a revision
// again after erasing it. It also never writes two values to one column at one revision,
// because HBase does not define which of the two values remains.
func Run(t *testing.T, open func(t *testing.T) table.Store) {
	s := open(t)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	tests := []suiteTest{
		{"Catalog", testCatalog},
		{"GetAndScan", testGetAndScan},
		{"Views", testViews},
		{"HiddenRevisions", testHidden},
		{"Tombstones", testTombstones},
		{"DeleteRow", testDeleteRow},
		{"LateRevision", testLate},
		{"LateDeletion", testLateDeletion},
		{"Families", testFamilies},
		{"Columns", testColumns},
		{"MaxCells", testMaxCells},
		{"WideRow", testWideRow},
		{"GetMany", testGetMany},
		{"Filter", testFilter},
		{"FilterHidden", testFilterHidden},
		{"Order", testOrder},
		{"Idempotent", testIdempotent},
		{"Erase", testErase},
		{"Swap", testSwap},
		{"SwapRace", testSwapRace},
		{"Concurrent", testConcurrent},
		{"LargeValues", testLarge},
		{"Context", testContext},
		{"Errors", testErrors},
		{"Ownership", testOwnership},
		{"Model", testModel},
		{"Collect", testCollect},
		{"CollectModel", testCollectModel},
		{"Staged", testStaged},
		{"StagedBase", testStagedBase},
		{"CollectWide", testCollectWide},
		{"Keys", testKeys},
		{"Forget", testForget},
		{"Redact", testRedact},
		{"RedactWide", testRedactWide},
		{"RedactModel", testRedactModel},
	}
	if _, ok := s.(table.Batcher); ok {
		tests = append(tests, batchTests...)
	} else {
		tests = append(tests, versionTests...)
	}
	if _, ok := s.(table.Bulker); ok {
		tests = append(tests, bulkTests...)
	}
	if _, ok := s.Table("").(table.Copier); ok {
		tests = append(tests, copyTests...)
	}
	for _, x := range tests {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			x.test(newFixture(t, s))
		})
	}
	t.Run("Close", func(t *testing.T) { testClose(t, open) })
}

// A fixture is a store with a versioned table that is used by one test.
type fixture struct {
	*testing.T
	ctx context.Context
	s   table.Store
	tab table.Table
	tn  string
}

var tableNumber atomic.Int64

// families are the families of the test tables. In engines with groups, a and b are one
// group. The rows of c soon exceed the image limit and are then stored in single columns.
var families = []table.FamilySpec{
	{Name: 'a'},
	{Name: 'b', With: 'a'},
	{Name: 'c', ImageLimit: 64},
}

func newFixture(t *testing.T, s table.Store) *fixture {
	t.Helper()
	f := &fixture{T: t, ctx: context.Background(), s: s}
	f.tn = f.create(table.Spec{Families: families})
	f.tab = s.Table(f.tn)
	return f
}

// create creates a table with an unused name.
func (f *fixture) create(spec table.Spec) string {
	f.Helper()
	spec.Name = fmt.Sprintf("conf_%d", tableNumber.Add(1))
	if err := f.s.Create(f.ctx, spec); err != nil {
		f.Fatalf("Create: %v", err)
	}
	f.Cleanup(func() {
		if err := f.s.Drop(context.Background(), spec.Name); err != nil && !errors.Is(err, table.ErrClosed) {
			f.Errorf("Drop: %v", err)
		}
	})
	return spec.Name
}

// A view is a table.View with given bounds and hidden revisions.
type view struct {
	max, low table.Revision
	hidden   []table.Revision
}

func (v view) Max() table.Revision { return v.max }
func (v view) Low() table.Revision { return v.low }
func (v view) Visible(r table.Revision) bool {
	return r <= v.max && !slices.Contains(v.hidden, r)
}

// The function "at" returns a view of everything up to r.
func at(r table.Revision) view { return view{max: r, low: r} }

// hiding returns a view of everything up to r except some hidden revisions.
func hiding(r table.Revision, hidden ...table.Revision) view {
	return view{r, slices.Min(append(hidden, r+1)) - 1, hidden}
}

// cells parses a string such as "a:qualifier=value b:gone-" into cells. A trailing minus
// marks a tombstone.
func cells(s string) []table.Cell {
	var cs []table.Cell
	for _, x := range strings.Fields(s) {
		c := table.Cell{Family: table.Family(x[0])}
		q, v, ok := strings.Cut(x[2:], "=")
		if !ok {
			q, c.Tombstone = strings.TrimSuffix(q, "-"), true
		}
		c.Qualifier = []byte(q)
		if ok {
			c.Value = []byte(v)
		}
		cs = append(cs, c)
	}
	return cs
}

// showCells formats cells with their revisions: "a:q=v@3". A tombstone is "a:q=(tombstone)@3".
// Revision 0 is left out.
func showCells(cs []table.Cell) string {
	var b strings.Builder
	for i, c := range cs {
		if i > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "%c:%s=%s", c.Family, c.Qualifier, c.Value)
		if c.Tombstone {
			b.WriteString("(tombstone)")
		}
		if c.Revision != 0 {
			fmt.Fprintf(&b, "@%d", c.Revision)
		}
	}
	return b.String()
}

// ShowMutations formats mutations for messages.
func ShowMutations(ms []table.Mutation) string {
	var rows []string
	for i := range ms {
		del := ""
		if ms[i].DeleteRow {
			del = "deleted, then "
		}
		rows = append(rows, fmt.Sprintf("%s: %s%s", ms[i].Row, del, showCells(ms[i].Cells)))
	}
	return strings.Join(rows, "; ")
}

// put applies cells to a row. If s begins with "!", the row is deleted first.
func (f *fixture) put(r table.Revision, row, s string) {
	f.Helper()
	f.apply(r, mutation(row, s))
}

func mutation(row, s string) table.Mutation {
	rest, del := strings.CutPrefix(s, "!")
	return table.Mutation{Row: []byte(row), DeleteRow: del, Cells: cells(rest)}
}

func (f *fixture) apply(r table.Revision, ms ...table.Mutation) {
	f.Helper()
	if err := f.tab.Apply(f.ctx, r, ms); err != nil {
		f.Fatalf("Apply at %d: %v", r, err)
	}
}

func (f *fixture) get(row string, s table.Select) table.Row {
	f.Helper()
	r, err := f.tab.Get(f.ctx, []byte(row), s)
	if err != nil {
		f.Fatalf("Get %q: %v", row, err)
	}
	if string(r.Key) != row {
		f.Fatalf("Get %q gave the row %q", row, r.Key)
	}
	return r
}

// scan returns the rows of a range in the form "row: cells".
func (f *fixture) scan(r table.Range, s table.Select) []string {
	f.Helper()
	rows, err := collect(f.ctx, f.tab, r, s)
	if err != nil {
		f.Fatalf("Scan: %v", err)
	}
	out := []string{}
	for _, r := range rows {
		out = append(out, string(r.Key)+": "+showCells(r.Cells))
	}
	return out
}

func collect(ctx context.Context, t table.Table, r table.Range, s table.Select) ([]table.Row, error) {
	var rows []table.Row
	for row, err := range t.Scan(ctx, r, s) {
		if err != nil {
			return rows, err
		}
		rows = append(rows, row.Clone())
	}
	return rows, nil
}

// wantRow checks that Get, GetMany and Scan all return the wanted cells of a row.
func (f *fixture) wantRow(row string, s table.Select, want string) {
	f.Helper()
	if got := showCells(f.get(row, s).Cells); got != want {
		f.Errorf("Get %q at %s\n got %s\nwant %s", row, showView(s.View), got, want)
	}
	many, err := f.tab.GetMany(f.ctx, [][]byte{[]byte(row)}, s)
	if err != nil || len(many) != 1 || showCells(many[0].Cells) != want {
		f.Errorf("GetMany %q at %s gave %v, %v\nwant %s", row, showView(s.View), many, err, want)
	}
	rows := []string{}
	if want != "" {
		rows = append(rows, row+": "+want)
	}
	only := table.Range{Start: []byte(row), End: []byte(row + "\x00")}
	f.wantScan(only, s, rows...)
	s.Reverse = true
	f.wantScan(only, s, rows...)
}

func (f *fixture) wantScan(r table.Range, s table.Select, want ...string) {
	f.Helper()
	got := f.scan(r, s)
	if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
		f.Errorf("Scan [%q, %q) at %s reverse %v (-want +got):\n%s", r.Start, r.End, showView(s.View), s.Reverse, d)
	}
}

func showView(v table.View) string {
	if v == nil {
		return "the newest"
	}
	return fmt.Sprintf("%+v", v)
}
