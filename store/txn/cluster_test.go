package txn

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/journal"
	"github.com/seed-4dac0d86/ldapd/store/revision"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest"
)

// eventually waits until a condition holds. It fails the test if the condition does not
// hold in time.
func eventually(t *testing.T, what string, within time.Duration, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(within); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %v", what, within)
		}
	}
}

func writes(db *DB) bool { return db.Refusal() == nil }

// TestTwoWriters checks that each server sees the other server's commits and changed ids,
// and that the slot of a server that dies is recovered after its lease.
func TestTwoWriters(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		ctx := context.Background()
		s := newMem()
		a, b := open(t, s, fast), open(t, s, fast)
		if !writes(a) || !writes(b) {
			t.Fatal("want both to write")
		}
		before := b.Snapshot()
		defer before.Close()
		tab := a.Table("data")
		r, err := a.Update(ctx, func(tx *Tx) error {
			tx.Write(tab, put("x", "p", "1"))
			tx.Touch(entry.ID{1})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := b.CatchUp(ctx); err != nil {
			t.Fatal(err)
		}
		now := b.Snapshot()
		defer now.Close()
		if !now.Visible(r) {
			t.Error("the other has caught up and does not show the commit")
		}
		if got := value(t, now, b.Table("data"), "x", "p"); got != "1" {
			t.Errorf("the other reads %q", got)
		}
		if now.Unchanged(entry.ID{1}, before.Ordinal()) || !now.Unchanged(entry.ID{2}, before.Ordinal()) {
			t.Error("the other did not learn from the journal what changed")
		}
		if r2 := write(t, b, "x", "p", "2"); r2 <= r {
			t.Errorf("%s follows %s, which it saw", r2, r)
		}
		kill(a)
		eventually(t, "the slot is recovered", 5*fast.Lease, func() bool {
			h, err := b.log.Heads(ctx)
			return err == nil && h.Cell(1).State != revision.Open
		})
		write(t, b, "x", "p", "3")
	})
}

// TestReadOnly checks that a server opened for reading refuses updates, and shows the
// commits of another server.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		s := newMem()
		a := open(t, s, fast)
		o := fast
		o.ReadOnly = true
		b := open(t, s, o)
		if _, err := b.Update(context.Background(), func(*Tx) error { return nil }); !errors.Is(err, ErrReadOnly) || writes(b) {
			t.Errorf("update of a reader: %v", err)
		}
		r := write(t, a, "x", "p", "1")
		eventually(t, "the reader shows the commit", time.Second, func() bool {
			s := b.Snapshot()
			defer s.Close()
			return s.Visible(r)
		})
	})
}

func TestReopenAfterClose(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		s := newMem()
		var limit table.Revision
		for i := range 5 {
			db := open(t, s, fast)
			if !writes(db) {
				t.Fatalf("opening %d does not write", i)
			}
			if first := db.commits.(*cluster).writer.Load().cell.First; first <= limit {
				t.Errorf("opening %d begins at %s, the one before may have issued %s", i, first, limit)
			}
			if got := value(t, db.current.Load(), db.Table("data"), "x", "p"); i > 0 && got != fmt.Sprint(i-1) {
				t.Errorf("opening %d reads %q", i, got)
			}
			write(t, db, "x", "p", fmt.Sprint(i))
			if err := db.Close(context.Background()); err != nil {
				t.Fatal(err)
			}
			h, err := db.log.Heads(context.Background())
			if err != nil || len(h.Slots()) != 1 || h.Cell(1).State != revision.Free {
				t.Fatalf("slots %v after closing: %v", h.Slots(), err)
			}
			limit = h.Cell(1).Limit
		}
	})
}

