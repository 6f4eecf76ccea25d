package txn

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/journal"
	"github.com/seed-4dac0d86/ldapd/revision"
	"github.com/seed-4dac0d86/ldapd/table"
	"github.com/seed-4dac0d86/ldapd/table/tabletest"
)

// eventually waits for a condition.
func eventually(t *testing.T, what string, within time.Duration, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(within); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %v", what, within)
		}
	}
}

func writes(db *DB) bool { ok, _ := db.Writer(); return ok }

func TestFollower(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := tabletest.NewMem()
	a := open(t, s, fast)
	b := open(t, s, fast)
	if !writes(a) || writes(b) {
		t.Fatal("want the first to write and the second not to")
	}
	if _, err := b.Update(ctx, func(*Tx) error { return nil }); !errors.Is(err, ErrReadOnly) {
		t.Errorf("update of a follower: %v", err)
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
		t.Error("the follower has caught up and does not show the commit")
	}
	if got := value(t, now, b.Table("data"), "x", "p"); got != "1" {
		t.Errorf("the follower reads %q", got)
	}
	if now.Unchanged(entry.ID{1}, before.Ordinal()) || !now.Unchanged(entry.ID{2}, before.Ordinal()) {
		t.Error("the follower did not learn from the journal what changed")
	}

	// A writer that closes makes place at once, one that dies after its lease.
	if err := a.Close(ctx); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the follower takes over", fast.Lease/2, func() bool { return writes(b) })
	write(t, b, "x", "p", "2")
	died := time.Now()
	kill(b)
	c := open(t, s, fast)
	if writes(c) {
		t.Error("a second writer within the lease")
	}
	eventually(t, "the third takes over", 3*fast.Lease, func() bool { return writes(c) })
	if took := time.Since(died); took < fast.Lease/2 {
		t.Errorf("taken over after %v, the lease is %v", took, fast.Lease)
	}
	write(t, c, "x", "p", "3")
}

