package accountlog

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// ahead remembers when this server first saw failures whose times are in the future. The
// time of a failure is the time of its commit, and no commit has an earlier time than the
// commits before it. So if a clock that was an hour ahead is set back, failures have times
// in the future for an hour. If a failure counted from its time in the future, the account
// would stay locked for that hour. If such failures did not count, nothing would limit
// guesses meanwhile. A failure with a time in the future therefore counts from the time when
// this server first saw the failure, even after the clock has reached the failure's time.
type ahead struct {
	accounts atomic.Int64 // len(all), which is nearly always 0
	mu       sync.Mutex
	all      map[entry.ID][]sighting
}

type sighting struct{ failure, seen time.Time }

const (
	// aheadAtLeast is how far in the future the time of a failure must be, so that ahead
	// remembers the failure. The clocks of servers differ by less, and the durations in
	// policies are whole seconds.
	aheadAtLeast = time.Second
	// maxAhead is the largest number of accounts that ahead remembers. Failures of
	// further accounts count from the times of their commits.
	maxAhead = 100_000
)

// byClock returns the time of each failure by this server's clock, in the order of the
// parameter failures. The parameter now is the present time by this clock.
func (a *ahead) byClock(id entry.ID, failures []time.Time, now time.Time) []time.Time {
	isAhead := func(t time.Time) bool { return t.Sub(now) > aheadAtLeast }
	if a.accounts.Load() == 0 && !slices.ContainsFunc(failures, isAhead) {
		return failures
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	known, times := a.all[id], slices.Clone(failures)
	for i, t := range failures {
		at := slices.IndexFunc(known, func(s sighting) bool { return s.failure.Equal(t) })
		if at < 0 && isAhead(t) {
			at, known = len(known), append(known, sighting{t, now})
		}
		if at >= 0 {
			times[i] = known[at].seen
		}
	}
	a.keep(id, known)
	return times
}

// drop forgets all failures of an account except the given ones.
func (a *ahead) drop(id entry.ID, except []time.Time) {
	if a.accounts.Load() == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.keep(id, slices.DeleteFunc(a.all[id], func(s sighting) bool { return !slices.ContainsFunc(except, s.failure.Equal) }))
}

// keep replaces what is remembered of an account.
func (a *ahead) keep(id entry.ID, known []sighting) {
	switch {
	case len(known) == 0:
		delete(a.all, id)
	case a.all == nil:
		a.all = map[entry.ID][]sighting{id: known}
	case len(a.all) < maxAhead || a.all[id] != nil:
		a.all[id] = known
	}
	a.accounts.Store(int64(len(a.all)))
}
