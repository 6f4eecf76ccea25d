package txn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/journal"
	"github.com/seed-4dac0d86/ldapd/store/revision"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// commits returns the commits that the newest state shows, except those that the given
// frontier covers.
func commits(t testing.TB, db *DB, after revision.Frontier) (rs []table.Revision) {
	t.Helper()
	s := db.Snapshot()
	defer s.Close()
	for rec, err := range s.Commits(context.Background(), after) {
		if err != nil {
			t.Fatal(err)
		}
		rs = append(rs, rec.Revision)
	}
	return rs
}

func frontier(t testing.TB, s *Snapshot) revision.Frontier {
	t.Helper()
	f, err := s.Frontier(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestFeed(t *testing.T) {
	each(t, func(t *testing.T, db *DB) {
		ctx, tab := context.Background(), db.Table("data")
		var wrote []table.Revision
		for i := range 5 {
			next := db.Next()
			wrote = append(wrote, write(t, db, "x", "p", fmt.Sprint(i)))
			<-next // if the channel is not closed, the test hangs
		}
		if got := commits(t, db, nil); !slices.Equal(got, wrote) {
			t.Errorf("all commits are %v, want %v", got, wrote)
		}
		s := db.Snapshot()
		defer s.Close()
		whole := frontier(t, s)
		if !slices.Equal(whole, revision.Frontier{wrote[4]}) || len(commits(t, db, whole)) != 0 {
			t.Errorf("frontier %v, last commit %v", whole, wrote[4])
		}
		for i, r := range wrote {
			f := revision.Frontier{r}
			if got := commits(t, db, f); !slices.Equal(got, wrote[i+1:]) {
				t.Errorf("beyond %v: %v", r, got)
			}
			past, err := db.AtFrontier(ctx, f)
			if err != nil {
				t.Fatal(err)
			}
			if got := value(t, past, tab, "x", "p"); got != fmt.Sprint(i) {
				t.Errorf("at %v: %q, want %d", r, got, i)
			}
			if got := frontier(t, past); !slices.Equal(got, f) {
				t.Errorf("the frontier of the state at %v is %v", f, got)
			}
			past.Close()
			if err := db.Follows(ctx, f); err != nil {
				t.Error(err)
			}
		}
		gone, cancel := context.WithCancel(ctx)
		cancel()
		if _, err := db.AtFrontier(gone, whole.With(wrote[4]+1<<40)); !errors.Is(err, context.Canceled) {
			t.Errorf("a frontier that is not reached: %v", err)
		}
		for r, want := range map[table.Revision]error{wrote[4] + 1<<23: ErrForeign, wrote[2] | 255: ErrForeign, wrote[0] - 1<<23: ErrForgotten} {
			if err := db.Follows(ctx, revision.Frontier{r}); !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", r, err, want)
			}
		}
	})
}

// TestFeedOfSlots checks that the commits of several writers are streamed in the order of
// their ids, and that the state at a frontier of one slot shows only that slot's commits.
func TestFeedOfSlots(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ctx, store := context.Background(), newMem()
		db := open(t, store, fast)
		first := write(t, db, "x", "p", "first")
		own := write(t, db, "x", "p", "own")
		other := revision.Make(revision.Millis(first), 7, 200)
		for other <= first {
			other += 1 << 23
		}
		commitAs(t, db, 7, other)
		eventually(t, "the other's commit is shown", time.Minute, func() bool { return len(commits(t, db, nil)) == 3 })
		want := []table.Revision{first, own, other}
		slices.Sort(want)
		if got := commits(t, db, nil); !slices.Equal(got, want) {
			t.Errorf("commits %v, want %v", got, want)
		}
		if got := commits(t, db, revision.Frontier{own}); !slices.Equal(got, []table.Revision{other}) {
			t.Errorf("beyond the own ones: %v, want %v, which came late", got, other)
		}
		past, err := db.AtFrontier(ctx, revision.Frontier{own})
		if err != nil {
			t.Fatal(err)
		}
		defer past.Close()
		if past.Visible(other) || !past.Visible(own) || past.Low() >= other && other < own {
			t.Errorf("at %v: other visible %v, own visible %v, low %v", own, past.Visible(other), past.Visible(own), past.Low())
		}
	})
}

// commitAs makes a commit without cells in another server's slot.
func commitAs(t *testing.T, db *DB, slot revision.Slot, r table.Revision) {
	t.Helper()
	ctx := context.Background()
	rec := &journal.Record{Revision: r, Prio: r, Token: 1, IDs: []entry.ID{{1}}}
	if err := db.log.Begin(ctx, rec); err != nil {
		t.Fatal(err)
	}
	if s, err := db.log.Decide(ctx, rec, journal.Committed); err != nil || s != journal.Committed {
		t.Fatal(s, err)
	}
	c := revision.Cell{State: revision.Closed, Incarnation: 1, Token: 1, Sequence: 1, First: r - 1, Head: r}
	if done, _, err := db.log.SwapHead(ctx, slot, nil, c.Append(nil)); !done || err != nil {
		t.Fatal(done, err)
	}
}

func TestAtCommit(t *testing.T) {
	each(t, func(t *testing.T, db *DB) {
		tab := db.Table("data")
		r, err := db.Update(context.Background(), func(tx *Tx) error {
			v := []byte("        ")
			tx.Write(tab, table.Mutation{Row: []byte("x"), Cells: []table.Cell{{Family: 'a', Qualifier: []byte("p"), Value: v}}})
			tx.AtCommit(func(r table.Revision) { copy(v, fmt.Sprintf("%08x", uint32(r))) })
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		s := db.Snapshot()
		defer s.Close()
		if got, want := value(t, s, tab, "x", "p"), fmt.Sprintf("%08x", uint32(r)); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	})
}
