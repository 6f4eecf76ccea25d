package txn

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest"
)

// count increments a counter.
func count(t *testing.T, ctx context.Context, db *DB) error {
	tab := db.Table("data")
	_, err := db.Update(ctx, func(tx *Tx) error {
		n, err := strconv.Atoi("0" + value(t, tx, tab, "count", "n"))
		if err != nil {
			return err
		}
		tx.Write(tab, put("count", "n", strconv.Itoa(n+1)))
		tx.Mark(tab, []byte("count"), Mark{Kind: MarkUpdate})
		return nil
	})
	return err
}

// TestContention makes the clients of three servers increment one counter, on a store with round trips of a
// millisecond. No increment may be lost or be refused, and they may take hardly longer than one after the
// other, each of which has four round trips. The time is virtual.
func TestContention(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		ctx := t.Context()
		s := &farStore{Mem: tabletest.NewMem(), trip: time.Millisecond}
		if err := s.Create(ctx, otherSpec); err != nil {
			t.Fatal(err)
		}
		var tries atomic.Int64
		o := Options{Observe: func(Attempt) { tries.Add(1) }}
		const servers, clients, each = 3, 8, 20
		const all = servers * clients * each
		var g errgroup.Group
		begun := time.Now()
		for range servers {
			db := open(t, s, o)
			for range clients {
				g.Go(func() error {
					for range each {
						if err := count(t, ctx, db); err != nil {
							return err
						}
					}
					return nil
				})
			}
		}
		if err := g.Wait(); err != nil {
			t.Fatal(err)
		}
		took := time.Since(begun)
		t.Logf("%.0f increments a second, %.1f attempts each", all/took.Seconds(), float64(tries.Load())/all)
		if each := took / all; each > 6*time.Millisecond || tries.Load() > all*5/2 {
			t.Errorf("an increment took %v, and %.1f attempts", each, float64(tries.Load())/all)
		}
		db := open(t, s, o)
		if got := value(t, db.current.Load(), db.Table("data"), "count", "n"); got != strconv.Itoa(all) {
			t.Errorf("counted to %s, want %d", got, all)
		}
	})
}

// TestCanceledTurn checks that a transaction that is canceled while it waits for its turn leaves the queue, and that the
// next one gets the turn.
func TestCanceledTurn(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		db := open(t, newMem(), fast)
		m := place("data", []byte("count"), Mark{Kind: MarkUpdate})
		held, _, err := db.turns.take(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		cause := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		var g sync.WaitGroup
		g.Go(func() {
			if err := count(t, ctx, db); !errors.Is(err, cause) {
				t.Errorf("canceled: %v", err)
			}
		})
		synctest.Wait()
		g.Go(func() {
			if err := count(t, t.Context(), db); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		cancel(cause)
		synctest.Wait()
		db.turns.pass(held)
		g.Wait()
		if len(db.turns.queue) > 0 {
			t.Errorf("%d queues are left", len(db.turns.queue))
		}
	})
}

// TestLongTransaction checks that a transaction with long reads is not starved by short
// transactions of another server: after two attempts it places its marks before it
// reads, and the short transactions give way. One of them, which had begun before, may still pass.
func TestLongTransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		s := newMem()
		slow, f := tabletest.WithFaults(s, 1) // no faults, but calls are slow
		f.SetDelay(2 * time.Millisecond)
		o := Options{Lease: 10 * time.Second}
		long, short := open(t, slow, o), open(t, slow, o)
		var stop atomic.Bool
		var counted atomic.Int64
		var g sync.WaitGroup
		count := func(db *DB, read time.Duration) (attempts int, err error) {
			tab := db.Table("data")
			_, err = db.Update(ctx, func(tx *Tx) error {
				attempts++
				n, _ := strconv.Atoi("0" + value(t, tx, tab, "count", "n"))
				time.Sleep(read)
				tx.Write(tab, put("count", "n", strconv.Itoa(n+1)))
				tx.Mark(tab, []byte("count"), Mark{Kind: MarkUpdate})
				return nil
			})
			return attempts, err
		}
		g.Go(func() {
			for !stop.Load() {
				switch _, err := count(short, 0); {
				case err == nil:
					counted.Add(1)
				case !errors.Is(err, ErrConflict):
					t.Error(err)
					return
				}
			}
		})
		for range 5 {
			attempts, err := count(long, 500*time.Millisecond)
			if err != nil || attempts > 4 {
				t.Errorf("%d attempts, want at most %d: %v", attempts, 4, err)
			}
			counted.Add(1)
		}
		stop.Store(true)
		g.Wait()
		if err := long.CatchUp(ctx); err != nil {
			t.Fatal(err)
		}
		if got := value(t, long.current.Load(), long.Table("data"), "count", "n"); got != strconv.Itoa(int(counted.Load())) {
			t.Errorf("counted to %s, want %d", got, counted.Load())
		}
		for _, db := range []*DB{long, short} {
			if err := db.Close(ctx); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestTurnOfManyRows checks that a transaction that wants two rows is not starved in one of them if it has waited for its
// turn in the other: the reservation that it finds there is of a transaction that wants only the other row.
func TestTurnOfManyRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		slow, f := tabletest.WithFaults(newMem(), 1) // no faults, but calls are slow
		f.SetDelay(2 * time.Millisecond)
		o := Options{Lease: 10 * time.Second}
		here, there := open(t, slow, o), open(t, slow, o)
		var counted [2]atomic.Int64
		rows := []string{"count", "other"}
		count := func(db *DB, read time.Duration, which ...int) (attempts int, err error) {
			tab := db.Table("data")
			_, err = db.Update(ctx, func(tx *Tx) error {
				attempts++
				for _, i := range which {
					n, _ := strconv.Atoi("0" + value(t, tx, tab, rows[i], "n"))
					tx.Write(tab, put(rows[i], "n", strconv.Itoa(n+1)))
					tx.Mark(tab, []byte(rows[i]), Mark{Kind: MarkUpdate})
				}
				time.Sleep(read)
				return nil
			})
			for _, i := range which {
				if err == nil {
					counted[i].Add(1)
				}
			}
			return attempts, err
		}
		var stop atomic.Bool
		var g sync.WaitGroup
		always := func(db *DB, which int) {
			g.Go(func() {
				for !stop.Load() {
					if _, err := count(db, 0, which); err != nil && !errors.Is(err, ErrConflict) {
						t.Error(err)
						return
					}
				}
			})
		}
		for range 4 {
			always(here, 0)
		}
		always(there, 0)
		always(there, 1)
		time.Sleep(time.Second)
		for range 5 {
			if attempts, err := count(here, 500*time.Millisecond, 0, 1); err != nil || attempts > 5 {
				t.Errorf("%d attempts, want at most %d: %v", attempts, 5, err)
			}
		}
		stop.Store(true)
		g.Wait()
		if err := here.CatchUp(ctx); err != nil {
			t.Fatal(err)
		}
		for i, row := range rows {
			if got := value(t, here.current.Load(), here.Table("data"), row, "n"); got != strconv.FormatInt(counted[i].Load(), 10) {
				t.Errorf("%s is %s, want %d", row, got, counted[i].Load())
			}
		}
		for _, db := range []*DB{here, there} {
			if err := db.Close(ctx); err != nil {
				t.Error(err)
			}
		}
	})
}

