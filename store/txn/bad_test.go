package txn

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/seed-4dac0d86/ldapd/store/journal"
	"github.com/seed-4dac0d86/ldapd/store/revision"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest"
)

// set writes one cell of one row in a transaction.
func set(db *DB, row, v string) (table.Revision, error) {
	tab := db.Table("data")
	return db.Update(context.Background(), func(tx *Tx) error {
		tx.Write(tab, put(row, "p", v))
		tx.Mark(tab, []byte(row), Mark{Kind: MarkUpdate})
		return nil
	})
}

// TestClaimAtOnce checks that servers that start at the same time claim different slots.
func TestClaimAtOnce(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		s := newMem()
		if err := s.Create(context.Background(), dataSpec); err != nil {
			t.Fatal(err)
		}
		var g errgroup.Group
		var mu sync.Mutex
		slots := map[revision.Slot]int{}
		for i := range 8 {
			g.Go(func() error {
				db := open(t, s, fast)
				eventually(t, "it writes", 10*time.Second, func() bool { return writes(db) })
				r, err := set(db, fmt.Sprint("row ", i), "v")
				mu.Lock()
				defer mu.Unlock()
				slots[revision.SlotOf(r)]++
				return err
			})
		}
		if err := g.Wait(); err != nil || len(slots) != 8 {
			t.Errorf("slots %v: %v", slots, err)
		}
	})
}

// TestGarbageInHeads checks that a server neither reads nor writes while the heads row
// cannot be decoded. After the row is repaired, the server continues and shows everything
// that was acknowledged.
func TestGarbageInHeads(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for name, c := range map[string]struct {
		garbage []byte
		want    error
	}{
		// The first byte is the version of the encoding, and no version is as high as 'n'.
		"garbage": {[]byte("not a cell"), table.ErrNewer},
		"cut":     {(&revision.Cell{State: revision.Open, Incarnation: 1}).Append(nil)[:5], table.ErrCorrupt},
		"newer":   {append([]byte{250}, (&revision.Cell{}).Append(nil)[1:]...), table.ErrNewer},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(t *testing.T) {
				s := newMem()
				db := open(t, s, fast)
				if _, err := set(db, "x", "1"); err != nil {
					t.Fatal(err)
				}
				cluster := s.Table(journal.Cluster)
				cell := table.Cell{Family: 'c', Qualifier: []byte{0, 99}, Value: c.garbage}
				if ok, err := cluster.Swap(ctx, []byte("heads"), 'c', cell.Qualifier, nil, []table.Cell{cell}); !ok || err != nil {
					t.Fatal(ok, err)
				}
				if _, err := Open(ctx, s, fast); !errors.Is(err, c.want) || !strings.Contains(err.Error(), "slot 99") {
					t.Errorf("opening it: %v", err)
				}
				eventually(t, "reads fail", 5*fast.Lease, func() bool {
					snap := db.Snapshot()
					defer snap.Close()
					return snap.err != nil
				})
				if _, err := set(db, "x", "2"); !errors.Is(err, table.ErrUnavailable) {
					t.Errorf("writing: %v", err)
				}
				cell.Tombstone, cell.Value = true, nil
				if ok, err := cluster.Swap(ctx, []byte("heads"), 'c', cell.Qualifier, c.garbage, []table.Cell{cell}); !ok || err != nil {
					t.Fatal(ok, err)
				}
				eventually(t, "it writes again", 10*time.Second, func() bool { return writes(db) })
				snap := db.Snapshot()
				defer snap.Close()
				if got := value(t, snap, db.Table("data"), "x", "p"); got != "1" {
					t.Errorf("read %q", got)
				}
			})
		})
	}
}

// TestNewerJournal checks that a commit is refused if it finds a mark of another commit whose
// journal record has a newer format. This server cannot read the state of that commit from the
// record.
func TestNewerJournal(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		ctx := context.Background()
		s := newMem()
		db := open(t, s, fast)
		r := revision.Make(revision.Millis(revision.At(time.Now()))+1000, 77, 0)
		state := table.Cell{Family: 'j', Qualifier: []byte("s"), Value: []byte("\x63P and what is to come")}
		if ok, err := s.Table(journal.Table).Swap(ctx, journal.Key(r), 'j', state.Qualifier, nil, []table.Cell{state}); !ok || err != nil {
			t.Fatal(ok, err)
		}
		mark := table.Mutation{Row: []byte("x"), Cells: []table.Cell{markCell(Mark{Kind: MarkUpdate}, 77, 0)}}
		if err := s.Table("data").Apply(ctx, r, []table.Mutation{mark}); err != nil {
			t.Fatal(err)
		}
		if _, err := set(db, "x", "1"); !errors.Is(err, table.ErrNewer) {
			t.Errorf("a commit that meets it: %v", err)
		}
		if _, err := set(db, "y", "1"); err != nil {
			t.Errorf("another one: %v", err)
		}
		snap := db.Snapshot()
		defer snap.Close()
		if got := value(t, snap, db.Table("data"), "x", "p"); got != "" {
			t.Errorf("refused, and reads %q", got)
		}
	})
}

// swapTimeout returns an error from one swap. If done is set, the store executes that swap
// before the error is returned.
type swapTimeout struct {
	table.Store
	in   atomic.Int64 // number of swaps up to and including the failing one
	done bool
}