// TestFenced recovers the slot of a living server. The server's commit must be neither
// acknowledged nor visible, and the server must claim a slot again.
func TestFenced(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		ctx := context.Background()
		s := newMem()
		db := open(t, s, fast)
		write(t, db, "x", "p", "1")
		w := db.commits.(*cluster).writer.Load()
		log := journal.New(s)
		// The server changes its cell all the time, so several attempts may be needed.
		eventually(t, "recovering the slot", 5*time.Second, func() bool {
			h, err := log.Heads(ctx)
			if err != nil {
				t.Fatal(err)
			}
			done, err := log.Recover(ctx, 1, h.Raw(1))
			return done && err == nil
		})
		w.mu.Lock()
		p, err := w.newCommit(&journal.Record{})
		w.mu.Unlock()
		if err != nil {
			t.Fatal(err)
		}
		ms := []table.Write{{Table: "data", Mutations: []table.Mutation{put("x", "p", "2")}}}
		if err = w.begin(ctx, p, ms); err == nil {
			err = w.apply(ctx, p, ms)
		}
		if err == nil {
			_, err = w.decide(ctx, p)
		}
		if err == nil {
			err = w.awaitShown(p)
		}
		if err == nil {
			t.Error("a server without a slot acknowledged a commit")
		}
		eventually(t, "the server writes again", 3*fast.Lease, func() bool { return writes(db) })
		snap := db.Snapshot()
		defer snap.Close()
		if got := value(t, snap, db.Table("data"), "x", "p"); got != "1" {
			t.Errorf("after the fence: %q", got)
		}
		write(t, db, "x", "p", "3")
	})
}

// TestOutage makes the store fail for longer than the lease. Reads must fail because the
// state is too old. Writes must report either that nothing was written or that the
// outcome is unknown.
func TestOutage(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		s, f := tabletest.WithFaults(newMem(), 1)
		db := open(t, s, fast)
		write(t, db, "x", "p", "1")
		f.SetRate(1)
		tab := db.Table("data")
		_, err := db.Update(context.Background(), func(tx *Tx) error {
			tx.Write(tab, put("x", "p", "2"))
			return nil
		})
		if !errors.Is(err, table.ErrUnavailable) && !errors.Is(err, ErrUnknown) {
			t.Errorf("update in the outage: %v", err)
		}
		eventually(t, "reads fail", 3*fast.Lease, func() bool {
			snap := db.Snapshot()
			defer snap.Close()
			_, err := snap.Get(context.Background(), tab, []byte("x"), table.Select{})
			return errors.Is(err, table.ErrUnavailable) && snap.err != nil
		})
		f.SetRate(0)
		f.Land()
		eventually(t, "the server writes again", 5*fast.Lease, func() bool { return writes(db) })
		if got := value(t, db.current.Load(), tab, "x", "p"); got != "1" {
			t.Errorf("the commit that failed left %q", got)
		}
		write(t, db, "x", "p", "3")
	})
}

// TestSlowCommit delays one commit: later commits must be shown without waiting for it.
func TestSlowCommit(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		ctx := context.Background()
		db := open(t, newMem(), fast)
		e := db.commits.(*cluster)
		w := e.writer.Load()
		w.mu.Lock()
		slow, err := w.newCommit(&journal.Record{IDs: []entry.ID{{7}}})
		w.mu.Unlock()
		if err != nil {
			t.Fatal(err)
		}
		tab := db.Table("data")
		if err := w.begin(ctx, slow, []table.Write{{Table: "data", Mutations: []table.Mutation{put("slow", "p", "v")}}}); err != nil {
			t.Fatal(err)
		}
		if err := w.apply(ctx, slow, []table.Write{{Table: "data", Mutations: []table.Mutation{put("slow", "p", "v")}}}); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		r := write(t, db, "x", "p", "1")
		if took := time.Since(start); took > 5*grace {
			t.Errorf("a commit waited %v for another one", took)
		}
		s := db.Snapshot()
		defer s.Close()
		if !s.Visible(r) || s.Visible(slow.rec.Revision) || slow.rec.Revision > r {
			t.Error("want the later commit shown and the earlier one not")
		}
		if got := value(t, s, tab, "slow", "p"); got != "" {
			t.Errorf("an undecided cell is read: %q", got)
		}
		if s.Low() >= slow.rec.Revision {
			t.Errorf("low-water mark %d above undecided %d", s.Low(), slow.rec.Revision)
		}
		if met, err := w.decide(ctx, slow); met != nil || err != nil {
			t.Fatal(err)
		}
		if err := w.awaitShown(slow); err != nil {
			t.Fatal(err)
		}
		now := db.Snapshot()
		defer now.Close()
		if got := value(t, now, tab, "slow", "p"); got != "v" {
			t.Errorf("the slow commit reads %q", got)
		}
		if now.Unchanged(entry.ID{7}, s.Ordinal()) {
			t.Error("unchanged by a commit that was shown late")
		}
		if s.Visible(slow.rec.Revision) {
			t.Error("a snapshot changed")
		}
	})
}