// reserved takes the turn of a row that no transaction wants, and places its reservation.
func reserved(t *testing.T, db *DB, row string) *turn {
	t.Helper()
	m := Mark{Kind: MarkUpdate}
	held, _, err := db.turns.take(t.Context(), place("data", []byte(row), m))
	if err != nil {
		t.Fatal(err)
	}
	held.contested = true
	if met, err := db.peers.reserve(t.Context(), &attempt{turn: held, marks: []markRow{{"data", []byte(row), m}}}); met != nil || err != nil {
		t.Fatal(met, err)
	}
	return held
}

// TestStepPassesReservations checks that a server takes a step although it has a reservation. If servers want several rows, there
// is always one.
func TestStepPassesReservations(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		s := newMem()
		one, other := open(t, s, fast), open(t, s, fast)
		held := reserved(t, one, "count")
		done := make(chan struct{})
		var g errgroup.Group
		for _, db := range []*DB{one, other} {
			g.Go(func() error { return heed(db, done) })
		}
		r, err := raiseFlag(other)
		if err != nil {
			t.Fatal(err)
		}
		if err := other.AwaitStep(t.Context(), r); err != nil {
			t.Error(err)
		}
		one.turns.pass(held)
		close(done)
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
	})
}

// TestTurnAfterClose passes a turn that has a reservation while the DB is being closed, which does not wait for transactions
// between two attempts. The race detector finds that closing may wait for the end of the reservation or not.
func TestTurnAfterClose(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	db := open(t, newMem(), Options{})
	held := reserved(t, db, "count")
	var g sync.WaitGroup
	g.Go(func() {
		time.Sleep(300 * time.Millisecond)
		db.turns.pass(held)
	})
	if err := db.Close(ctx); err != nil {
		t.Error(err)
	}
	g.Wait()
}

// TestTurnWhileStuck checks that transactions that wait for their turn do not each wait as long as the one before them while the
// store does not answer.
func TestTurnWhileStuck(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		s := &stuckStore{Mem: newMem()}
		db := open(t, s, Options{})
		held, _, err := db.turns.take(t.Context(), place("data", []byte("count"), Mark{Kind: MarkUpdate}))
		if err != nil {
			t.Fatal(err)
		}
		var g sync.WaitGroup
		for range 8 {
			g.Go(func() {
				if err := count(t, t.Context(), db); !errors.Is(err, table.ErrUnavailable) || errors.Is(err, ErrUnknown) {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		s.stuck.Store(true)
		begun := time.Now()
		db.turns.pass(held)
		g.Wait()
		if took := time.Since(begun); took > 3*db.Lease() {
			t.Errorf("the last one was refused after %v", took)
		}
		s.stuck.Store(false)
		if err := count(t, t.Context(), db); err != nil {
			t.Errorf("later: %v", err)
		}
	})
}
