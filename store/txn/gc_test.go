package txn

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/store/journal"
	"github.com/seed-4dac0d86/ldapd/store/revision"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest"
)

// collectPast collects garbage until the horizon has reached r, and returns the last
// collection.
func collectPast(t testing.TB, db *DB, r table.Revision) (done Collection) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); done.Horizon < r; time.Sleep(time.Millisecond) {
		var err error
		if done, err = db.Collect(context.Background(), CollectOptions{}); err != nil {
			t.Fatal(err)
		}
		if time.Now().After(end) {
			t.Fatalf("the horizon stays at %s, below %s", done.Horizon, r)
		}
	}
	return done
}

// cellsOf counts all versions of a row's cells in a family.
func cellsOf(s table.Store, row string, f table.Family) (n int) {
	var m *tabletest.Mem
	switch s := s.(type) {
	case *tabletest.Mem:
		m = s
	case *tabletest.BatchMem:
		m = s.Mem
	}
	cells, _ := m.Cells("data", []byte(row))
	for _, c := range cells {
		if c.Family == f {
			n++
		}
	}
	return n
}

func frontierOf(t testing.TB, db *DB) revision.Frontier {
	t.Helper()
	s := db.Snapshot()
	defer s.Close()
	f, err := s.Frontier(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestCollect checks that versions that no reader can read are removed, and that their
// journal records are removed too. A state below the horizon must be refused with a
// HorizonError, but the state of a checkpoint must not.
func TestCollect(t *testing.T) {
	each(t, func(t *testing.T, db *DB) {
		ctx := context.Background()
		tab := db.Table("data")
		first := write(t, db, "x", "p", "0")
		old := frontierOf(t, db)
		var r table.Revision
		for i := range 20 {
			r = write(t, db, "x", "p", fmt.Sprint(i+1))
			if i == 9 {
				if _, err := db.Checkpoint(ctx, "ten"); err != nil {
					t.Fatal(err)
				}
			}
		}
		write(t, db, "gone", "p", "1")
		if _, err := db.Update(ctx, func(tx *Tx) error {
			tx.Write(tab, table.Mutation{Row: []byte("gone"), DeleteRow: true})
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		last := frontierOf(t, db)
		dry, err := db.Collect(ctx, CollectOptions{Dry: true})
		if err != nil || cellsOf(db.store, "x", 'a') != 21 {
			t.Fatalf("%+v, %v: %d versions", dry, err, cellsOf(db.store, "x", 'a'))
		}
		collectPast(t, db, last.Max())
		if n := cellsOf(db.store, "x", 'a'); n != 2 {
			t.Errorf("%d versions are left, want the newest and the checkpoint's", n)
		}
		if n := cellsOf(db.store, "gone", 'a'); n != 0 {
			t.Errorf("%d cells of a deleted row are left", n)
		}
		now := db.Snapshot()
		defer now.Close()
		if got := value(t, now, tab, "x", "p"); got != "20" {
			t.Errorf("now %q", got)
		}
		var below *HorizonError
		if _, err := db.At(ctx, first); !errors.As(err, &below) || !errors.Is(err, ErrRevision) || below.Horizon != db.Horizon() || below.Horizon < r {
			t.Errorf("a state below the horizon: %v", err)
		}
		c, err := db.FindCheckpoint(ctx, "ten")
		if err != nil {
			t.Fatal(err)
		}
		kept, err := db.At(ctx, c.Revision)
		if err != nil {
			t.Fatal(err)
		}
		if got := value(t, kept, tab, "x", "p"); got != "10" {
			t.Errorf("at the checkpoint %q", got)
		}
		kept.Close()
		for what, f := range map[string]revision.Frontier{"an old frontier": old, "no frontier": nil} {
			if err := db.Follows(ctx, f); !errors.Is(err, ErrForgotten) {
				t.Errorf("what follows %s: %v", what, err)
			}
			if s, err := db.AtFrontier(ctx, f); !errors.As(err, &below) {
				t.Errorf("the state at %s: %v, %v", what, s, err)
			}
		}
		if err := db.Follows(ctx, last); err != nil {
			t.Errorf("what follows the last commit: %v", err)
		}
		s, err := db.AtFrontier(ctx, last)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if got := value(t, s, tab, "x", "p"); got != "20" {
			t.Errorf("at the last frontier %q", got)
		}
		if err := db.DeleteCheckpoint(ctx, "ten"); err != nil {
			t.Fatal(err)
		}
		if done, err := db.Collect(ctx, CollectOptions{}); err != nil || !done.Whole || cellsOf(db.store, "x", 'a') != 1 {
			t.Errorf("after the checkpoint was deleted: %+v, %v; %d versions", done, err, cellsOf(db.store, "x", 'a'))
		}
	})
}

// journalRows counts the journal's rows, including the rows with chunks of write lists.
func journalRows(t testing.TB, db *DB) (n int) {
	t.Helper()
	for _, err := range db.store.Table(journal.Table).Scan(context.Background(), table.Range{}, table.Select{}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

// TestCollectLarge collects commits whose write lists have several chunks. Only the newest
// version of each row may remain.
func TestCollectLarge(t *testing.T) {
	each(t, func(t *testing.T, db *DB) {
		var r table.Revision
		for v := range 3 {
			var err error
			r, err = db.Update(context.Background(), func(tx *Tx) error {
				for i := range 2*journal.MaxRows + 100 {
					tx.Write(db.Table("data"), put(fmt.Sprint("row", i), "p", fmt.Sprint(v)))
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		write(t, db, "x", "p", "")
		collectPast(t, db, r)
		for i := range 2*journal.MaxRows + 100 {
			if n := cellsOf(db.store, fmt.Sprint("row", i), 'a'); n != 1 {
				t.Fatalf("row %d has %d versions", i, n)
			}
		}
		if n := journalRows(t, db); n > 1+4 {
			t.Errorf("%d rows of the journal are left", n)
		}
	})
}

// TestCollectConsumed checks that journal records are kept for consumers that have not
// read them.
func TestCollectConsumed(t *testing.T) {
	for _, kind := range stores {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(t *testing.T) {
				var read atomic.Uint64
				o := fast
				o.Consumed = func() table.Revision { return table.Revision(read.Load()) }
				db := open(t, kind.make(), o)
				var r table.Revision
				for i := range 10 {
					r = write(t, db, "x", "p", fmt.Sprint(i))
				}
				collectPast(t, db, r)
				if n := journalRows(t, db); n != 10 || cellsOf(db.store, "x", 'a') != 1 {
					t.Errorf("%d commits are left, and %d versions", n, cellsOf(db.store, "x", 'a'))
				}
				read.Store(uint64(r))
				collectPast(t, db, r)
				if n := journalRows(t, db); n != 1 {
					t.Errorf("%d commits are left of those that were read", n)
				}
			})
		})
	}
}

// TestCollectBesideReaders checks that states that are being read are kept, including
// states of the past that other servers read.
func TestCollectBesideReaders(t *testing.T) {
	for _, kind := range stores {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(t *testing.T) {
				ctx := context.Background()
				s := kind.make()
				db := open(t, s, fast)
				other := db
				if kind.name == "shared" {
					other = open(t, s, fast)
				}
				then := write(t, other, "x", "p", "then")
				reader, err := other.At(ctx, then)
				if err != nil {
					t.Fatal(err)
				}
				var r table.Revision
				for i := range 10 {
					r = write(t, db, "x", "p", fmt.Sprint(i))
				}
				if err := other.CatchUp(ctx); err != nil {
					t.Fatal(err)
				}
				for range 3 {
					if _, err := db.Collect(ctx, CollectOptions{}); err != nil {
						t.Fatal(err)
					}
				}
				if got := value(t, reader, other.Table("data"), "x", "p"); got != "then" {
					t.Errorf("a reader of the past reads %q", got)
				}
				if other.Horizon() > then {
					t.Errorf("the horizon %s has passed a reader at %s", other.Horizon(), then)
				}
				reader.Close()
				collectPast(t, db, r)
				if n := cellsOf(s, "x", 'a'); n != 1 {
					t.Errorf("%d versions are left after the reader has gone", n)
				}
				if _, err := other.At(ctx, then); !errors.Is(err, ErrRevision) {
					t.Errorf("the past can still be read: %v", err)
				}
			})
		})
	}
}

// TestCollectYoung checks that collections remove the history of secrets and the marks
// while other families keep their history.
func TestCollectYoung(t *testing.T) {
	for _, kind := range stores {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(t *testing.T) {
				o := fast
				o.Secrets, o.SecretAge, o.Collect = map[string][]table.Family{"data": {'b'}}, time.Millisecond, true
				s := kind.make()
				db := open(t, s, o)
				tab := db.Table("data")
				for i := range 10 {
					if _, err := db.Update(context.Background(), func(tx *Tx) error {
						m := put("x", "p", fmt.Sprint(i))
						m.Cells = append(m.Cells, table.Cell{Family: 'b', Qualifier: []byte("s"), Value: fmt.Append(nil, i)})
						tx.Write(tab, m)
						tx.Mark(tab, m.Row, Mark{Kind: MarkUpdate})
						return nil
					}); err != nil {
						t.Fatal(err)
					}
				}
				eventually(t, "secrets have no history, and marks are gone", 20*time.Second, func() bool {
					return cellsOf(s, "x", 'b') == 1 && cellsOf(s, "x", table.MarkFamily) <= 1
				})
				if n := cellsOf(s, "x", 'a'); n != 10 {
					t.Errorf("of the rest %d versions are left", n)
				}
			})
		})
	}
}

// TestCollectByTheNext checks that the server with the lowest slot collects, and that
// another server collects after the first one has died.
func TestCollectByTheNext(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		o := fast
		o.Collect, o.Retention = true, 20*time.Millisecond
		s := newMem()
		a, b := open(t, s, o), open(t, s, o)
		few := func() bool { return cellsOf(s, "x", 'a') <= 2 && journalRows(t, b) <= 6 }
		for i := range 10 {
			write(t, b, "x", "p", fmt.Sprint(i))
		}
		eventually(t, "the first collects", 20*time.Second, few)
		if one, err := b.horizon.bounds(context.Background()); err != nil || one.leader {
			t.Errorf("both collect: %v", err)
		}
		kill(a)
		for i := range 10 {
			write(t, b, "x", "p", fmt.Sprint(i))
		}
		eventually(t, "the second collects", 20*time.Second, few)
	})
}

