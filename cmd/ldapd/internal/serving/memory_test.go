package serving

import "testing"

// TestReturns checks that memory is returned only after much work. A server that does a little
// work all the time must not mark its large cache again and again.
func TestReturns(t *testing.T) {
	for _, x := range []struct {
		interval, since, live uint64
		want                  bool
	}{
		{0, busy + 1, 10 << 20, true},
		{0, busy, 10 << 20, false},
		{calm, busy + 1, 10 << 20, false},
		{0, busy + 1, 4 << 30, false},
		{0, 2 << 30, 4 << 30, true},
	} {
		if got := returns(x.interval, x.since, x.live); got != x.want {
			t.Errorf("%d in the interval, %d in all, %d live: %v", x.interval, x.since, x.live, got)
		}
	}
	for live, want := range map[uint64]int{0: 200, 10 << 20: 200, 192 << 20: 200, 384 << 20: 100, 768 << 20: 50, 100 << 30: 25} {
		if got := gcPercent(live); got != want {
			t.Errorf("%d live: garbage of %d %%, want %d", live, got, want)
		}
	}
	allocated, live := heap()
	if allocated == 0 || live > allocated {
		t.Errorf("%d allocated, %d live", allocated, live)
	}
}
