package hbase_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest"
)

// A world generates random mutations and queries from few keys and qualifiers, so that
// they often coincide.
type world struct {
	*rand.Rand
	rows int // if not zero, the number of keys
}

func (w world) pick(list ...string) string { return list[w.IntN(len(list))] }

func (w world) row() []byte {
	if w.rows > 0 {
		return fmt.Appendf(nil, "%c%03d", 'a'+rune(w.IntN(5)), w.IntN(w.rows/5))
	}
	return []byte(w.pick("a", "a\x00", "b", "bé", "b\xff", "c\nd", "d", "dd", "e", "f\xff\xff"))
}

func (w world) qualifier() []byte {
	return []byte(w.pick("", "\x00", "\x00x", "cn=a", "cn=ab", "cn=abc", "cn=b", "mail=x", "mail=y\xff", "\xff"))
}

func (w world) family() table.Family { return table.Family(w.pick("a", "b")[0]) }

func (w world) mutations() []table.Mutation {
	var ms []table.Mutation
	for range 1 + w.IntN(6) + w.rows/10 {
		m := table.Mutation{Row: w.row(), DeleteRow: w.IntN(6) == 0}
		for range w.IntN(6) {
			c := table.Cell{Family: w.family(), Qualifier: w.qualifier(), Tombstone: w.IntN(4) == 0}
			if !c.Tombstone {
				c.Value = fmt.Append(nil, w.IntN(1000))
			}
			m.Cells = append(m.Cells, c)
		}
		ms = append(ms, m)
	}
	return ms
}

func (w world) columns() table.ColumnRange {
	c := table.ColumnRange{Family: w.family(), From: w.qualifier(), To: w.qualifier()}
	switch w.IntN(3) {
	case 0:
		return table.Column(c.Family, c.From)
	case 1:
		return table.ColumnPrefix(c.Family, c.From)
	}
	return c
}

func (w world) filter(depth int) table.Filter {
	switch n := w.IntN(8); {
	case depth > 0 && n == 0, depth > 0 && n == 1:
		var list []table.Filter
		for range w.IntN(4) {
			list = append(list, w.filter(depth-1))
		}
		if n == 0 {
			return table.All(list)
		}
		return table.Any(list)
	case n == 2:
		return table.HasRange{ColumnRange: w.columns()}
	case n == 3:
		m := table.HasMatch{Family: w.family(), Prefix: []byte(w.pick("", "cn=", "\x00", "mail=")), AtEnd: w.IntN(2) == 0}
		for range w.IntN(3) {
			m.Parts = append(m.Parts, []byte(w.pick("a", "b", "bc", "x", "\xff", "\x00")))
		}
		return m
	case n == 5:
		v := table.HasValue{Family: w.family(), Qualifier: w.qualifier(), AtEnd: w.IntN(2) == 0}
		if w.IntN(2) == 0 {
			v.From = fmt.Append(nil, w.IntN(1000))
		}
		if w.IntN(2) == 0 {
			v.To = fmt.Append(nil, w.IntN(1000))
		}
		if w.IntN(3) == 0 {
			v.Prefix = []byte(w.pick("", "1", "12"))
			v.Parts = [][]byte{[]byte(w.pick("", "1", "5"))}
		}
		return v
	case n == 4:
		m := table.KeyMatch{Prefix: []byte(w.pick("", "", "a", "b", "bé", "d"))}
		for range w.IntN(3) {
			m.Parts = append(m.Parts, []byte(w.pick("", "\x00", "b", "\xff", "\n", "d", "é", "1", "00")))
		}
		return m
	}
	return table.Has{Family: w.family(), Qualifier: w.qualifier()}
}

// view returns nil, or a view of the revisions from 1 up to a random one. The view shows all of
// these revisions or hides some of them.
func (w world) view(n int) table.View {
	v := view{max: table.Revision(w.IntN(n + 1)), hidden: map[table.Revision]bool{}}
	switch w.IntN(4) {
	case 0:
		return nil
	case 1:
		v.low = table.Revision(w.IntN(int(v.max) + 1))
		for r := v.low + 1; r < v.max; r++ {
			v.hidden[r] = w.IntN(2) == 0
		}
	default:
		v.low = v.max
	}
	return v
}

