package txn

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest"
)

// touch commits a change of n things.
func touch(t testing.TB, db *DB, n int) table.Revision {
	t.Helper()
	r, err := db.Update(context.Background(), func(tx *Tx) error {
		tx.Write(db.Table("data"), put("x", "q", "v"))
		for range n {
			tx.Touch(entry.NewID())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A numbered commit is a commit with the number of its last change.
type numberedCommit struct {
	r    table.Revision
	last uint64
}

// checkNumbers checks, at every boundary, the numbers of commits that have the numbers after
// begin.
func checkNumbers(t testing.TB, db *DB, begin uint64, all []numberedCommit) {
	t.Helper()
	checkSteps(t, db, 1, begin, all)
}

// checkServers does the same at one of several servers, and at the others at every seventh boundary, as each of them reads the
// same commits and marks.
func checkServers(t testing.TB, dbs []*DB, begin uint64, all []numberedCommit) {
	t.Helper()
	for i, db := range dbs {
		step := 1
		if i > 0 {
			step = 7
		}
		checkSteps(t, db, step, begin, all)
	}
}

func checkSteps(t testing.TB, db *DB, step int, begin uint64, all []numberedCommit) {
	t.Helper()
	ctx := context.Background()
	if err := db.CatchUp(ctx); err != nil {
		t.Fatal(err)
	}
	for db.decided() < all[len(all)-1].r {
		time.Sleep(time.Millisecond)
	}
	before := begin
	for i := 0; i < len(all); i += step {
		c := all[len(all)-1-i] // the last first, so that a new server has no marks yet
		if n, err := db.NumberAt(ctx, c.r); err != nil || n != c.last {
			t.Fatalf("commit %d has the last number %d, want %d (%v)", len(all)-i, n, c.last, err)
		}
	}
	for i, c := range all {
		if c.last == before {
			continue
		}
		if i%step > 0 {
			before = c.last
			continue
		}
		for _, n := range []uint64{before, c.last - 1} {
			at, err := db.NumberedAfter(ctx, n)
			if err != nil || at.Number != before || at.Revision >= c.r {
				t.Fatalf("number %d is after %v (%v), want in commit %d, after %d", n+1, at, err, i, before)
			}
		}
		before = c.last
	}
}

func (db *DB) decided() table.Revision {
	_, last := db.Bounds()
	return last
}

// TestNumbers checks that all servers of a store count the same, whichever of them wrote the
// marks, also after a restart and after collections.
func TestNumbers(t *testing.T) {
	for _, s := range stores {
		t.Run(s.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				ctx := context.Background()
				store := s.make()
				dbs := []*DB{open(t, store, fast)}
				if dbs[0].Shared() {
					dbs = append(dbs, open(t, store, fast), open(t, store, fast))
				}
				var all []numberedCommit
				n, begin := uint64(0), uint64(0)
				add := func(commits int) {
					for i := range commits {
						weight := i * 7 % 5 // commits of hot attributes have weight 0
						n += uint64(weight)
						time.Sleep(time.Millisecond) // no two commits at the same time
						all = append(all, numberedCommit{touch(t, dbs[i%len(dbs)], weight), n})
					}
				}
				add(3*markEvery + 100)
				checkServers(t, dbs, 0, all)
				if marks, err := dbs[0].log.Marks(ctx, 0, all[len(all)-1].r); err != nil || len(marks) < 3 {
					t.Fatalf("marks %v (%v), want at least 3", marks, err)
				}
				// Collections end between two marks, and one has not looked at numbers before.
				for i, upTo := range []int{markEvery + 37, markEvery + 1} {
					collector := dbs[i%len(dbs)]
					done, err := collector.Collect(ctx, CollectOptions{Retention: collector.o.Now().Sub(all[upTo].r.Time())})
					if err != nil || done.Commits == 0 {
						t.Fatalf("%+v, %v: want commits removed", done, err)
					}
					for all[0].r <= collector.Horizon() {
						begin, all = all[0].last, all[1:]
					}
					checkServers(t, dbs, begin, all)
				}
				// Below the first mark, counting begins at the first mark.
				if at, err := dbs[0].NumberedAfter(ctx, 0); err != nil || at.Number != begin {
					t.Errorf("the first number that is kept is after %v (%v), want %d", at, err, begin)
				}
				for i, db := range dbs {
					if err := db.Close(ctx); err != nil {
						t.Fatal(err)
					}
					dbs[i] = open(t, store, fast)
				}
				checkNumbers(t, dbs[0], begin, all)
				add(50)
				o := fast
				o.ReadOnly = true
				checkServers(t, append(dbs, open(t, store, o)), begin, all)
			})
		})
	}
}

// TestNumbersBegin checks that a server that only reads does not begin to count, and that
// a collection does not either.
func TestNumbersBegin(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ctx := context.Background()
		store := newMem()
		db := open(t, store, fast)
		old := touch(t, db, 2)
		collectPast(t, db, old)
		next := touch(t, db, 3)
		o := fast
		o.ReadOnly = true
		if n, err := open(t, store, o).NumberAt(ctx, next); !errors.Is(err, ErrReadOnly) {
			t.Errorf("read-only: %d, %v", n, err)
		}
		if m, err := db.log.FirstMark(ctx); m != nil || err != nil {
			t.Errorf("counting has begun at %v (%v)", m, err)
		}
		checkNumbers(t, db, 0, []numberedCommit{{next, 3}})
	})
}

// TestNumbersWhileCollecting counts while other servers collect and commit.
func TestNumbersWhileCollecting(t *testing.T) {
	ctx := context.Background()
	store := tabletest.NewMem()
	dbs := []*DB{open(t, store, calm), open(t, store, calm)}
	if _, err := dbs[0].NumberAt(ctx, 0); err != nil {
		t.Fatal(err)
	}
	var all []numberedCommit
	var wg sync.WaitGroup
	end := make(chan struct{})
	wg.Go(func() {
		for {
			select {
			case <-end:
				return
			default:
			}
			if _, err := dbs[1].Collect(ctx, CollectOptions{Retention: 20 * time.Millisecond}); err != nil {
				t.Error(err)
			}
		}
	})
	for i := range 300 {
		all = append(all, numberedCommit{touch(t, dbs[0], 1), uint64(i + 1)})
		r := all[max(0, len(all)-20)]
		horizon := dbs[0].Horizon()
		if n, err := dbs[0].NumberAt(ctx, r.r); err != nil || n != r.last && r.r > horizon && r.r > dbs[0].Horizon() && r.r <= dbs[0].decided() {
			t.Fatalf("commit %d has number %d (%v)", r.last, n, err)
		}
	}
	close(end)
	wg.Wait()
	checkNumbers(t, dbs[1], all[290].last, all[291:])
}
