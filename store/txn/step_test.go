package txn

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/seed-4dac0d86/ldapd/store/pause"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest"
)

// flagged returns the revision of the commit that wrote the flag, or 0 if the flag is not
// set. The flag represents a step.
func flagged(t table.Table, r table.Reader) (table.Revision, error) {
	row, err := r.Get(context.Background(), t, []byte("flag"), table.Select{})
	if err != nil || len(row.Cells) == 0 {
		return 0, err
	}
	return row.Cells[0].Revision, nil
}

// heed makes a server follow the flag, as a partition follows its configuration.
func heed(db *DB, done <-chan struct{}) error {
	for tab, known := db.Table("data"), table.Revision(0); ; {
		next := db.Next()
		s := db.Snapshot()
		r, err := flagged(tab, s)
		if err == nil && r != known {
			db.SetStep(r, s.Ordinal())
			known = r
		}
		s.Close()
		if err != nil && !errors.Is(err, table.ErrUnavailable) {
			return err
		}
		select {
		case <-next:
		case <-done:
			return nil
		}
	}
}

func raiseFlag(db *DB) (table.Revision, error) {
	tab := db.Table("data")
	return db.Update(context.Background(), func(tx *Tx) error {
		tx.Write(tab, put("flag", "v", "1"))
		tx.Mark(tab, []byte("flag"), Mark{Kind: MarkExclusive})
		return nil
	})
}

// TestStep makes three servers write rows of one kind until they see the flag. A snapshot
// after the step must show all of these rows, even if a server dies.
func TestStep(t *testing.T) {
	t.Parallel()
	for _, dies := range []bool{false, true} {
		t.Run("dies="+strconv.FormatBool(dies), func(t *testing.T) {
			t.Parallel()
			o := fast
			o.Lease = 5 * time.Second // no server loses its slot on a busy machine
			store := newMem()
			dbs := []*DB{open(t, store, o), open(t, store, o), open(t, store, o)}
			done := make(chan struct{})
			var g errgroup.Group
			var wrote, unflagged atomic.Int64
			for _, db := range dbs {
				g.Go(func() error { return heed(db, done) })
				for range 3 {
					g.Go(func() error { return writeUnflagged(db, done, &wrote, &unflagged) })
				}
			}
			eventually(t, "rows are written", 10*time.Second, func() bool { return unflagged.Load() > 30 })
			r, err := raiseFlag(dbs[0])
			if err != nil {
				t.Fatal(err)
			}
			if dies {
				w := dbs[2].commits.(*cluster).writer.Load()
				kill(dbs[2])
				w.giveUp(errors.New("killed")) // ends the waits for commits
			}
			if err := dbs[0].AwaitStep(context.Background(), r); err != nil {
				t.Fatal(err)
			}
			then := unflaggedRows(t, dbs[0])
			before := wrote.Load()
			eventually(t, "transactions go on", 10*time.Second, func() bool { return wrote.Load() > before+30 })
			close(done)
			if err := g.Wait(); err != nil {
				t.Fatal(err)
			}
			if now := unflaggedRows(t, dbs[0]); now != then {
				t.Errorf("%d rows behind the step, %d later", then, now)
			}
		})
	}
}

// writeUnflagged writes rows with the prefix "row " until it sees the flag, and rows with
// another prefix after that.
func writeUnflagged(db *DB, done <-chan struct{}, wrote, unflagged *atomic.Int64) error {
	tab := db.Table("data")
	for {
		select {
		case <-done:
			return nil
		default:
		}
		n := strconv.FormatInt(wrote.Add(1), 10)
		_, err := db.Update(context.Background(), func(tx *Tx) error {
			r, err := flagged(tab, tx)
			if err != nil {
				return err
			}
			row := "row " + n
			if r != 0 {
				row = "fine " + n
			} else {
				unflagged.Add(1)
			}
			tx.Write(tab, put(row, "v", "1"))
			tx.Mark(tab, []byte(row), Mark{Kind: MarkExclusive})
			return nil
		})
		switch {
		case err == nil:
		case errors.Is(err, table.ErrUnavailable), errors.Is(err, ErrUnknown), errors.Is(err, ErrConflict):
			if err := pause.For(context.Background(), db.o.Poll); err != nil {
				return err
			}
		case strings.Contains(err.Error(), "killed"):
			return nil
		default:
			return err
		}
	}
}

