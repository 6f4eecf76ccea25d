package revision

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

func TestCellRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := genCell.Draw(t, "cell")
		b := c.Append(nil)
		got, err := DecodeCell(b)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(c, got); d != "" {
			t.Fatal(d)
		}
		for n := range b { // a proper prefix of an encoded cell cannot be decoded
			if _, err := DecodeCell(b[:n]); err == nil {
				t.Fatalf("%d of %d bytes decoded", n, len(b))
			}
		}
		a := c.Archive()
		got2, err := DecodeArchive(a.Append(nil))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(a, got2); d != "" {
			t.Fatal(d)
		}
	})
}

func TestCellErrors(t *testing.T) {
	good := (&Cell{State: Open, Incarnation: 1}).Append(nil)
	change := func(i int, v byte) []byte {
		b := bytes.Clone(good)
		b[i] = v
		return b
	}
	for _, c := range []struct {
		name string
		b    []byte
		text string
		is   error
	}{
		{"empty", nil, "version: cut short", table.ErrCorrupt},
		{"newer", change(0, 4), "version 4", table.ErrNewer},
		{"no horizon", append(change(0, 2), 0), "horizon: zero", table.ErrCorrupt},
		{"kind", change(1, 2), "kind: unknown value 2", table.ErrCorrupt},
		{"branch of an old version", change(1, 1), "kind: of another version", table.ErrCorrupt},
		{"state", change(2, 8), "state: unknown value 8", table.ErrCorrupt},
		{"tail", append(bytes.Clone(good), 0), "1 bytes too many", table.ErrCorrupt},
		{"long varint", append(append(bytes.Clone(good[:3]), 0x81, 0), good[4:]...), "shortest", table.ErrCorrupt},
	} {
		_, err := DecodeCell(c.b)
		if err == nil || !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if len(good) > 40 {
		t.Errorf("a fresh cell has %d bytes", len(good))
	}
}

// FuzzDecodeCell checks that decoding a cell or an archive and encoding it again returns the
// same bytes.
func FuzzDecodeCell(f *testing.F) {
	f.Add((&Cell{}).Append(nil))
	f.Add((&Cell{Kind: Branch, State: Merging, Incarnation: 3, First: 5, Limit: 1 << 40, Head: 1 << 30,
		Void: []table.Revision{7, 9}, Undecided: []table.Revision{8}, Late: []table.Revision{1 << 35},
		Merge: 12, Base: 11, Owner: "a/1"}).Append(nil))
	f.Add((&Cell{State: Open, Owner: "a/1", Horizon: 1 << 50}).Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if c, err := DecodeCell(b); err == nil && !bytes.Equal(c.Append(nil), b) {
			t.Errorf("%x decodes to %+v", b, c)
		}
		if a, err := DecodeArchive(b); err == nil && !bytes.Equal(a.Append(nil), b) {
			t.Errorf("%x decodes to %+v", b, a)
		}
	})
}

// TestVisible tests which revisions each state of a slot shows. Slot 1 has ids at the
// times 10 to 90.
func TestVisible(t *testing.T) {
	at := func(ms int64) table.Revision { return Make(ms, 1, 0) }
	of2 := func(ms int64) table.Revision { return Make(ms, 2, 0) }
	exceptions := Cell{State: Open, Incarnation: 2, First: at(50), Head: at(80), Void: []table.Revision{at(60)}, Undecided: []table.Revision{at(70)}}
	with := func(c Cell, change func(*Cell)) Cell { change(&c); return c }
	old := []Archive{{First: at(10), Head: at(30), Void: []table.Revision{at(20)}, Late: []table.Revision{at(40)}}}
	server2 := Cell{State: Open, Incarnation: 1, First: of2(1), Head: of2(100)}
	for _, c := range []struct {
		name                 string
		cells                map[Slot]Cell
		visible              []int64 // the visible revisions of 10, 20, ..., 90 in slot 1
		max                  table.Revision
		stable, low, decided table.Revision
	}{
		{"nobody", nil, nil, 0, 0, 0, 0},
		{"open", map[Slot]Cell{1: exceptions}, []int64{10, 30, 40, 50, 80}, at(80), at(70) - 1, at(60) - 1, at(70) - 1},
		{"recovering", map[Slot]Cell{1: with(exceptions, func(c *Cell) { c.State = Recovering })},
			[]int64{10, 30, 40, 50, 80}, at(80), at(70) - 1, at(60) - 1, at(70) - 1},
		{"closed", map[Slot]Cell{1: with(exceptions, func(c *Cell) { c.State = Closed; c.Late = []table.Revision{at(70), at(90)} })},
			[]int64{10, 30, 40, 50, 70, 80, 90}, at(90), at(70) - 1, at(60) - 1, at(90)},
		{"free", map[Slot]Cell{1: {State: Free, Incarnation: 1, Head: at(45)}}, []int64{10, 30, 40}, at(40), at(40), at(40), at(40)},
		{"open branch", map[Slot]Cell{1: with(exceptions, func(c *Cell) { c.Kind = Branch }), 2: server2},
			[]int64{10, 30, 40}, of2(100), of2(100), of2(100), of2(100)},
		{"merged branch", map[Slot]Cell{1: with(exceptions, func(c *Cell) { c.Kind, c.State, c.Merge = Branch, Merging, of2(95) }), 2: server2},
			[]int64{10, 30, 40, 50, 80}, of2(100), of2(100), of2(100), of2(100)},
		{"branch whose merge is not visible", map[Slot]Cell{1: with(exceptions, func(c *Cell) { c.Kind, c.State, c.Merge = Branch, Merging, of2(101) }), 2: server2},
			[]int64{10, 30, 40}, of2(100), of2(100), of2(100), of2(100)},
		{"branch merged by a branch", map[Slot]Cell{1: with(exceptions, func(c *Cell) { c.Kind, c.State, c.Merge = Branch, Merged, at(50) })},
			[]int64{10, 30, 40}, at(40), at(40), at(40), at(40)},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := NewVector(c.cells, map[Slot][]Archive{1: old})
			var visible []int64
			for ms := int64(10); ms < 100; ms += 10 {
				if v.Visible(at(ms)) {
					visible = append(visible, ms)
				}
			}
			if d := cmp.Diff(c.visible, visible); d != "" {
				t.Error(d)
			}
			if v.Visible(Make(10, 3, 0)) {
				t.Error("a revision of an unknown slot is visible")
			}
			got := [4]table.Revision{v.Max(), v.Stable(), v.Low(), v.Decided()}
			if want := [4]table.Revision{c.max, c.stable, c.low, c.decided}; got != want {
				t.Errorf("max, stable, low, decided %v, want %v", got, want)
			}
			if v.Low() > v.Max() {
				t.Error("low above max")
			}
		})
	}
}

