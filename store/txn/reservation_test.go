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

	"github.com/seed-4dac0d86/ldapd/store/table/tabletest"
)

// TestLongTransaction checks that a transaction with long reads is not starved by short
// transactions of another server: after reserveAfter attempts it places its marks before it
// reads, and the short transactions give way.
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
			if err != nil || attempts > reserveAfter+1 {
				t.Errorf("%d attempts, want at most %d: %v", attempts, reserveAfter+1, err)
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