// TestCollectWithoutSlot checks that snapshots of a read-only server expire when they
// are below the horizon. Other servers do not wait for a read-only server before they
// raise the horizon, so such a snapshot could otherwise show an incomplete state.
func TestCollectWithoutSlot(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		ctx := context.Background()
		s := newMem()
		db := open(t, s, fast)
		o := fast
		// Poll is long, so that the server learns of the horizon too late.
		o.ReadOnly, o.Poll = true, time.Hour
		reader := open(t, s, o)
		then := write(t, db, "x", "p", "then")
		if err := reader.CatchUp(ctx); err != nil {
			t.Fatal(err)
		}
		past, err := reader.At(ctx, then)
		if err != nil {
			t.Fatal(err)
		}
		defer past.Close()
		collectPast(t, db, write(t, db, "x", "p", "now"))
		goesOn := func() {
			t.Helper()
			var below *HorizonError
			if _, err := past.Get(ctx, reader.Table("data"), []byte("x"), table.Select{}); !errors.As(err, &below) {
				t.Errorf("it goes on reading: %v", err)
			}
		}
		goesOn()
		if err := reader.CatchUp(ctx); err != nil {
			t.Fatal(err)
		}
		goesOn()
		now := reader.Snapshot()
		defer now.Close()
		if got := value(t, now, reader.Table("data"), "x", "p"); got != "now" {
			t.Errorf("the newest state has %q", got)
		}
	})
}