// TestLow checks what table.View promises about Low: for any cells, every revision up to
// Low is visible or has left no cells.
func TestLow(t *testing.T) {
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
		for s := Slot(1); s <= 3; s++ {
			for ms := int64(1); ms < 10; ms++ {
				r := Make(ms, s, 0)
				if cells[s].State != Free && r >= cells[s].First && r <= v.Low() && !v.Visible(r) {
					t.Fatalf("%s is below %s and not visible: %+v", r, v.Low(), cells)
				}
				if r > v.Max() && v.Visible(r) {
					t.Fatalf("%s is above %s and visible: %+v", r, v.Max(), cells)
				}
			}
		}
	})
}

func BenchmarkVisible(b *testing.B) {
	cells := map[Slot]Cell{}
	for s := Slot(1); s <= 16; s++ {
		cells[s] = Cell{State: Open, Incarnation: 1, First: Make(1, s, 0), Head: Make(1000, s, 0)}
	}
	v := NewVector(cells, nil)
	r := Make(500, 9, 0)
	for b.Loop() {
		if !v.Visible(r) {
			b.Fatal("not visible")
		}
	}
}

// TestVisibleAt tests which states show the revisions of a branch, which was made at the
// time 20 and has revisions at the times 30 and 40.
func TestVisibleAt(t *testing.T) {
	const slot = FirstBranch + 3
	of := func(ms int64) table.Revision { return Make(ms, slot, 0) }
	by := func(ms int64) table.Revision { return Make(ms, 1, 0) }
	cell := Cell{Kind: Branch, State: Open, Incarnation: 1, First: of(20), Head: of(40), Base: by(15)}
	with := func(change func(*Cell)) Cell { c := cell; change(&c); return c }
	free := Cell{Kind: Branch, State: Free, Incarnation: 1, Head: of(40)}
	for _, c := range []struct {
		name     string
		cell     Cell
		archive  []Archive
		shownBy  table.Revision // wanted result of ShownBy for the revision at 30
		settled  table.Revision // wanted result of Settled for the state at 90
		noBranch table.Revision // wanted result of NoBranchWithin for 25
	}{
		{"open", cell, nil, Last, of(20), by(15)},
		{"frozen", with(func(c *Cell) { c.State = Frozen }), nil, Last, of(20), by(15)},
		{"merging", with(func(c *Cell) { c.State, c.Merge = Merging, by(95) }), nil, by(95), of(20), by(15)},
		{"merged", with(func(c *Cell) { c.State, c.Merge = Merged, by(50) }), nil, by(50), Last, by(15)},
		{"merged with a void revision", with(func(c *Cell) { c.State, c.Merge, c.Void = Merged, by(50), []table.Revision{of(35)} }), nil, by(50), of(35) - 1, by(15)},
		{"discarded", with(func(c *Cell) { c.State, c.Head = Closed, 0 }), nil, Last, of(20), by(15)},
		{"merged and archived", free, []Archive{{First: of(20), Head: of(40), Merge: by(50)}}, by(50), Last, of(20)},
		{"discarded and archived", free, []Archive{{First: of(20)}}, Last, Last, by(25)},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := Cell{State: Open, Incarnation: 1, First: by(1), Head: by(90)}
			v := NewVector(map[Slot]Cell{1: server, slot: c.cell}, map[Slot][]Archive{slot: c.archive})
			if got := v.ShownBy(of(30)); got != c.shownBy || v.ShownBy(by(30)) != by(30) {
				t.Errorf("shown by %s, want %s", got, c.shownBy)
			}
			for ms := int64(10); ms < 100; ms += 10 {
				if got, want := v.VisibleAt(of(30), by(ms)), c.shownBy <= by(ms) && c.shownBy <= by(90); got != want {
					t.Errorf("visible at %d: %v", ms, got)
				}
			}
			if got := [2]table.Revision{v.Settled(by(90)), v.NoBranchWithin(by(25))}; got != [2]table.Revision{c.settled, c.noBranch} {
				t.Errorf("settled up to %s, no branch up to %s", got[0], got[1])
			}
			if c.shownBy == by(50) && v.Settled(by(49)) != of(20) {
				t.Errorf("settled before the merge up to %s", v.Settled(by(49)))
			}
			if f := v.Frontier(); len(f) != 1 || f[0] != by(90) {
				t.Errorf("frontier %v", f)
			}
		})
	}
}