type swapTimeoutTable struct {
	table.Table
	s *swapTimeout
}

func (s *swapTimeout) Table(name string) table.Table {
	return swapTimeoutTable{s.Store.Table(name), s}
}

func (t swapTimeoutTable) Versions(ctx context.Context, rows [][]byte, f table.Family, after table.Revision) ([]table.Row, error) {
	return t.Table.(table.Versioner).Versions(ctx, rows, f, after)
}

func (t swapTimeoutTable) Swap(ctx context.Context, row []byte, f table.Family, q, old []byte, cells []table.Cell) (bool, error) {
	if t.s.in.Add(-1) != 0 {
		return t.Table.Swap(ctx, row, f, q, old, cells)
	}
	if t.s.done {
		if _, err := t.Table.Swap(ctx, row, f, q, old, cells); err != nil {
			return false, err
		}
	}
	return false, fmt.Errorf("%w: timeout", table.ErrUnavailable)
}

// TestTimeouts makes one swap fail without an answer during three commits. Each trial makes a
// different swap fail. The server then reads the cell again, so the commits must succeed
// whether or not the swap was executed.
func TestTimeouts(t *testing.T) {
	t.Parallel()
	for _, done := range []bool{true, false} {
		for n := range int64(6) {
			t.Run(fmt.Sprintf("done=%v/%d", done, n), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					s := &swapTimeout{Store: newMem(), done: done}
					db := open(t, s, Options{})
					s.in.Store(n + 1)
					for i := range 3 {
						if _, err := set(db, "x", fmt.Sprint(i)); err != nil {
							t.Errorf("commit %d: %v", i, err)
						}
					}
					snap := db.Snapshot()
					if got := value(t, snap, db.Table("data"), "x", "p"); got != "2" {
						t.Errorf("read %q", got)
					}
					snap.Close()
					if s.in.Load() > 0 {
						t.Error("there was no such swap")
					}
				})
			})
		}
	}
}

// timed is a store in which the cells of the cluster table have timestamps of the store's
// clock.
type timed struct{ table.Store }

type timedTable struct{ table.Table }

func (s timed) Table(name string) table.Table {
	if name == journal.Cluster {
		return timedTable{s.Store.Table(name)}
	}
	return s.Store.Table(name)
}

func (t timedTable) Get(ctx context.Context, row []byte, s table.Select) (table.Row, error) {
	r, err := t.Table.Get(ctx, row, s)
	for i := range r.Cells {
		r.Cells[i].Revision = table.Revision(virtualTime().UnixMilli())
	}
	return r, err
}

// TestClockAhead checks that a server whose clock is an hour ahead commits nothing,
// returns the reason, and does not advance the ids of other servers. When its clock is
// right again, the server continues to commit.
func TestClockAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := timed{newMem()}
		var ahead atomic.Int64
		o := Options{Now: func() time.Time { return virtualTime().Add(time.Duration(ahead.Load())) }}
		ahead.Store(int64(time.Hour))
		db := open(t, s, o)
		refused := func() {
			t.Helper()
			_, err := set(db, "x", "no")
			if !errors.Is(err, table.ErrUnavailable) || !strings.Contains(err.Error(), "ahead of the store's") {
				t.Errorf("a commit ahead: %v", err)
			}
		}
		refused()
		ahead.Store(0)
		eventually(t, "it writes", time.Minute, func() bool { return writes(db) })
		first, err := set(db, "x", "1")
		if err != nil {
			t.Fatal(err)
		}
		ahead.Store(int64(time.Hour))
		refused()
		time.Sleep(time.Minute) // the server renews its lease in this time
		refused()
		other := open(t, s, Options{Now: virtualTime})
		r, err := set(other, "y", "1")
		if lead := r.Time().Sub(virtualTime()); err != nil || lead > 2*time.Minute {
			t.Errorf("the other's commit leads by %v: %v", lead, err)
		}
		ahead.Store(int64(-time.Hour)) // then the clock is set back too far
		time.Sleep(time.Millisecond)   // so that CatchUp reads the heads again
		if err := db.CatchUp(context.Background()); err != nil {
			t.Fatal(err)
		}
		second, err := set(db, "x", "2")
		if err != nil || second <= first || second <= r {
			t.Errorf("%s after %s and %s: %v", second, first, r, err)
		}
	})
}

// TestIdle checks that an idle server reads the heads only once per idlePoll. Nevertheless, a
// snapshot that is requested after an idle time must show a commit that was made more than
// Options.Poll ago.
func TestIdle(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newMem()
		counting, f := tabletest.WithFaults(s, 1)
		writer, idle := open(t, s, Options{}), open(t, counting, Options{ReadOnly: true})
		time.Sleep(time.Minute)
		before := f.Calls()
		time.Sleep(time.Minute)
		// If a reading finds that the writer has renewed its lease, the server scans for
		// commits in one more call.
		if calls := f.Calls() - before; calls > 130 {
			t.Errorf("%d calls in a minute of idleness", calls)
		}
		r, err := set(writer, "x", "1")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * idle.o.Poll)
		snap := idle.Snapshot()
		defer snap.Close()
		if !snap.Visible(r) {
			t.Error("a snapshot is older than an interval of polling")
		}
	})
}