// TestRecoverTwice recovers one slot twice from the same bytes, as two servers at the same time
// would. The decided commit must be visible, and of the pending commit nothing may remain.
func TestRecoverTwice(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		ctx := context.Background()
		s := newMem()
		db := open(t, s, fast)
		e := db.commits.(*cluster)
		w := e.writer.Load()
		undecided := func(row string, to journal.State) table.Revision {
			w.mu.Lock()
			p, err := w.newCommit(&journal.Record{})
			w.mu.Unlock()
			ws := []table.Write{{Table: "data", Mutations: []table.Mutation{put(row, "p", "v")}}}
			if err = errors.Join(err, w.begin(ctx, p, ws), w.apply(ctx, p, ws)); err != nil {
				t.Fatal(err)
			}
			if to == journal.Committed {
				if _, err := db.log.Decide(ctx, p.rec, to); err != nil {
					t.Fatal(err)
				}
			}
			return p.rec.Revision
		}
		pending := undecided("pending", journal.Pending)
		decided := undecided("decided", journal.Committed)
		e.stop(errNotWanted)
		e.done.Wait()
		h, err := db.log.Heads(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if done, err := journal.New(s).Recover(ctx, 1, h.Raw(1)); err != nil || !done {
				// The second recovery starts from bytes that are out of date.
				if h, err = db.log.Heads(ctx); err != nil || h.Cell(1).State != revision.Closed {
					t.Fatalf("not recovered: %v", err)
				}
			}
		}
		h, err = journal.New(s).Heads(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if h.Visible(pending) || !h.Visible(decided) {
			t.Errorf("pending visible %v, decided visible %v", h.Visible(pending), h.Visible(decided))
		}
		if cells, _ := s.Cells("data", []byte("pending")); len(cells) > 0 {
			t.Error("cells of an aborted commit remain")
		}
		// A write of the dead server reaches the store after the recovery.
		if err := s.Table("data").Apply(ctx, pending, []table.Mutation{put("pending", "p", "late")}); err != nil {
			t.Fatal(err)
		}
		if row, err := s.Table("data").Get(ctx, []byte("pending"), table.Select{View: h}); err != nil || len(row.Cells) > 0 {
			t.Errorf("a late cell is read: %v %v", row, err)
		}
		if err := journal.New(s).CleanUp(ctx, 1, h.Raw(1)); err != nil {
			t.Fatal(err)
		}
		if cells, _ := s.Cells("data", []byte("pending")); len(cells) > 0 {
			t.Error("a late cell remains after the sweep")
		}
		h, err = journal.New(s).Heads(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if h.Cell(1).State != revision.Free || h.Visible(pending) || !h.Visible(decided) {
			t.Errorf("after the sweep: %s, pending visible %v, decided visible %v", h.Cell(1).State, h.Visible(pending), h.Visible(decided))
		}
	})
}

// TestNoStamp checks that a transaction is not committed if its server had no slot when
// it called Stamp, even if the server has a slot again at the commit. The positions in
// such a transaction could be above later positions.
func TestNoStamp(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		db := open(t, newMem(), fast)
		e := db.commits.(*cluster)
		_, err := db.Update(context.Background(), func(tx *Tx) error {
			w := e.writer.Swap(nil)
			tx.Stamp()
			e.writer.Store(w)
			tx.Write(db.Table("data"), put("x", "p", "1"))
			return nil
		})
		if !errors.Is(err, table.ErrUnavailable) {
			t.Errorf("committed: %v", err)
		}
		if got := value(t, db.current.Load(), db.Table("data"), "x", "p"); got != "" {
			t.Errorf("read %q", got)
		}
	})
}

