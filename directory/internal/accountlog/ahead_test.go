package accountlog

import (
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/directory/account"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// TestClockSetBack guesses at an account after a clock that was an hour ahead has been set
// back. In the first hour, all failures then have times in the future. The failures must lock
// the account as often and for as long as with a clock that was never wrong.
func TestClockSetBack(t *testing.T) {
	p := &account.Policy{Lockout: true, MaxFailure: 3, LockoutDuration: 300 * time.Second, FailureCountInterval: 900 * time.Second}
	start := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	guesses := func(wrong time.Duration) (all []int) {
		var a ahead
		var failures []time.Time
		for second := range 2 * 3600 {
			now := start.Add(time.Duration(second) * time.Second)
			a.drop(entry.ID{1}, failures)
			lock := p.Lock(a.byClock(entry.ID{1}, failures, now), now)
			if lock.Refuses(now) {
				continue
			}
			all = append(all, second)
			stamp := now
			if ahead := start.Add(wrong); now.Before(ahead) { // no commit has a time before that of an earlier commit
				stamp = ahead.Add(time.Duration(len(all)))
			}
			failures = append(failures, stamp)
			a.byClock(entry.ID{1}, failures[len(failures)-1:], now)
		}
		return all
	}
	right, wrong := guesses(0), guesses(time.Hour)
	if len(right) < 60 || len(right) != len(wrong) {
		t.Fatalf("%d guesses by a clock that is right, %d by one that was set back", len(right), len(wrong))
	}
	for i := range right {
		if right[i] != wrong[i] {
			t.Errorf("guess %d: after %d s by a clock that is right, after %d s by one that was set back", i, right[i], wrong[i])
		}
	}
}

// TestAheadIsForgotten checks that ahead remembers no failure that was deleted, and no
// failure whose time is at most aheadAtLeast in the future.
func TestAheadIsForgotten(t *testing.T) {
	var a ahead
	now := time.Now()
	times := []time.Time{now.Add(-time.Hour), now.Add(time.Hour), now.Add(aheadAtLeast)}
	got := a.byClock(entry.ID{1}, times, now)
	if !got[0].Equal(times[0]) || !got[1].Equal(now) || !got[2].Equal(times[2]) {
		t.Errorf("%v", got)
	}
	if got := a.byClock(entry.ID{1}, times[1:2], now.Add(time.Minute)); !got[0].Equal(now) {
		t.Errorf("seen again: %v", got)
	}
	if got := a.byClock(entry.ID{1}, times[1:2], now.Add(2*time.Hour)); !got[0].Equal(now) {
		t.Errorf("when its time has come: %v", got)
	}
	a.drop(entry.ID{1}, times[:1])
	if len(a.all) != 0 || a.accounts.Load() != 0 {
		t.Errorf("%v is remembered", a.all)
	}
}
