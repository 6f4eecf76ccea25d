package revision

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

func TestFields(t *testing.T) {
	for _, c := range []struct {
		ms      int64
		slot    Slot
		counter uint8
		id      table.Revision
		text    string
	}{
		{0, 0, 0, 0, "r0-0-0"},
		{0, 0, 255, 255, "r0-ff-0"},
		{0, 1, 0, 256, "r0-0-1"},
		{1, 0, 0, 1 << 23, "r1-0-0"},
		{maxTime, MaxSlot, maxCounter, Last, "rffffffffff-ff-7fff"},
	} {
		r := Make(c.ms, c.slot, c.counter)
		if r != c.id || Millis(r) != c.ms || SlotOf(r) != c.slot || Counter(r) != c.counter || r.String() != c.text {
			t.Errorf("%+v: %d is %d %d %d %s", c, r, Millis(r), SlotOf(r), Counter(r), r)
		}
	}
	if int64(Last) < 0 {
		t.Error("the largest id is negative as a signed timestamp")
	}
	if end := Last.Time().Year(); end != 2047 {
		t.Errorf("ids end in %d", end)
	}
}

func TestParse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := table.Revision(rapid.Uint64Range(0, uint64(Last)).Draw(t, "id"))
		if got, err := Parse(r.String()); err != nil || got != r {
			t.Fatalf("%s is %d: %v", r, got, err)
		}
	})
	for _, s := range []string{"", "r", "r1-2", "1-2-3", "r1-2-3-4", "r01-2-3", "rA-0-0", "r1-100-0", "r1-0-8000", "r10000000000-0-0", "r-1-0-0", "r1-+2-3"} {
		if r, err := Parse(s); err == nil {
			t.Errorf("%q is %d", s, r)
		}
	}
}

// TestClock makes a wall clock jump arbitrarily: ids must still ascend and stay above the
// observed ids.
func TestClock(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		wall := table.Epoch.Add(time.Hour)
		c := NewClock(Slot(rapid.IntRange(1, 3).Draw(t, "slot")), func() time.Time { return wall })
		var last table.Revision
		t.Repeat(map[string]func(*rapid.T){
			"jump": func(t *rapid.T) {
				wall = wall.Add(time.Duration(rapid.IntRange(-3000, 3000).Draw(t, "us")) * time.Microsecond)
			},
			"observe": func(t *rapid.T) {
				seen := Make(millis(wall)+int64(rapid.IntRange(-2, 2).Draw(t, "ms")), Slot(rapid.IntRange(1, 3).Draw(t, "of")), uint8(rapid.IntRange(0, 255).Draw(t, "counter")))
				c.Observe(seen)
				last = max(last, seen)
			},
			"issue": func(t *rapid.T) {
				for range rapid.IntRange(1, 300).Draw(t, "n") {
					r, err := c.Next()
					if err != nil || r <= last || SlotOf(r) != c.Slot() || r < Make(millis(wall), c.Slot(), 0) {
						t.Fatalf("%s after %s: %v", r, last, err)
					}
					last = r
				}
			},
		})
	})
}

func TestClockLimit(t *testing.T) {
	wall := table.Epoch.Add(time.Hour)
	c := NewClock(1, func() time.Time { return wall })
	c.SetLimit(At(wall.Add(time.Millisecond)))
	if _, err := c.Next(); err != nil {
		t.Fatal(err)
	}
	wall = wall.Add(2 * time.Millisecond)
	if r, err := c.Next(); !errors.Is(err, ErrLimit) {
		t.Errorf("issued %s beyond the limit: %v", r, err)
	}
	c.SetLimit(At(wall))
	if _, err := c.Next(); err != nil {
		t.Error(err)
	}
	c.SetLimit(Last)
	c.Observe(Last)
	if r, err := c.Next(); err == nil {
		t.Errorf("issued %d at the end of time", r)
	}
	if c.Behind() <= 0 {
		t.Error("the clock is not behind the end of time")
	}
}

var genRevision = rapid.Map(rapid.Uint64Range(1, uint64(Last)), func(n uint64) table.Revision { return table.Revision(n) })

var genRevisions = rapid.Custom(func(t *rapid.T) []table.Revision {
	var rs []table.Revision
	var r table.Revision
	for range rapid.IntRange(0, 4).Draw(t, "n") {
		r += table.Revision(rapid.Uint64Range(1, 1<<40).Draw(t, "step"))
		rs = append(rs, r)
	}
	return rs
})

var genCell = rapid.Custom(func(t *rapid.T) Cell {
	return Cell{
		Kind: Kind(rapid.IntRange(0, 1).Draw(t, "kind")), State: State(rapid.IntRange(0, 6).Draw(t, "state")),
		Incarnation: rapid.Uint64().Draw(t, "incarnation"), Token: rapid.Uint64().Draw(t, "token"),
		Sequence: rapid.Uint64().Draw(t, "sequence"), Lease: rapid.Uint64().Draw(t, "lease"),
		First: genRevision.Draw(t, "first"), Limit: genRevision.Draw(t, "limit"), Head: genRevision.Draw(t, "head"),
		Void: genRevisions.Draw(t, "void"), Undecided: genRevisions.Draw(t, "undecided"), Late: genRevisions.Draw(t, "late"),
		Oldest: genRevision.Draw(t, "oldest"), Config: genRevision.Draw(t, "config"), Merge: genRevision.Draw(t, "merge"),
		Base:    genRevision.Draw(t, "base"),
		Owner:   rapid.SampledFrom([]string{"", "host/1"}).Draw(t, "owner"),
		Horizon: genRevision.Draw(t, "horizon"),
	}
})
