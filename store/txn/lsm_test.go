package txn

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/lsm"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

func openLSM(t testing.TB, dir string) table.Store {
	t.Helper()
	s, err := lsm.Open(lsm.Options{Path: dir})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestLSM commits, loads in bulk and reopens the store on the embedded engine. It checks that
// no commit is lost, and that only a committed load is visible.
func TestLSM(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	dir := t.TempDir()
	const workers, each = 4, 10
	for life := range 3 {
		s := openLSM(t, dir)
		if err := s.Create(ctx, dataSpec); err != nil {
			t.Fatal(err)
		}
		db, err := Open(ctx, s, Options{})
		if err != nil {
			t.Fatal(err)
		}
		snap := db.Snapshot()
		if got := number(t, snap, db, "a"); got != uint64(life*workers*each) {
			t.Errorf("life %d begins with %d", life, got)
		}
		snap.Close()
		var wg sync.WaitGroup
		for range workers {
			wg.Go(func() {
				for range each {
					increment(t, db)
				}
			})
		}
		wg.Wait()
		before := db.Snapshot()
		b, err := db.Bulk(ctx, table.BulkOptions{})
		if err != nil {
			t.Fatal(err)
		}
		tab := db.Table("data")
		for i := range 100 {
			if err := b.Write(ctx, dataWrite(put(fmt.Sprintf("bulk %d", i), "p", fmt.Sprint(life)))); err != nil {
				t.Fatal(err)
			}
		}
		if life == 1 {
			if err := b.Abort(ctx); err != nil {
				t.Fatal(err)
			}
		} else if _, err := b.Commit(ctx, []byte("load")); err != nil {
			t.Fatal(err)
		}
		after := db.Snapshot()
		want := [2]string{[]string{"", "0", "0"}[life], []string{"0", "0", "2"}[life]}
		if got := [2]string{value(t, before, tab, "bulk 7", "p"), value(t, after, tab, "bulk 7", "p")}; got != want {
			t.Errorf("life %d: before and after the load %q, want %q", life, got, want)
		}
		before.Close()
		after.Close()
		if life != 0 { // the first life ends without closing the DB
			if err := db.Close(ctx); err != nil {
				t.Error(err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCollectLoadLSM checks what a collection examines after a load on the embedded engine: only
// the rows that the load wrote over, or all rows if these are too many to list.
func TestCollectLoadLSM(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for _, c := range []struct {
		name          string
		keySize, over int
		whole         bool
	}{
		{"few", 20, 3, false},
		{"none", 20, 0, false},
		{"many", 3000, 6000, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := openLSM(t, t.TempDir())
			defer s.Close()
			if err := s.Create(ctx, dataSpec); err != nil {
				t.Fatal(err)
			}
			db := open(t, s, calm)
			key := func(i int) string { return fmt.Sprintf("%0*d", c.keySize, i) }
			load := func(from, to int) table.Revision {
				b, err := db.Bulk(ctx, table.BulkOptions{})
				if err != nil {
					t.Fatal(err)
				}
				for i := from; i < to; i++ {
					if err := b.Write(ctx, dataWrite(put(key(i), "p", fmt.Sprint(from)))); err != nil {
						t.Fatal(err)
					}
				}
				r, err := b.Commit(ctx, nil)
				if err != nil {
					t.Fatal(err)
				}
				return r
			}
			rows := max(1000, c.over)
			collectPast(t, db, load(0, rows)) // writes over nothing
			got := collectPast(t, db, load(rows-c.over, rows+100))
			if got.Whole != c.whole || !c.whole && got.Rows != c.over || got.Removed.Cells != int64(c.over) {
				t.Errorf("%+v, want %d versions removed, all rows examined: %t", got, c.over, c.whole)
			}
		})
	}
}

func BenchmarkLSM(b *testing.B) {
	ctx := context.Background()
	s := openLSM(b, b.TempDir())
	if err := s.Create(ctx, dataSpec); err != nil {
		b.Fatal(err)
	}
	db, err := Open(ctx, s, Options{})
	if err != nil {
		b.Fatal(err)
	}
	tab := db.Table("data")
	row := []byte("row")
	write(b, db, "row", "p", "v")
	b.Run("get", func(b *testing.B) {
		sel := table.Select{Families: []table.Family{'a'}}
		b.ReportAllocs()
		for b.Loop() {
			s := db.Snapshot()
			if _, err := s.Get(ctx, tab, row, sel); err != nil {
				b.Fatal(err)
			}
			s.Close()
		}
	})
	b.Run("update", func(b *testing.B) {
		b.SetParallelism(8)
		b.ReportAllocs()
		b.RunParallel(func(p *testing.PB) {
			for p.Next() {
				id := entry.NewID()
				if _, err := db.Update(ctx, func(tx *Tx) error {
					for range 3 {
						tx.Write(tab, put(id.String(), "p", "v"))
					}
					tx.Mark(tab, id[:], Mark{Kind: MarkExclusive})
					tx.Touch(id)
					return nil
				}); err != nil {
					b.Error(err)
				}
			}
		})
	})
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
}