// unflaggedRows counts the rows written without the flag.
func unflaggedRows(t *testing.T, db *DB) (n int) {
	t.Helper()
	s := db.Snapshot()
	defer s.Close()
	for _, err := range s.Scan(context.Background(), db.Table("data"), table.Prefix([]byte("row ")), table.Select{}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

// TestStepWaits checks that a step waits for transactions that began before it and for
// their commits, but no longer than stepPatience.
func TestStepWaits(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		ctx := context.Background()
		store := newMem()
		o := fast
		o.Lease = time.Second // AwaitStep waits for four leases
		a, b := open(t, store, o), open(t, store, o)
		tab := b.Table("data")
		held, release := make(chan struct{}), make(chan struct{})
		var once sync.Once // the function may run more than once
		var g errgroup.Group
		g.Go(func() error {
			_, err := b.Update(ctx, func(tx *Tx) error {
				once.Do(func() { close(held) })
				<-release
				tx.Write(tab, put("row 1", "v", "1"))
				tx.Mark(tab, []byte("row 1"), Mark{Kind: MarkExclusive})
				return nil
			})
			return err
		})
		<-held
		r, err := raiseFlag(a)
		if err != nil {
			t.Fatal(err)
		}
		stepTo(t, a)
		if err := b.CatchUp(ctx); err != nil {
			t.Fatal(err)
		}
		stepTo(t, b)
		err = a.AwaitStep(ctx, r)
		if !errors.Is(err, ErrConflict) || !strings.Contains(err.Error(), b.o.Owner) {
			t.Fatalf("the transaction was not waited for: %v", err)
		}
		close(release)
		if err := a.AwaitStep(ctx, r); err != nil {
			t.Fatal(err)
		}
		if n := unflaggedRows(t, a); n != 1 {
			t.Errorf("%d rows behind the step, want 1", n)
		}
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
		if err := a.AwaitReaders(ctx, r); err != nil {
			t.Error(err)
		}
	})
}

// stepTo makes a server's new transactions work by the step that the server's newest
// state shows.
func stepTo(t *testing.T, db *DB) {
	t.Helper()
	s := db.Snapshot()
	defer s.Close()
	r, err := flagged(db.Table("data"), s)
	if err != nil || r == 0 {
		t.Fatalf("no flag is shown: %v", err)
	}
	db.SetStep(r, s.Ordinal())
}

// TestHolder checks that Over distinguishes a server that ended from servers that
// continue.
func TestHolder(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		store := newMem()
		a, b := open(t, store, fast), open(t, store, fast)
		if err := a.CatchUp(context.Background()); err != nil {
			t.Fatal(err)
		}
		ha, hb := a.Holder(), b.Holder()
		if ha == hb || a.Over(ha) || a.Over(hb) {
			t.Fatalf("%v and %v are there", ha, hb)
		}
		kill(b)
		eventually(t, "it is over", 10*fast.Lease, func() bool { return a.Over(hb) })
		if a.Over(ha) {
			t.Error("so is that of another one")
		}
		only := open(t, tabletest.NewBatchMem(), fast)
		if only.Shared() || only.Holder() != (Holder{}) || !only.Over(Holder{}) {
			t.Error("one server is shared")
		}
		if _, err := only.Fill(1); err == nil {
			t.Error("one server fills beside others")
		}
	})
}

// TestFill checks that cells written by other writers during a Fill hide the cells that
// the Fill writes.
func TestFill(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		ctx := context.Background()
		store := newMem()
		a, b := open(t, store, fast), open(t, store, fast)
		r := write(t, a, "begin", "v", "1")
		if err := b.CatchUp(ctx); err != nil {
			t.Fatal(err)
		}
		f, err := a.Fill(r)
		if err != nil {
			t.Fatal(err)
		}
		tab := b.Table("data")
		if _, err := b.Update(ctx, func(tx *Tx) error {
			tx.Write(tab, table.Mutation{Row: []byte("x"), Cells: []table.Cell{{Family: 'a', Qualifier: []byte("gone"), Tombstone: true}}})
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		for _, q := range []string{"gone", "stays"} {
			if err := f.Write(ctx, dataWrite(put("x", q, "1"))); err != nil {
				t.Fatal(err)
			}
		}
		f.Close()
		if err := a.CatchUp(ctx); err != nil {
			t.Fatal(err)
		}
		s := a.Snapshot()
		defer s.Close()
		if got := value(t, s, tab, "x", "gone") + "," + value(t, s, tab, "x", "stays"); got != ",1" {
			t.Errorf("reads %q", got)
		}
	})
}
