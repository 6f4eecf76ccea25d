package account

import (
	"context"
	"flag"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

var histories = flag.Int("histories", 0, "how many histories of guesses are simulated; 0: as many as take some seconds")

// A world is a store that servers share, with the history of one account in the store.
// Everything that a server does is divided into steps. The attempt that makes the next
// step is drawn at random, so the steps of attempts interleave in many ways. The seed
// reproduces a history.
type world struct {
	rand      *rand.Rand
	published []record // records in the order of publication
	clock     time.Time
	guesses   []guess
	broken    variant
	policy    *Policy
	wrong     string // describes the first violation of a requirement, or ""
}

// A record is a failure, or the deletion of a failure.
type record struct {
	at     time.Time
	gone   bool
	unseen bool // an attempt deleted the failure without having seen it
}

// A guess is a wrong password that was verified, and the time of its failure.
type guess struct {
	at       time.Time // time of the failure; zero: no failure recorded
	answered bool
}

// A variant is an implementation that violates one requirement of the protocol.
type variant int

const (
	whole         variant = iota
	countsOlder           // counts only failures whose times are not later than the attempt's own failure
	noRefresh             // does not refresh after a reservation
	noConfirm             // does not refresh after a right password that was not reserved
	deletesAll            // deletes failures that it has not seen
	answersEarly          // answers before the failure is published
	besideTheGate         // some attempts bypass the gate
	sideBySide            // a server runs attempts concurrently
)

// A server shows the first records that were published.
type server struct {
	w     *world
	shown int // number of published records that the server shows
	skew  time.Duration
}

// visible returns the failures that s shows.
func (s *server) visible() []time.Time { return s.w.live(s.shown) }

// live returns the failures that exist after the first n records.
func (w *world) live(n int) (ts []time.Time) {
	gone := map[time.Time]bool{}
	for i := n - 1; i >= 0; i-- {
		r := w.published[i]
		if r.gone {
			gone[r.at] = true
		} else if !gone[r.at] {
			ts = append(ts, r.at)
		}
	}
	return ts
}

// An attempt is one attempt at a server. It runs step by step: the methods of its ledger
// yield before each step.
type attempt struct {
	s     *server
	right bool
	yield func(struct{}) bool
	own   time.Time
}

type crashed struct{}

func (a *attempt) step() {
	if !a.yield(struct{}{}) {
		panic(crashed{})
	}
}

func (a *attempt) Failures(context.Context) ([]time.Time, error) {
	a.step()
	all := a.s.visible()
	if a.s.w.broken == countsOlder && !a.own.IsZero() {
		all = slices.DeleteFunc(all, func(t time.Time) bool { return t.After(a.own) })
	}
	return all, nil
}

func (a *attempt) Refresh(context.Context) error {
	a.step()
	skips := a.s.w.broken == noRefresh && !a.own.IsZero() || a.s.w.broken == noConfirm && a.own.IsZero()
	if !skips {
		a.s.shown = len(a.s.w.published)
	}
	return nil
}

// Fail chooses the time of the failure first and publishes the failure later, so the
// order of publication differs from the order of times.
func (a *attempt) Fail(_ context.Context, p *Policy) (time.Time, error) {
	w := a.s.w
	at := w.clock.Add(a.s.skew + time.Duration(w.rand.IntN(1000)))
	for slices.ContainsFunc(w.published, func(r record) bool { return r.at.Equal(at) }) {
		at = at.Add(1)
	}
	a.own = at
	a.step()
	w.published = append(w.published, record{at: at})
	a.s.shown = len(w.published) // after a commit, a server shows all earlier commits
	if w.broken == noRefresh {
		a.s.shown = max(0, a.s.shown-1-w.rand.IntN(3))
	}
	return at, nil
}

func (a *attempt) Forget(failures []time.Time) {
	w := a.s.w
	if w.rand.IntN(10) == 0 {
		return // the deletion is lost
	}
	for _, t := range failures {
		w.published = append(w.published, record{at: t, gone: true})
	}
	if w.broken != deletesAll {
		return
	}
	for _, t := range w.live(len(w.published)) {
		w.published = append(w.published, record{at: t, gone: true, unseen: true})
	}
}

func (a *attempt) ByClock(failures []time.Time) []time.Time { return failures }

func (a *attempt) Now() time.Time { return a.s.w.clock.Add(a.s.skew) }

// run returns an iterator over the steps of the attempt.
func (a *attempt) run() iter.Seq[struct{}] {
	return func(yield func(struct{}) bool) {
		a.yield = yield
		defer func() {
			if r := recover(); r != nil && r != (crashed{}) {
				panic(r)
			}
		}()
		a.step()
		a.make()
	}
}

func (a *attempt) make() {
	w := a.s.w
	shown, begun := a.s.shown, len(w.published)
	guessed := -1
	verify := func(context.Context) (Match, error) {
		a.step()
		if a.right {
			return Fits, nil
		}
		w.guesses = append(w.guesses, guess{at: a.own})
		guessed = len(w.guesses) - 1
		return Mismatch, nil
	}
	nothing := func(context.Context) error { a.step(); return nil }
	answer := func() {
		if guessed >= 0 {
			w.guesses[guessed].answered = true
		}
	}
	if w.broken == besideTheGate && w.rand.IntN(4) == 0 {
		_, _ = verify(context.Background())
		answer()
		return
	}
	if w.broken == answersEarly {
		verifyOnly := verify
		verify = func(ctx context.Context) (Match, error) {
			m, err := verifyOnly(ctx)
			answer()
			if m == Mismatch && w.rand.IntN(2) == 0 {
				panic(crashed{}) // the attempt crashes before the failure is published
			}
			return m, err
		}
	}
	v, _ := w.policy.Attempt(context.Background(), a, Trial{Verify: verify, Pretend: nothing, Wait: nothing})
	if guessed >= 0 {
		w.guesses[guessed].at = a.own
	}
	if v == Right && !a.right {
		panic("a wrong password was right")
	}
	if v == Right && w.always(begun, a.own) {
		w.wrong = "a right password was let in behind a lock"
	}
	if v == Locked && a.right && !w.stoodLocked(shown, a.own) {
		w.wrong = "a right password was refused without a lock"
	}
	answer()
}

// always reports whether the account has had at least MaxFailure failures at all times since
// the number of published records was start. It does not count the failure with the time own.
func (w *world) always(start int, own time.Time) bool {
	for n := start; n <= len(w.published); n++ {
		if len(slices.DeleteFunc(w.live(n), own.Equal)) < w.policy.MaxFailure {
			return false
		}
	}
	return true
}

// stoodLocked reports whether the account has had at least MaxFailure failures at some time
// since the number of published records was start. It does not count the failure with the time
// own.
func (w *world) stoodLocked(start int, own time.Time) bool {
	for n := start; n <= len(w.published); n++ {
		if len(slices.DeleteFunc(w.live(n), own.Equal)) >= w.policy.MaxFailure {
			return true
		}
	}
	return false
}

// verified returns the number of guesses that were answered and whose failures were not
// deleted after a right password.
func (w *world) verified() (n int) {
	for _, g := range w.guesses {
		if g.answered && !slices.ContainsFunc(w.published, func(r record) bool { return r.gone && !r.unseen && r.at.Equal(g.at) }) {
			n++
		}
	}
	return n
}

// simulate runs the random history that a seed determines. The result describes the first
// violation of a requirement. It returns "" if there is none.
func simulate(seed uint64, broken variant) string {
	r := rand.New(rand.NewPCG(seed, 1))
	servers := 1 + r.IntN(8)
	m := 1 + r.IntN(6)
	w := &world{rand: r, clock: time.Unix(1_800_000_000, 0), broken: broken}
	w.policy = &Policy{Lockout: true, MaxFailure: m, LockoutStrict: r.IntN(2) == 0}
	bound := m + servers - 1
	if w.policy.LockoutStrict {
		bound = m
	}
	type running struct {
		next func() (struct{}, bool)
		stop func()
		at   *server
	}
	all := make([]*server, servers)
	for i := range all {
		all[i] = &server{w: w, skew: time.Duration(r.IntN(2000)-1000) * time.Millisecond}
	}
	var under []running
	for range 20 + r.IntN(200) {
		w.clock = w.clock.Add(time.Duration(r.IntN(100)) * time.Millisecond)
		s := all[r.IntN(servers)]
		busy := slices.ContainsFunc(under, func(u running) bool { return u.at == s })
		switch k := r.IntN(20); {
		case k == 0: // a server reads all records
			s.shown = len(w.published)
		case k == 1 && len(under) > 0: // an attempt crashes
			i := r.IntN(len(under))
			under[i].stop()
			under = slices.Delete(under, i, i+1)
		case k < 6 && (!busy || broken == sideBySide):
			a := &attempt{s: s, right: r.IntN(12) == 0}
			next, stop := iter.Pull(a.run())
			under = append(under, running{next, stop, s})
		case len(under) > 0:
			i := r.IntN(len(under))
			if _, more := under[i].next(); !more {
				under[i].stop()
				under = slices.Delete(under, i, i+1)
			}
		}
		if n := w.verified(); n > bound {
			w.wrong = fmt.Sprintf("%d guesses were verified, more than %d", n, bound)
		}
		if w.wrong != "" {
			break
		}
	}
	for _, u := range under {
		u.stop()
	}
	return w.wrong
}

// TestGuessesAreBounded checks the number of guesses that are verified. The bound is
// MaxFailure - 1 plus one for each server, and MaxFailure with LockoutStrict. Attempts
// interleave at one to eight servers. Some attempts crash, the clocks of the servers
// differ, and servers show old states.
func TestGuessesAreBounded(t *testing.T) {
	n := *histories
	if n == 0 {
		n = 20_000
	}
	for seed := range uint64(n) {
		if wrong := simulate(seed, whole); wrong != "" {
			t.Fatalf("seed %d: %s", seed, wrong)
		}
	}
}

// TestBrokenGatesAreFound checks that the simulation detects each variant.
func TestBrokenGatesAreFound(t *testing.T) {
	for name, broken := range map[string]variant{
		"counts failures of smaller revisions only": countsOlder, "does not refresh": noRefresh,
		"does not look again after a right password": noConfirm,
		"deletes what it has not seen":               deletesAll, "answers early": answersEarly,
		"beside the gate": besideTheGate, "side by side": sideBySide,
	} {
		found := false
		for seed := uint64(0); seed < 50_000 && !found; seed++ {
			found = simulate(seed, broken) != ""
		}
		if !found {
			t.Errorf("%s: not found", name)
		}
	}
}