func TestReopenAfterClose(t *testing.T) {
	t.Parallel()
	s := tabletest.NewMem()
	var limit table.Revision
	for i := range 5 {
		db := open(t, s, fast)
		if !writes(db) {
			t.Fatalf("opening %d does not write", i)
		}
		if first := db.engine.(*shared).writer.Load().cell.First; first <= limit {
			t.Errorf("opening %d begins at %s, the one before may have issued %s", i, revision.String(first), revision.String(limit))
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
}

// TestFenced takes the slot from a living server: it must not acknowledge
// anything after that, and comes back as another incarnation.
func TestFenced(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := tabletest.NewMem()
	db := open(t, s, fast)
	write(t, db, "x", "p", "1")
	log := journal.New(s)
	// The server changes its cell all the time, so several tries may be needed.
	eventually(t, "recovering the slot", 5*time.Second, func() bool {
		h, err := log.Heads(ctx)
		if err != nil {
			t.Fatal(err)
		}
		done, err := log.Recover(ctx, 1, h.Raw(1))
		return done && err == nil
	})
	tab := db.Table("data")
	_, err := db.Update(ctx, func(tx *Tx) error {
		tx.Write(tab, put("x", "p", "2"))
		return nil
	})
	if err == nil {
		t.Error("a server without a slot acknowledged a commit")
	}
	eventually(t, "the server writes again", 3*fast.Lease, func() bool { return writes(db) })
	snap := db.Snapshot()
	defer snap.Close()
	if got := value(t, snap, tab, "x", "p"); got != "1" {
		t.Errorf("after the fence: %q", got)
	}
	write(t, db, "x", "p", "3")
}

// TestOutage stops the store for longer than the lease: reads answer that they
// are too old, writes that nothing was written or that nobody knows.
func TestOutage(t *testing.T) {
	t.Parallel()
	s, f := tabletest.WithFaults(tabletest.NewMem(), 1)
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
}

// TestSlowCommit holds up one commit: others are shown past it.
func TestSlowCommit(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	db := open(t, tabletest.NewMem(), fast)
	e := db.engine.(*shared)
	w := e.writer.Load()
	w.mu.Lock()
	slow, err := w.add(&journal.Record{IDs: []entry.ID{{7}}})
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
	if err := w.decide(ctx, slow); err != nil {
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
}

// TestRecoverTwice lets two servers recover a slot at once.
func TestRecoverTwice(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := tabletest.NewMem()
	db := open(t, s, fast)
	e := db.engine.(*shared)
	w := e.writer.Load()
	undecided := func(row string, to journal.State) table.Revision {
		w.mu.Lock()
		i, err := w.add(&journal.Record{})
		w.mu.Unlock()
		ws := []table.Write{{Table: "data", Mutations: []table.Mutation{put(row, "p", "v")}}}
		if err = errors.Join(err, w.begin(ctx, i, ws), w.apply(ctx, i, ws)); err != nil {
			t.Fatal(err)
		}
		if to == journal.Committed {
			if _, err := db.log.Decide(ctx, i.rec, to); err != nil {
				t.Fatal(err)
			}
		}
		return i.rec.Revision
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
			// The second starts from bytes that are no longer there.
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
	// A write of the dead server lands after the recovery.
	if err := s.Table("data").Apply(ctx, pending, []table.Mutation{put("pending", "p", "late")}); err != nil {
		t.Fatal(err)
	}
	if row, err := s.Table("data").Get(ctx, []byte("pending"), table.Select{View: h}); err != nil || len(row.Cells) > 0 {
		t.Errorf("a late cell is read: %v %v", row, err)
	}
	if err := journal.New(s).Sweep(ctx, 1, h.Raw(1)); err != nil {
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
}

// TestIdsAbovePredecessor: the next holder of a slot begins above all that the
// one before has announced, whatever the wall clock says.
func TestIdsAbovePredecessor(t *testing.T) {
	t.Parallel()
	s := tabletest.NewMem()
	ahead := fast
	ahead.Now = func() time.Time { return time.Now().Add(time.Hour) }
	a := open(t, s, ahead)
	write(t, a, "x", "p", "1")
	last := a.engine.stamp() // an id above the head
	if err := a.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	h, err := a.log.Heads(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	b := open(t, s, fast)
	if first := b.engine.(*shared).writer.Load().cell.First; first <= h.Cell(1).Limit || first <= last {
		t.Errorf("first %s, the predecessor's limit %s", revision.String(first), revision.String(h.Cell(1).Limit))
	}
	if r := write(t, b, "x", "p", "2"); r <= last {
		t.Errorf("%s after %s", revision.String(r), revision.String(last))
	}
	if got := value(t, b.current.Load(), b.Table("data"), "x", "p"); got != "2" {
		t.Errorf("read %q", got)
	}
}

// TestLatePut lands a write of a commit that was rolled back: nobody sees it,
// and in the end it is removed.
func TestLatePut(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := tabletest.NewMem()
	db := open(t, s, fast)
	w := db.engine.(*shared).writer.Load()
	w.mu.Lock()
	i, err := w.add(&journal.Record{})
	w.mu.Unlock()
	ms := []table.Mutation{put("late", "p", "v")}
	if err = errors.Join(err, w.begin(ctx, i, []table.Write{{Table: "data", Mutations: ms}})); err != nil {
		t.Fatal(err)
	}
	i.dirty = true
	w.rollBack(ctx, i)
	write(t, db, "x", "p", "1") // the head passes it
	snap := db.Snapshot()
	defer snap.Close()
	if err := s.Table("data").Apply(ctx, i.rec.Revision, ms); err != nil {
		t.Fatal(err)
	}
	if got := value(t, snap, db.Table("data"), "late", "p"); got != "" || snap.Max() < i.rec.Revision {
		t.Errorf("a rolled back write is read: %q", got)
	}
	if snap.Low() >= i.rec.Revision {
		t.Error("the low-water mark is above a revision that may have left cells")
	}
	eventually(t, "the late cell is removed", 10*fast.Settle, func() bool {
		cells, _ := s.Cells("data", []byte("late"))
		return len(cells) == 0
	})
	eventually(t, "the exception goes", 10*fast.Settle, func() bool {
		now := db.Snapshot()
		defer now.Close()
		return now.Low() > i.rec.Revision
	})
}
