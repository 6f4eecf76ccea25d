package txn

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest"
)

var dataSpec = table.Spec{Name: "data", Families: []table.FamilySpec{{Name: 'a'}, {Name: 'b'}, {Name: table.MarkFamily}}}

type storeKind struct {
	name string
	make func() table.Store
}

// stores are the kinds of store that differ in how they commit.
var stores = []storeKind{
	{"local", func() table.Store { return tabletest.NewBatchMem() }},
	{"shared", func() table.Store { return newMem() }},
}

// newMem returns a store whose swaps take time. So a reading that begins after a commit
// also begins at a later time on the clock of a bubble.
func newMem() *tabletest.Mem {
	m := tabletest.NewMem()
	m.SwapTime = time.Microsecond
	return m
}

// fast are options with short durations, for tests in a bubble.
var fast = Options{Lease: 400 * time.Millisecond, Poll: 2 * time.Millisecond, InFlight: 50 * time.Millisecond}

// calm are the options of a server that must not lose its slot on a busy machine.
var calm = Options{Lease: time.Minute, Poll: fast.Poll, InFlight: fast.InFlight}

func open(t testing.TB, s table.Store, o Options) *DB {
	t.Helper()
	ctx := context.Background()
	if err := s.Create(ctx, dataSpec); err != nil {
		t.Fatal(err)
	}
	db, err := Open(ctx, s, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close(context.Background()) })
	return db
}

// bubble runs a test on a clock of its own: servers keep their leases on a busy machine,
// and waiting takes no time. The clock starts in 2026, late enough that there are valid
// revisions before it.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)))
		f(t)
	})
}

// The function "each" runs a test in a bubble on every kind of store.
func each(t *testing.T, f func(t *testing.T, db *DB)) {
	for _, s := range stores {
		t.Run(s.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) { f(t, open(t, s.make(), fast)) })
		})
	}
}

// eachLive is like each, but on the machine's clock. It is for tests whose goroutines
// must run in parallel, and for tests that measure how long work takes.
func eachLive(t *testing.T, f func(t *testing.T, db *DB)) {
	for _, s := range stores {
		t.Run(s.name, func(t *testing.T) { f(t, open(t, s.make(), calm)) })
	}
}

func put(row, q, v string) table.Mutation {
	return table.Mutation{Row: []byte(row), Cells: []table.Cell{{Family: 'a', Qualifier: []byte(q), Value: []byte(v)}}}
}

func dataWrite(ms ...table.Mutation) table.Write { return table.Write{Table: "data", Mutations: ms} }

func value(t testing.TB, r table.Reader, tab table.Table, row, q string) string {
	t.Helper()
	got, err := r.Get(context.Background(), tab, []byte(row), table.Select{Families: []table.Family{'a'}})
	if err != nil {
		t.Fatal(err)
	}
	if c := got.Find('a', []byte(q)); c != nil {
		return string(c.Value)
	}
	return ""
}