// TestIdsAbovePredecessor checks that the next holder of a slot begins above all ids that
// the previous holder announced, even if the wall clock of the next holder is behind.
func TestIdsAbovePredecessor(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		s := newMem()
		ahead := fast
		ahead.Now = func() time.Time { return time.Now().Add(time.Hour) }
		a := open(t, s, ahead)
		write(t, a, "x", "p", "1")
		last, err := a.commits.stamp() // this id is above the head
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		h, err := a.log.Heads(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		b := open(t, s, fast)
		if first := b.commits.(*cluster).writer.Load().cell.First; first <= h.Cell(1).Limit || first <= last {
			t.Errorf("first %s, the predecessor's limit %s", first, h.Cell(1).Limit)
		}
		if r := write(t, b, "x", "p", "2"); r <= last {
			t.Errorf("%s after %s", r, last)
		}
		if got := value(t, b.current.Load(), b.Table("data"), "x", "p"); got != "2" {
			t.Errorf("read %q", got)
		}
	})
}

// TestLatePut makes a write of a rolled back commit reach the store late: no snapshot may
// show it, and in the end it must be removed.
func TestLatePut(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		ctx := context.Background()
		s := newMem()
		db := open(t, s, fast)
		w := db.commits.(*cluster).writer.Load()
		w.mu.Lock()
		p, err := w.newCommit(&journal.Record{})
		w.mu.Unlock()
		ms := []table.Mutation{put("late", "p", "v")}
		if err = errors.Join(err, w.begin(ctx, p, []table.Write{{Table: "data", Mutations: ms}})); err != nil {
			t.Fatal(err)
		}
		p.dirty = true
		w.rollBack(ctx, p)
		write(t, db, "x", "p", "1") // the head passes the rolled back commit
		snap := db.Snapshot()
		defer snap.Close()
		if err := s.Table("data").Apply(ctx, p.rec.Revision, ms); err != nil {
			t.Fatal(err)
		}
		if got := value(t, snap, db.Table("data"), "late", "p"); got != "" || snap.Max() < p.rec.Revision {
			t.Errorf("a rolled back write is read: %q", got)
		}
		if snap.Low() >= p.rec.Revision {
			t.Error("the low-water mark is above a revision that may have left cells")
		}
		eventually(t, "the late cell is removed", 100*fast.InFlight, func() bool {
			cells, _ := s.Cells("data", []byte("late"))
			return len(cells) == 0
		})
		eventually(t, "the exception goes", 100*fast.InFlight, func() bool {
			now := db.Snapshot()
			defer now.Close()
			return now.Low() > p.rec.Revision
		})
	})
}

// TestLoadAlone checks that a bulk load excludes other writers.
func TestLoadAlone(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		ctx := context.Background()
		s := newMem()
		a, b := open(t, s, fast), open(t, s, fast)
		if _, err := a.Bulk(ctx, table.BulkOptions{}); !errors.Is(err, ErrConflict) {
			t.Fatalf("a load beside another writer: %v", err)
		}
		write(t, a, "x", "p", "1") // after the refused load the server still writes
		if err := b.Close(ctx); err != nil {
			t.Fatal(err)
		}
		load, err := a.Bulk(ctx, table.BulkOptions{})
		if err != nil {
			t.Fatal(err)
		}
		c := open(t, s, fast)
		if writes(c) {
			t.Fatal("a second writer beside a load")
		}
		if err := load.Write(ctx, dataWrite(put("load", "p", "v"))); err != nil {
			t.Fatal(err)
		}
		r, err := load.Commit(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, "the second writes", 3*fast.Lease, func() bool { return writes(c) })
		snap := c.Snapshot()
		defer snap.Close()
		if got := value(t, snap, c.Table("data"), "load", "p"); got != "v" || !snap.Visible(r) {
			t.Errorf("the second reads %q", got)
		}
	})
}
