package revision

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

var genIssued = rapid.Custom(func(t *rapid.T) table.Revision {
	return Make(rapid.Int64Range(0, maxTime).Draw(t, "ms"), Slot(rapid.IntRange(1, MaxSlot).Draw(t, "slot")), rapid.Uint8().Draw(t, "counter"))
})

// TestCSNOrder checks that CSNs parse to their revisions and sort in the same order.
func TestCSNOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := genIssued.Draw(t, "a"), genIssued.Draw(t, "b")
		x, y := string(AppendCSN(nil, a)), string(AppendCSN(nil, b))
		if (a < b) != (x < y) || (a == b) != (x == y) {
			t.Fatalf("%s, %s in another order than %s, %s", a, b, x, y)
		}
		if got, err := ParseCSN(x); err != nil || got != a {
			t.Fatalf("%s: %s, %v, want %s", x, got, err, a)
		}
	})
}

func TestCSN(t *testing.T) {
	r := Make(At(time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC)).Time().Sub(table.Epoch).Milliseconds(), 3, 7)
	const want = "20260102030405.678000Z#000307#003#000000"
	if got := string(AppendCSN(nil, r)); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for _, bad := range []string{
		"", "x", want[1:], want + "0",
		"20260102030405.678001Z#000307#003#000000", // the time is between two milliseconds
		"20260102030405.678000Z#000007#003#000000", // the count contains no slot
		"20260102030405.678000Z#000307#004#000000", // the server id differs from the slot
		"20260102030405.678000Z#000307#003#000001",
		"20260102030405.678000Z#00030G#003#000000",
		"20260102030405.678000Z#800307#003#000000",
		"20260132030405.678000Z#000307#003#000000",
		"20120102030405.678000Z#000307#003#000000", // the time is before the first possible revision
		"20990102030405.678000Z#000307#003#000000",
	} {
		if got, err := ParseCSN(bad); err == nil {
			t.Errorf("%q is %s", bad, got)
		}
	}
}

func FuzzParseCSN(f *testing.F) {
	f.Add("20260102030405.678000Z#000307#003#000000")
	f.Fuzz(func(t *testing.T, s string) {
		if r, err := ParseCSN(s); err == nil && string(AppendCSN(nil, r)) != s {
			t.Errorf("%q is %s", s, r)
		}
	})
}

func TestFront(t *testing.T) {
	a1, a2, b1, c9 := Make(1, 1, 0), Make(2, 1, 5), Make(1, 2, 0), Make(9, 3, 0)
	var f Frontier
	f = f.With(b1).With(a2).With(a1)
	if d := cmp.Diff(Frontier{a2, b1}, f); d != "" {
		t.Error(d)
	}
	g := f.With(c9)
	if len(f) != 2 || !g.Covers(c9) || f.Covers(c9) || !f.Covers(a1) || f.Covers(a2+1) || g.Max() != c9 {
		t.Errorf("%v, %v", f, g)
	}
	if d := cmp.Diff(Frontier{Make(1, 1, maxCounter), b1}, Frontier{a2, b1}.Until(Make(1, 9, 0))); d != "" {
		t.Error(d)
	}
	if FrontierOf(2, 0) != nil || !slices.Equal(FrontierOf(2, Make(5, 1, 3)), Frontier{Make(4, 2, maxCounter)}) {
		t.Error("the frontier of one slot")
	}
}

// TestVectorFront checks two properties. A vector's frontier covers no revision that is
// undecided. The view at a frontier shows exactly the revisions that the vector shows and
// the frontier covers.
func TestVectorFront(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cells := map[Slot]Cell{}
		for s := Slot(1); s <= 3; s++ {
			c := Cell{State: State(rapid.IntRange(0, 3).Draw(t, "state")), Incarnation: 1, First: Make(1, s, 0)}
			pick := func(what string) (rs []table.Revision) {
				for ms := int64(2); ms < 9; ms++ {
					if rapid.IntRange(0, 5).Draw(t, what) == 0 {
						rs = append(rs, Make(ms, s, 0))
					}
				}
				return rs
			}
			c.Head, c.Void, c.Undecided = Make(int64(rapid.IntRange(1, 9).Draw(t, "head")), s, 0), pick("void"), pick("undecided")
			if c.State == Closed {
				c.Late = pick("late")
			}
			cells[s] = c
		}
		v := NewVector(cells, nil)
		whole := v.Frontier()
		if !v.Reached(whole) || len(whole) > 0 && v.Reached(whole.With(whole.Max()+1<<40)) {
			t.Fatal("reached")
		}
		f := whole.Until(Make(int64(rapid.IntRange(1, 9).Draw(t, "until")), MaxSlot, 0))
		at := v.At(f)
		for s := Slot(1); s <= 3; s++ {
			for ms := int64(1); ms < 10; ms++ {
				r := Make(ms, s, 0)
				open := cells[s].State == Open || cells[s].State == Recovering
				if _, undecided := slices.BinarySearch(cells[s].Undecided, r); open && undecided && whole.Covers(r) {
					t.Fatalf("the frontier %v covers %s, which is undecided: %+v", whole, r, cells)
				}
				if want := v.Visible(r) && f.Covers(r); at.Visible(r) != want || want && r > at.Max() {
					t.Fatalf("%s visible at %v: %v", r, f, !want)
				}
				if r >= cells[s].First && r <= at.Low() && v.Visible(r) && !at.Visible(r) {
					t.Fatalf("%s is below the mark %s and hidden at %v", r, at.Low(), f)
				}
			}
		}
	})
}