func write(t testing.TB, db *DB, row, q, v string) table.Revision {
	t.Helper()
	tab := db.Table("data")
	r, err := db.Update(context.Background(), func(tx *Tx) error {
		tx.Write(tab, put(row, q, v))
		tx.Mark(tab, []byte(row), Mark{Kind: MarkUpdate})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestSnapshotsStay(t *testing.T) {
	each(t, func(t *testing.T, db *DB) {
		tab := db.Table("data")
		first := db.Snapshot()
		defer first.Close()
		r1 := write(t, db, "x", "p", "1")
		second := db.Snapshot()
		defer second.Close()
		r2 := write(t, db, "x", "p", "2")
		third := db.Snapshot()
		defer third.Close()
		for i, c := range []struct {
			s    *Snapshot
			want string
		}{{first, ""}, {second, "1"}, {third, "2"}} {
			if got := value(t, c.s, tab, "x", "p"); got != c.want {
				t.Errorf("snapshot %d: %q, want %q", i, got, c.want)
			}
		}
		if r1 >= r2 || !third.Visible(r2) || second.Visible(r2) || first.Visible(r1) {
			t.Errorf("visibility of %d, %d", r1, r2)
		}
		past, err := db.At(context.Background(), r1)
		if err != nil {
			t.Fatal(err)
		}
		defer past.Close()
		if got := value(t, past, tab, "x", "p"); got != "1" {
			t.Errorf("at %d: %q", r1, got)
		}
		if past.Ordinal() != 0 || past.Unchanged(entry.ID{1}, 1) {
			t.Error("a past snapshot looks like a current one")
		}
		if _, err := db.At(context.Background(), third.Max()+1e9); !errors.Is(err, ErrRevision) {
			t.Errorf("a future snapshot: %v", err)
		}
	})
}

func TestOldest(t *testing.T) {
	each(t, func(t *testing.T, db *DB) {
		s := db.Snapshot()
		for i := range 200 {
			write(t, db, "x", "p", fmt.Sprint(i))
		}
		if got := db.Oldest(); got != s.Low() {
			t.Errorf("oldest %d with a snapshot of %d", got, s.Low())
		}
		low := s.Low()
		s.Close()
		if got := db.Oldest(); got <= low {
			t.Errorf("oldest %d after closing the snapshot of %d", got, low)
		}
	})
}

func TestUnchanged(t *testing.T) {
	each(t, func(t *testing.T, db *DB) {
		a, b := entry.ID{1}, entry.ID{2}
		tab := db.Table("data")
		touch := func(id entry.ID) *Snapshot {
			_, err := db.Update(context.Background(), func(tx *Tx) error {
				tx.Write(tab, put(id.String(), "p", "v"))
				tx.Touch(id)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			return db.Snapshot()
		}
		s1 := touch(a)
		defer s1.Close()
		s2 := touch(b)
		defer s2.Close()
		for i, c := range []struct {
			s     *Snapshot
			id    entry.ID
			since uint64
			want  bool
		}{
			{s2, a, s1.Ordinal(), true}, {s2, b, s1.Ordinal(), false}, {s2, b, s2.Ordinal(), true},
			{s1, a, s2.Ordinal(), false}, {s1, a, s1.Ordinal(), true}, {s1, a, 0, false},
			{s2, entry.ID{3}, s1.Ordinal(), true},
		} {
			if got := c.s.Unchanged(c.id, c.since); got != c.want {
				t.Errorf("case %d: %v", i, got)
			}
		}
	})
}

func TestMarks(t *testing.T) {
	x, del := Mark{Kind: MarkExclusive}, Mark{Kind: MarkExclusive, Deletes: true}
	u, c := Mark{Kind: MarkUpdate}, Mark{Kind: MarkChild}
	v1, v2 := Mark{Kind: MarkValue, Hash: 1}, Mark{Kind: MarkValue, Hash: 2}
	conflicts := map[[2]Mark]bool{
		{x, x}: true, {x, del}: true, {x, u}: true, {x, v1}: true, {x, c}: false,
		{del, del}: true, {del, u}: true, {del, v1}: true, {del, c}: true,
		{u, u}: true, {u, v1}: true, {u, c}: false,
		{v1, v1}: true, {v1, v2}: false, {v1, c}: false, {c, c}: false,
	}
	each(t, func(t *testing.T, db *DB) {
		for pair, want := range conflicts {
			for range 2 {
				if got := meet(t, db, pair[0], pair[1]); got != want {
					t.Errorf("%+v then %+v: conflict %v", pair[0], pair[1], got)
				}
				pair[0], pair[1] = pair[1], pair[0]
			}
		}
	})
}

// meet commits a transaction with mark a during a transaction with mark b, and reports
// whether the transaction with mark b had to run again.
func meet(t *testing.T, db *DB, a, b Mark) bool {
	tab := db.Table("data")
	ctx := context.Background()
	mark := func(tx *Tx, m Mark) error {
		tx.Write(tab, put("x", "p", "v"))
		tx.Mark(tab, []byte("x"), m)
		return nil
	}
	runs := 0
	_, err := db.Update(ctx, func(tx *Tx) error {
		if runs++; runs == 1 {
			if _, err := db.Update(ctx, func(tx *Tx) error { return mark(tx, a) }); err != nil {
				return err
			}
		}
		return mark(tx, b)
	})
	if err != nil {
		t.Fatal(err)
	}
	return runs > 1
}

func TestUpdateEnds(t *testing.T) {
	each(t, func(t *testing.T, db *DB) {
		ctx := context.Background()
		before := db.Snapshot()
		defer before.Close()
		oops := errors.New("oops")
		if _, err := db.Update(ctx, func(tx *Tx) error {
			tx.Write(db.Table("data"), put("x", "p", "v"))
			return oops
		}); err != oops {
			t.Errorf("error of fn: %v", err)
		}
		if _, err := db.Update(ctx, func(tx *Tx) error { return nil }); err != nil {
			t.Errorf("empty transaction: %v", err)
		}
		if got := value(t, before, db.Table("data"), "x", "p"); got != "" {
			t.Errorf("written by a failed transaction: %q", got)
		}
		if db.o.Attempts = 3; db.Shared() {
			db.o.Attempts = 1 // later attempts hold the turn
		}
		_, err := db.Update(ctx, func(tx *Tx) error {
			write(t, db, "x", "p", "other")
			tx.Write(db.Table("data"), put("x", "p", "v"))
			tx.Mark(db.Table("data"), []byte("x"), Mark{Kind: MarkUpdate})
			return nil
		})
		if !errors.Is(err, ErrConflict) {
			t.Errorf("always beaten: %v", err)
		}
		if _, err := db.Update(ctx, func(tx *Tx) error {
			if first, again := tx.Stamp(), tx.Stamp(); first <= tx.Snapshot().Max() || first != again {
				t.Errorf("stamps %d, %d", first, again)
			}
			tx.Write(db.Table("data"), put("y", "p", "v"))
			return nil
		}); err != nil {
			t.Error(err)
		}
	})
}

// TestCounters increments two counters concurrently. No update may be lost, and every
// snapshot must show equal counters, because they always change together.
func TestCounters(t *testing.T) {
	eachLive(t, func(t *testing.T, db *DB) {
		const workers, each = 8, 25
		var wg sync.WaitGroup
		for range workers {
			wg.Go(func() {
				for range each {
					increment(t, db)
				}
			})
		}
		stop := make(chan struct{})
		watched := make(chan struct{})
		go func() {
			defer close(watched)
			for {
				select {
				case <-stop:
					return
				default:
				}
				s := db.Snapshot()
				if a, b := number(t, s, db, "a"), number(t, s, db, "b"); a != b {
					t.Errorf("a = %d, b = %d at %d", a, b, s.Max())
				}
				s.Close()
			}
		}()
		wg.Wait()
		close(stop)
		<-watched
		s := db.Snapshot()
		defer s.Close()
		if got := number(t, s, db, "a"); got != workers*each {
			t.Errorf("%d increments of %d", got, workers*each)
		}
	})
}

func number(t testing.TB, r table.Reader, db *DB, row string) uint64 {
	if v := value(t, r, db.Table("data"), row, "n"); v != "" {
		return binary.BigEndian.Uint64([]byte(v))
	}
	return 0
}

func increment(t testing.TB, db *DB) {
	tab := db.Table("data")
	_, err := db.Update(context.Background(), func(tx *Tx) error {
		for _, row := range []string{"a", "b"} {
			n := number(t, tx, db, row) + 1
			tx.Write(tab, put(row, "n", string(binary.BigEndian.AppendUint64(nil, n))))
			tx.Mark(tab, []byte(row), Mark{Kind: MarkUpdate})
			tx.Touch(entry.ID{row[0]})
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestBulk(t *testing.T) {
	each(t, func(t *testing.T, db *DB) {
		ctx := context.Background()
		tab := db.Table("data")
		write(t, db, "row 0", "p", "before")
		for _, commit := range []bool{false, true} {
			b, err := db.Bulk(ctx, table.BulkOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for i := range 10 {
				if err := b.Write(ctx, dataWrite(put(fmt.Sprintf("row %d", i), "p", "bulk"))); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := db.Update(ctx, func(tx *Tx) error {
				tx.Write(tab, put("z", "p", "v"))
				return nil
			}); !errors.Is(err, ErrConflict) {
				t.Errorf("an update beside a load: %v", err)
			}
			s := db.Snapshot()
			if got := value(t, s, tab, "row 0", "p"); got != "before" {
				t.Errorf("before the load's end: %q", got)
			}
			s.Close()
			since := s.Ordinal()
			want := "before"
			if commit {
				want = "bulk"
				r, err := b.Commit(ctx, []byte("load"))
				if err != nil || s.Visible(r) {
					t.Fatalf("revision %d: %v", r, err)
				}
			}
			if err := b.Abort(ctx); err != nil {
				t.Fatal(err)
			}
			s = db.Snapshot()
			if got := value(t, s, tab, "row 0", "p"); got != want {
				t.Errorf("after the load: %q, want %q", got, want)
			}
			if commit && s.Unchanged(entry.ID{9}, since) {
				t.Error("unchanged by a load")
			}
			s.Close()
		}
		write(t, db, "row 0", "p", "after")
	})
}

func BenchmarkSnapshot(b *testing.B) {
	db := open(b, tabletest.NewBatchMem(), Options{})
	b.ReportAllocs()
	for b.Loop() {
		db.Snapshot().Close()
	}
}

func BenchmarkSnapshotParallel(b *testing.B) {
	db := open(b, tabletest.NewBatchMem(), Options{})
	b.ReportAllocs()
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			db.Snapshot().Close()
		}
	})
}

func BenchmarkUpdate(b *testing.B) {
	for _, s := range stores {
		b.Run(s.name, func(b *testing.B) {
			db := open(b, s.make(), Options{})
			tab := db.Table("data")
			ctx := context.Background()
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				_, err := db.Update(ctx, func(tx *Tx) error {
					for j := range 3 {
						row := binary.BigEndian.AppendUint32(nil, uint32(i+j)%1000)
						tx.Write(tab, table.Mutation{Row: row, Cells: []table.Cell{{Family: 'a', Qualifier: []byte("p"), Value: row}}})
						tx.Mark(tab, row, Mark{Kind: MarkUpdate})
					}
					return nil
				})
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestLatestIsBounded checks that the record of recent commits does not grow without end, whatever the commits touch.
func TestLatestIsBounded(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]touched{"an id": {ids: []entry.ID{{1}}}, "a key": {keys: []uint64{1}}, "nothing": {}} {
		var l latest
		for n := range uint64(latestWeight + 10) {
			l.add(c.ids, c.keys, n+1)
		}
		if n := len(l.commits); n > latestWeight {
			t.Errorf("commits that touched %s: %d are kept", what, n)
		}
	}
}