// TestCollectFrontOfSilent checks that the state at a frontier can be read although the
// last commit of one slot is older than the horizon.
func TestCollectFrontOfSilent(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		ctx := context.Background()
		s := newMem()
		a, b := open(t, s, fast), open(t, s, fast)
		write(t, a, "x", "p", "silent since")
		if err := b.CatchUp(ctx); err != nil {
			t.Fatal(err)
		}
		var r table.Revision
		for i := range 5 {
			r = write(t, b, "y", "p", fmt.Sprint(i))
		}
		f := frontierOf(t, b)
		collectPast(t, b, r)
		for name, db := range map[string]*DB{"a": a, "b": b} {
			if err := db.CatchUp(ctx); err != nil {
				t.Fatal(err)
			}
			if err := db.Follows(ctx, f); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			at, err := db.AtFrontier(ctx, f)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if got := value(t, at, db.Table("data"), "x", "p") + value(t, at, db.Table("data"), "y", "p"); got != "silent since4" {
				t.Errorf("%s reads %q", name, got)
			}
			at.Close()
		}
	})
}

// TestCollectAfterLoad checks that the rows that a load wrote over are collected, and that no
// other rows are examined.
func TestCollectAfterLoad(t *testing.T) {
	each(t, func(t *testing.T, db *DB) {
		ctx := context.Background()
		write(t, db, "x", "p", "before")
		load, err := db.Bulk(ctx, table.BulkOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := load.Write(ctx, dataWrite(put("x", "p", "loaded"), put("y", "p", "loaded"))); err != nil {
			t.Fatal(err)
		}
		r, err := load.Commit(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		if c := collectPast(t, db, r); c.Whole {
			t.Errorf("%d rows were examined", c.Rows)
		}
		if n := cellsOf(db.store, "x", 'a'); n != 1 {
			t.Errorf("%d versions are left", n)
		}
		s := db.Snapshot()
		defer s.Close()
		if got := value(t, s, db.Table("data"), "x", "p") + value(t, s, db.Table("data"), "y", "p"); got != "loadedloaded" {
			t.Errorf("%q", got)
		}
	})
}

// TestCollectCrash interrupts collections, each at another of the first 40 calls of the store.
// It checks that the next collection completes the interrupted one.
func TestCollectCrash(t *testing.T) {
	for _, kind := range stores {
		for at := 1; at <= 40; at++ {
			t.Run(fmt.Sprintf("%s/%d", kind.name, at), func(t *testing.T) {
				t.Parallel()
				bubble(t, func(t *testing.T) {
					ctx := context.Background()
					mem := kind.make()
					faulty, faults := tabletest.WithFaults(mem, uint64(at))
					db := open(t, faulty, fast)
					var r table.Revision
					for i := range 12 {
						r = write(t, db, fmt.Sprint("row", i%3), "p", fmt.Sprint(i))
					}
					faults.CrashAt(at)
					_, _ = db.Collect(ctx, CollectOptions{}) // Collect fails at the crash
					again := open(t, mem, fast)
					collectPast(t, again, r)
					s := again.Snapshot()
					defer s.Close()
					for i := range 3 {
						row := fmt.Sprint("row", i)
						if got, want := value(t, s, again.Table("data"), row, "p"), fmt.Sprint(9+i); got != want || cellsOf(mem, row, 'a') != 1 {
							t.Errorf("%s has %q, want %q; %d versions", row, got, want, cellsOf(mem, row, 'a'))
						}
					}
				})
			})
		}
	}
}

// TestCollectAlways runs writers, readers of the past, collections, and creation and
// deletion of checkpoints, all at the same time. A snapshot must read the same state
// until it is closed.
func TestCollectAlways(t *testing.T) {
	for _, kind := range stores {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			s := kind.make()
			dbs := []*DB{open(t, s, calm)}
			if kind.name == "shared" {
				dbs = append(dbs, open(t, s, calm), open(t, s, calm))
			}
			stop := time.Now().Add(1500 * time.Millisecond)
			var wg sync.WaitGroup
			for i, db := range dbs {
				for role := range 4 {
					rnd := rand.New(rand.NewPCG(uint64(i), uint64(role)))
					wg.Go(func() {
						for n := 0; time.Now().Before(stop) && !t.Failed(); n++ {
							mixed(t, db, rnd, role, n)
						}
					})
				}
			}
			wg.Wait()
		})
	}
}

