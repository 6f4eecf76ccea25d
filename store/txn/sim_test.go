package txn

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/store/journal"
	"github.com/seed-4dac0d86/ldapd/store/revision"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest"
)

// A world is a store that outlives its servers, and a record of the answers to the
// transactions that clients sent.
type world struct {
	t     *testing.T
	store table.Store         // the store without injected faults
	mem   *tabletest.Mem      // nil if the store is not in memory
	batch *tabletest.BatchMem // nil if the store commits no batches
	rnd   *rand.Rand
	o     Options
	// revisions returns every revision that has a cell in a versioned table.
	revisions func() []table.Revision
	patience  time.Duration // bounds the wait until a server can write, or slots are free

	mu    sync.Mutex
	acked map[int]table.Revision
	maybe map[int]bool
	next  int
}

var otherSpec = table.Spec{Name: "other", Families: dataSpec.Families}

// newWorld returns a world whose store is in memory.
func newWorld(t *testing.T, batch bool, seed uint64) *world {
	var w *world
	if batch {
		b := tabletest.NewBatchMem()
		w = worldOf(t, b, seed)
		w.batch, w.mem = b, b.Mem
	} else {
		m := tabletest.NewMem()
		w = worldOf(t, m, seed)
		w.mem = m
	}
	w.revisions = w.mem.Revisions
	return w
}

// worldOf returns a world with a store, in which it creates the tables of the tests. The
// caller sets revisions, and the fields for stores in memory.
func worldOf(t *testing.T, s table.Store, seed uint64) *world {
	w := &world{
		t: t, store: s, rnd: rand.New(rand.NewPCG(seed, 1)),
		acked: map[int]table.Revision{}, maybe: map[int]bool{},
		o:        Options{Lease: 150 * time.Millisecond, Poll: time.Millisecond, InFlight: 150 * time.Millisecond},
		patience: 10 * time.Second,
	}
	if err := s.Create(context.Background(), dataSpec, otherSpec); err != nil {
		t.Fatal(err)
	}
	return w
}

// open opens the store repeatedly until this server can write or crashes, or w.patience ends.
func (w *world) open(s table.Store, crashed func() bool) *DB {
	w.t.Helper()
	return w.openAs(s, w.o, crashed)
}

func (w *world) openAs(s table.Store, o Options, crashed func() bool) *DB {
	w.t.Helper()
	end := time.Now().Add(w.patience)
	for {
		db, err := Open(context.Background(), s, o)
		if err == nil {
			for time.Now().Before(end) && !crashed() {
				if db.Refusal() == nil {
					return db
				}
				time.Sleep(time.Millisecond)
			}
			kill(db)
		}
		if late := time.Now().After(end); late || crashed() {
			if late {
				w.t.Error("nobody could write for", w.patience)
			}
			return nil
		}
	}
}

func never() bool { return false }

// kill ends a server like SIGKILL: it releases nothing.
func kill(db *DB) {
	if e, ok := db.commits.(*cluster); ok {
		e.stop(errors.New("killed"))
		e.done.Wait()
	}
}

// transact appends a number to a list, counts the numbers, writes a new row into each of
// two tables, and records the answer.
func (w *world) transact(db *DB) {
	w.mu.Lock()
	n := w.next
	w.next++
	w.mu.Unlock()
	data, other := db.Table("data"), db.Table("other")
	var reads error
	r, err := db.Update(context.Background(), func(tx *Tx) error {
		list, err := get(tx, data, "list")
		if err != nil {
			reads = err
			return err
		}
		count := len(strings.Fields(list))
		id := strconv.Itoa(n)
		tx.Write(data, put("list", "v", list+" "+id), put("count", "v", strconv.Itoa(count+1)), put("row "+id, "v", id))
		tx.Write(other, put("row "+id, "v", id))
		tx.Mark(data, []byte("list"), Mark{Kind: MarkUpdate})
		tx.Mark(other, []byte("row "+id), Mark{Kind: MarkExclusive})
		return nil
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case err == nil:
		w.acked[n] = r
	case reads == nil && errors.Is(err, ErrUnknown):
		w.maybe[n] = true
	}
}

func get(r table.Reader, t table.Table, row string) (string, error) {
	got, err := r.Get(context.Background(), t, []byte(row), table.Select{Families: []table.Family{'a'}})
	if err != nil || len(got.Cells) == 0 {
		return "", err
	}
	return string(got.Cells[0].Value), nil
}

// check compares the content of the store with the recorded answers.
func (w *world) check(db *DB) string {
	w.t.Helper()
	s := db.Snapshot()
	for end := time.Now().Add(w.patience); s.err != nil && time.Now().Before(end); s = db.Snapshot() {
		s.Close() // a busy machine kept the server from polling
		time.Sleep(time.Millisecond)
	}
	defer s.Close()
	data, other := db.Table("data"), db.Table("other")
	list, err := get(s, data, "list")
	if err != nil {
		w.t.Fatal(err)
	}
	count, _ := get(s, data, "count")
	var in []int
	for _, f := range strings.Fields(list) {
		n, _ := strconv.Atoi(f)
		in = append(in, n)
	}
	if count != strconv.Itoa(len(in)) && len(in) > 0 {
		w.t.Errorf("%d in the list, %s counted: a commit is not whole", len(in), count)
	}
	for n := range w.next {
		has := slices.Contains(in, n)
		_, acked := w.acked[n]
		switch {
		case acked && !has:
			w.t.Errorf("transaction %d was acknowledged at %d and is lost; list %v", n, w.acked[n], in)
		case has && !acked && !w.maybe[n]:
			w.t.Errorf("transaction %d failed and is there", n)
		}
		for _, tab := range []table.Table{data, other} {
			if v, _ := get(s, tab, fmt.Sprintf("row %d", n)); (v != "") != has {
				w.t.Errorf("transaction %d: in the list %v, in %s %q", n, has, tab.Name(), v)
			}
		}
	}
	slices.Sort(in)
	if len(slices.Compact(in)) != len(in) {
		w.t.Errorf("twice in the list: %v", in)
	}
	return list
}

// life runs a server on a faulty store until its transactions are done or the server
// crashes at the given call.
func (w *world) life(seed uint64, rate float64, crashAt, workers, each int) (calls int, crashed bool) {
	s, f := tabletest.WithFaults(w.store, seed)
	f.SetRate(rate)
	f.CrashAt(crashAt)
	db := w.open(s, f.Crashed)
	if db != nil {
		var wg sync.WaitGroup
		for range workers {
			wg.Go(func() {
				for range each {
					w.transact(db)
				}
			})
		}
		wg.Wait()
		if crashAt == 0 || w.rnd.IntN(4) == 0 && !f.Crashed() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			db.Close(ctx)
			cancel()
		}
		kill(db)
	}
	f.SetRate(0)
	if w.batch != nil {
		w.batch.Crash(w.rnd.IntN(3))
	}
	// Calls in flight reach the store before the next server starts or while that server
	// recovers.
	if w.rnd.IntN(2) == 0 {
		f.Land()
	} else {
		time.AfterFunc(time.Duration(w.rnd.IntN(int(w.o.InFlight))), f.Land)
	}
	return f.Calls(), f.Crashed()
}

