package account

import (
	"context"
	"iter"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// A user uses a password once, at one server, step by step. The embedded attempt makes the
// steps. The user sees the records that its server has read, and the user's own record.
type user struct{ *attempt }

func (u *user) Record(ctx context.Context) error {
	before := u.s.shown
	_, err := u.Fail(ctx, nil)
	u.s.shown = before // a server need not show what others have published meanwhile
	return err
}

func (u *user) Recorded(ctx context.Context) ([]time.Time, error) {
	all, err := u.Failures(ctx)
	if !slices.ContainsFunc(all, u.own.Equal) {
		all = append(all, u.own)
	}
	return all, err
}

// simulateUses runs the random history of uses that a seed determines, and returns how many
// uses the servers allow, and the limit.
func simulateUses(seed uint64, broken variant) (allowed, limit int) {
	r := rand.New(rand.NewPCG(seed, 2))
	w := &world{rand: r, clock: time.Unix(1_800_000_000, 0), broken: broken}
	limit = 1 + r.IntN(4)
	var running []func() (struct{}, bool)
	for range 2 + r.IntN(10) {
		s := &server{w: w, skew: time.Duration(r.IntN(2000)-1000) * time.Millisecond}
		u := &user{attempt: &attempt{s: s}}
		next, stop := iter.Pull(func(yield func(struct{}) bool) {
			u.yield = yield
			defer func() {
				if r := recover(); r != nil && r != (crashed{}) {
					panic(r)
				}
			}()
			u.step()
			all, _ := Use(context.Background(), u)
			if len(all) <= limit {
				allowed++
			}
		})
		defer stop()
		running = append(running, next)
	}
	for len(running) > 0 {
		i := r.IntN(len(running))
		if _, more := running[i](); !more || r.IntN(40) == 0 {
			running = slices.Delete(running, i, i+1)
		}
	}
	return allowed, limit
}

// TestUsesAreLimited checks that several servers together allow no more uses of a password
// than the limit, whatever the order of their steps. It also checks that they can allow more
// uses if the servers do not refresh before they count.
func TestUsesAreLimited(t *testing.T) {
	found, most := false, 0
	for seed := range uint64(20_000) {
		allowed, limit := simulateUses(seed, whole)
		if allowed > limit {
			t.Fatalf("seed %d: %d uses, %d are allowed", seed, allowed, limit)
		}
		if allowed == limit {
			most++
		}
		without, limit := simulateUses(seed, noRefresh)
		found = found || without > limit
	}
	if !found {
		t.Error("servers that do not refresh were not found")
	}
	if most == 0 {
		t.Error("no history reached its limit: the histories mean little")
	}
}