// mixed performs one operation of a role: role 0 writes, role 1 collects garbage, role 2
// sometimes creates or deletes a checkpoint, and role 3 reads a state twice.
func mixed(t *testing.T, db *DB, rnd *rand.Rand, role, n int) {
	ctx := context.Background()
	row := func() string { return fmt.Sprint("row", rnd.IntN(5)) }
	switch role {
	case 0:
		m := put(row(), fmt.Sprint(rnd.IntN(3)), fmt.Sprint(n))
		m.DeleteRow = rnd.IntN(5) == 0
		m.Cells[0].Tombstone = rnd.IntN(4) == 0
		_, err := db.Update(ctx, func(tx *Tx) error {
			tx.Write(db.Table("data"), m)
			tx.Mark(db.Table("data"), m.Row, Mark{Kind: MarkUpdate})
			return nil
		})
		if err != nil && !errors.Is(err, ErrConflict) {
			t.Errorf("writing: %v", err)
		}
	case 1:
		if _, err := db.Collect(ctx, CollectOptions{Retention: time.Duration(rnd.IntN(20)) * time.Millisecond}); err != nil {
			t.Errorf("collecting: %v", err)
		}
	case 2:
		checkpointNowAndThen(t, db, rnd)
	default:
		readTwice(t, db, rnd)
	}
}