// finish opens the store without faults and checks it, twice, because a second recovery
// must change nothing. After that every cell must belong to a commit.
func (w *world) finish() {
	w.t.Helper()
	db := w.open(w.store, never)
	if db == nil {
		return
	}
	first := w.check(db)
	kill(db)
	if db = w.open(w.store, never); db == nil {
		return
	}
	defer db.Close(context.Background())
	if again := w.check(db); again != first {
		w.t.Errorf("recovered to %q, then to %q", first, again)
	}
	w.transact(db)
	w.check(db)
	w.swept(db)
}

// swept waits until all slots of dead servers are free, and then checks that every cell
// belongs to a commit.
func (w *world) swept(db *DB) {
	w.t.Helper()
	ctx := context.Background()
	if w.batch == nil {
		end := time.Now().Add(w.patience)
		for !w.allFree(db) {
			if time.Now().After(end) {
				w.t.Error("slots were not freed for", w.patience)
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	h, err := db.log.Heads(ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, r := range w.revisions() {
		rec, err := db.log.Get(ctx, r)
		if err != nil || rec.State != journal.Committed {
			w.t.Errorf("cells of %s, whose state is %q (%v)", r, rec.State, err)
		}
		if w.batch == nil && !h.Visible(r) {
			w.t.Errorf("cells of %s, which nobody sees", r)
		}
	}
}

func (w *world) allFree(db *DB) bool {
	h, err := db.log.Heads(context.Background())
	if err != nil {
		return false
	}
	own := revision.Slot(0)
	if w := db.commits.(*cluster).writer.Load(); w != nil {
		own = w.slot
	}
	for _, s := range h.Slots() {
		if s != own && h.Cell(s).State != revision.Free {
			return false
		}
	}
	return true
}

// TestCrashAnywhere crashes a server at every call that the server makes to its store.
// Afterwards the store must contain the acknowledged transactions, each completely and once.
func TestCrashAnywhere(t *testing.T) {
	for _, batch := range []bool{true, false} {
		t.Run(fmt.Sprintf("batch=%v", batch), func(t *testing.T) {
			clean := newWorld(t, batch, 0)
			calls, _ := clean.life(0, 0, 0, 1, 4)
			for n := 1; n <= calls; n++ {
				t.Run(strconv.Itoa(n), func(t *testing.T) {
					t.Parallel()
					w := newWorld(t, batch, uint64(n))
					w.life(0, 0, 0, 1, 2)
					w.life(uint64(n), 0, n, 1, 4)
					w.life(uint64(n), 0, 0, 1, 1)
					w.finish()
				})
			}
		})
	}
}

// TestFaults runs several clients on failing stores, with occasional crashes. Afterwards the
// store must contain the acknowledged transactions, each completely and once.
func TestFaults(t *testing.T) {
	for _, batch := range []bool{true, false} {
		for seed := range uint64(12) {
			t.Run(fmt.Sprintf("batch=%v/%d", batch, seed), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, batch, seed)
				for life := range uint64(3) {
					w.life(100*seed+life, 0.04, 20+w.rnd.IntN(150), 3, 6)
				}
				w.finish()
			})
		}
	}
}

// TestBulkCrash ends a server in the middle of a load: the next server must remove the
// cells of the load.
func TestBulkCrash(t *testing.T) {
	for _, batch := range []bool{true, false} {
		t.Run(fmt.Sprintf("batch=%v", batch), func(t *testing.T) {
			t.Parallel()
			ctx := context.Background()
			w := newWorld(t, batch, 1)
			db := w.open(w.store, never)
			w.transact(db)
			b, err := db.Bulk(ctx, table.BulkOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for i := range 20 {
				if err := b.Write(ctx, dataWrite(put(fmt.Sprintf("bulk %d", i), "v", "v"))); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(2 * grace) // the head passes the load in this time
			kill(db)
			w.finish()
			if cells, _ := w.mem.Cells("data", []byte("bulk 7")); len(cells) > 0 {
				t.Error("cells of the load remain")
			}
		})
	}
}
