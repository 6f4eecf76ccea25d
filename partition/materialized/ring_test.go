package materialized

import (
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/revision"
	"github.com/seed-4dac0d86/ldapd/store/txn"
)

// TestOrder checks that every server comes first for a fair share of the tasks, and that
// if a server leaves, only its own tasks change hands.
func TestOrder(t *testing.T) {
	all := []txn.Holder{}
	for i := range 5 {
		all = append(all, txn.Holder{Slot: revision.OnlySlot + revision.Slot(i), Incarnation: uint64(10 + i)})
	}
	const tasks = 4000
	first := map[txn.Holder]int{}
	for n := range tasks {
		x := task{entry.ID{byte(n), byte(n >> 8), 7}, n % sharedLanes}
		seen := make([]int, len(all))
		for _, h := range all {
			place := x.order(h, all)
			seen[place]++
			if place == 0 {
				first[h]++
			}
		}
		for place, n := range seen {
			if n != 1 {
				t.Fatalf("%d servers have place %d for %v", n, place, x)
			}
		}
		left := all[1:]
		for _, h := range left {
			if x.order(h, all) == 0 && x.order(h, left) != 0 {
				t.Fatalf("%v loses %v although another server goes", h, x)
			}
		}
	}
	for h, n := range first {
		if n < tasks/len(all)*8/10 || n > tasks/len(all)*12/10 {
			t.Errorf("%v comes first for %d of %d tasks", h, n, tasks)
		}
	}
	if got := (task{}).order(txn.Holder{}, all); got != -1 {
		t.Errorf("a server without a slot has place %d", got)
	}
}

// TestTurn checks when a server does a task.
func TestTurn(t *testing.T) {
	r := ring{patience: 3 * time.Second, waiting: map[task]waiting{}}
	x, now := task{lane: 1}, time.Now()
	want := func(what string, place int, cell string, after time.Duration, want bool) {
		t.Helper()
		if now = now.Add(after); r.turn(x, place, []byte(cell), now) != want {
			t.Errorf("%s: %v", what, !want)
		}
	}
	want("the first server", 0, "a", 0, true)
	want("the third server", 2, "a", 0, false)
	want("the third server, too early", 2, "a", 5*time.Second, false)
	want("the third server, when nobody does it", 2, "a", time.Second, true)
	r.did(x, []byte("b"))
	want("the third server goes on", 2, "b", 0, true)
	want("the third server, after another one", 2, "c", 0, false)
	want("the third server, while others work", 2, "d", time.Minute, false)
	want("a server that cannot write", -1, "d", time.Minute, false)
}