func checkpointNowAndThen(t *testing.T, db *DB, rnd *rand.Rand) {
	ctx := context.Background()
	name := fmt.Sprint("c", rnd.IntN(3))
	switch rnd.IntN(8) {
	case 0:
		if _, err := db.Checkpoint(ctx, name); err != nil && !errors.Is(err, ErrCheckpointExists) && !errors.Is(err, ErrRevision) && !errors.Is(err, ErrConflict) {
			t.Errorf("making a checkpoint: %v", err)
		}
	case 1:
		if err := db.DeleteCheckpoint(ctx, name); err != nil && !errors.Is(err, ErrCheckpoint) {
			t.Errorf("deleting a checkpoint: %v", err)
		}
	}
	time.Sleep(time.Millisecond)
}

// readTwice reads a state, waits while other goroutines write and collect, and reads the
// state again.
func readTwice(t *testing.T, db *DB, rnd *rand.Rand) {
	ctx := context.Background()
	now := db.Snapshot()
	defer now.Close()
	s := now
	if rnd.IntN(2) == 0 {
		past, err := db.At(ctx, revision.At(now.Max().Time().Add(-time.Duration(rnd.IntN(20))*time.Millisecond)))
		if err != nil {
			if !errors.Is(err, ErrRevision) {
				t.Errorf("the past: %v", err)
			}
			return
		}
		defer past.Close()
		s = past
	}
	read := func() string {
		rows, err := s.GetMany(ctx, db.Table("data"), [][]byte{[]byte("row0"), []byte("row1"), []byte("row2"), []byte("row3"), []byte("row4")},
			table.Select{Families: []table.Family{'a'}})
		if err != nil {
			t.Errorf("reading: %v", err)
		}
		return fmt.Sprint(rows)
	}
	before := read()
	time.Sleep(time.Duration(rnd.IntN(30)) * time.Millisecond)
	if after := read(); after != before {
		t.Errorf("the state at %s changed\nfrom %s\nto   %s", s.Max(), before, after)
	}
}

// TestDryBudget checks that a dry collection with a budget ends when the budget is
// exhausted, counts less than a complete dry collection, and removes nothing.
func TestDryBudget(t *testing.T) {
	eachLive(t, func(t *testing.T, db *DB) {
		ctx := context.Background()
		for i := range passCommits + 100 {
			write(t, db, fmt.Sprint("x", i%3), "p", fmt.Sprint(i))
		}
		all := dry(t, db, passCommits, CollectOptions{Dry: true})
		part, err := db.Collect(ctx, CollectOptions{Dry: true, Budget: 1})
		if err != nil || !part.Partial || part.Commits >= all.Commits || part.Rows == 0 {
			t.Errorf("part: %+v %v; all: %+v", part, err, all)
		}
		if again := dry(t, db, passCommits, CollectOptions{Dry: true, Budget: time.Hour}); again.Partial || again.Removed.Cells < all.Removed.Cells {
			t.Errorf("with time enough: %+v; all: %+v", again, all)
		}
	})
}

// dry repeats a dry collection until it counts more than n commits.
func dry(t *testing.T, db *DB, n int, o CollectOptions) (done Collection) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); done.Commits <= n; time.Sleep(time.Millisecond) {
		var err error
		if done, err = db.Collect(context.Background(), o); err != nil || time.Now().After(end) {
			t.Fatalf("%+v %v", done, err)
		}
	}
	return done
}