func (w world) sel(revisions int) table.Select {
	s := table.Select{View: w.view(revisions), Reverse: w.IntN(2) == 0}
	if w.IntN(2) == 0 {
		s.Families = []table.Family{w.family()}
	}
	if w.IntN(4) == 0 { // all but the columns with some prefixes
		for _, f := range []table.Family{'a', 'b'}[w.IntN(3)/2:] {
			at := table.ColumnRange{Family: f}
			for _, p := range []string{"cn=a", w.pick("cn=b", "mail=", "\xff")} {
				at.To = []byte(p)
				s.Columns = append(s.Columns, at)
				at = table.ColumnRange{Family: f, From: table.PrefixEnd(at.To)}
			}
			s.Columns = append(s.Columns, at)
		}
	}
	for range max(0, w.IntN(6)-4) {
		s.Columns = append(s.Columns, w.columns())
	}
	if w.IntN(3) == 0 {
		s.MaxCells = 1 + w.IntN(4)
	}
	if w.IntN(2) == 0 {
		s.Expect = 1 + w.IntN(100)
	}
	return s
}

func (w world) ranges() table.Range {
	switch w.IntN(3) {
	case 0:
		return table.Range{Start: w.row(), End: w.row()}
	case 1:
		return table.Range{Start: w.row()}
	}
	return table.Range{}
}

var queriesFlag = flag.Int("queries", 250, "queries of TestRandom")

// TestRandom runs random queries on random histories and compares the results with the
// results of the reference store. Filters are hints: every row that matches must be
// returned, other rows may be returned, and all returned rows must be complete.
func TestRandom(t *testing.T) {
	for name, rows := range map[string]int{"few rows": 0, "many rows": 500} { // scans adapt their filters to many rows
		t.Run(name, func(t *testing.T) { testRandom(t, rows) })
	}
}

func testRandom(t *testing.T, rows int) {
	t.Parallel()
	s := open(t)
	ref := tabletest.NewMem()
	if err := ref.Create(t.Context(), data); err != nil {
		t.Fatal(err)
	}
	split := data
	split.Splits = [][]byte{[]byte("b"), []byte("b\xff"), []byte("dd")}
	d, want := create(t, s, split), ref.Table("data")
	seed := rand.Uint64()
	if v := os.Getenv("LDAPD_TEST_SEED"); v != "" {
		fmt.Sscan(v, &seed)
	}
	w := world{rand.New(rand.NewPCG(seed, 0)), rows}
	t.Logf("seed %d", seed)
	const revisions = 40
	for r := table.Revision(1); r <= revisions; r++ {
		ms := w.mutations()
		apply(t, d, r, ms...)
		apply(t, want, r, ms...)
		if w.IntN(8) == 0 {
			undo := [][]byte{w.row(), w.row()}
			if err := d.Erase(t.Context(), r, undo); err != nil {
				t.Fatal(err)
			}
			if err := want.Erase(t.Context(), r, undo); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i := range *queriesFlag {
		sel, rng := w.sel(revisions), w.ranges()
		whole := scanText(t, want, rng, sel)
		if i%3 == 0 {
			checkGets(t, d, want, w, sel)
			continue
		}
		sel.Filter = w.filter(2)
		must := scanText(t, want, rng, sel)
		got := scanText(t, d, rng, sel)
		if diff := compareHint(must, got, whole); diff != "" {
			t.Fatalf("scan %q with %+v filter %T%+v: %s", rng, sel, sel.Filter, sel.Filter, diff)
		}
		sel.Filter = nil
		sel.MaxRows = w.IntN(4)
		if diff := cmp.Diff(scanText(t, want, rng, sel), scanText(t, d, rng, sel)); diff != "" {
			t.Fatalf("scan %q with %+v: %s", rng, sel, diff)
		}
	}
}

// compareHint returns "" if got is a right result of a scan with a filter, and otherwise
// a description of the error. The result must be in order. It must contain every row of
// the argument must, and no row that is not in whole.
func compareHint(must, got, whole []string) string {
	have := map[string]bool{}
	for _, r := range got {
		have[r] = true
	}
	needed := map[string]bool{}
	for _, r := range must {
		if needed[r] = true; !have[r] {
			return "missing " + r
		}
	}
	var allowed []string
	for _, r := range whole {
		if have[r] || needed[r] {
			allowed = append(allowed, r)
		}
	}
	return cmp.Diff(allowed, got)
}

func checkGets(t *testing.T, d, want table.Table, w world, sel table.Select) {
	t.Helper()
	var keys [][]byte
	for range 1 + w.IntN(5) {
		keys = append(keys, w.row())
	}
	got, err := d.GetMany(t.Context(), keys, sel)
	if err != nil {
		t.Fatal(err)
	}
	ref, err := want.GetMany(t.Context(), keys, sel)
	if err != nil {
		t.Fatal(err)
	}
	for i := range keys {
		if text(got[i]) != text(ref[i]) {
			t.Fatalf("get %q with %+v:\n got %s\nwant %s", keys[i], sel, text(got[i]), text(ref[i]))
		}
	}
}
