package txn

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/store/journal"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest"
)

// fullStore is a store whose committed batches do not become durable while full is set,
// as if its disk were full.
type fullStore struct {
	*tabletest.BatchMem
	full atomic.Bool
}

func (s *fullStore) Commit(ctx context.Context, b table.Batch) (func() error, error) {
	wait, err := s.BatchMem.Commit(ctx, b)
	return func() error {
		if s.full.Load() {
			return errors.Join(table.ErrPending, table.ErrUnavailable)
		}
		return wait()
	}, err
}

// TestLateCommit checks a commit that waits for disk space. Until it is durable, commits that
// conflict with it must fail. When it is durable, it must be shown, and later commits must
// succeed.
func TestLateCommit(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := &fullStore{BatchMem: tabletest.NewBatchMem()}
	if err := s.Create(ctx, dataSpec); err != nil {
		t.Fatal(err)
	}
	db, err := Open(ctx, s, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(ctx)
	tab := db.Table("data")
	set := func(v string) error {
		_, err := db.Update(ctx, func(tx *Tx) error {
			tx.Write(tab, put("row", "p", v))
			tx.Mark(tab, []byte("row"), Mark{Kind: MarkExclusive})
			return nil
		})
		return err
	}
	shown := func() string {
		snap := db.Snapshot()
		defer snap.Close()
		return value(t, snap, tab, "row", "p")
	}
	if err := set("before"); err != nil {
		t.Fatal(err)
	}
	s.full.Store(true)
	if err := set("late"); !errors.Is(err, ErrUnknown) {
		t.Errorf("the commit that met the full disk: %v", err)
	}
	for range 2 { // this commit conflicts with the late commit
		if err := set("refused"); !errors.Is(err, table.ErrUnavailable) || errors.Is(err, ErrUnknown) {
			t.Errorf("a commit behind it: %v", err)
		}
	}
	if got := shown(); got != "before" {
		t.Errorf("shown while not durable: %q", got)
	}
	s.full.Store(false)
	for end := time.Now().Add(10 * time.Second); shown() != "late"; time.Sleep(latePause) {
		if time.Now().After(end) {
			t.Fatal("the late commit is not shown")
		}
	}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(latePause) {
		err := set("after")
		if err == nil {
			break
		}
		if !errors.Is(err, table.ErrUnavailable) || time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// TestLateRow makes the journal row of a commit arrive after the commit was given up. The row says that the
// commit is committed, so the row must be aborted when the commit is no exception any more.
func TestLateRow(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		ctx := context.Background()
		db := open(t, newMem(), fast)
		w := db.commits.(*cluster).writer.Load()
		w.mu.Lock()
		p, err := w.newCommit(&journal.Record{State: journal.Committed, ByCell: true})
		w.mu.Unlock()
		if err != nil {
			t.Fatal(err)
		}
		p.dirty = true
		w.finalise(p, journal.Aborted)
		if err := db.log.Begin(ctx, p.rec); err != nil {
			t.Fatal(err)
		}
		for r := p.rec.Revision; ; time.Sleep(fast.InFlight) {
			write(t, db, "x", "p", "1") // publishes
			s := db.Snapshot()
			visible := s.Visible(r)
			s.Close()
			rec, err := db.log.State(ctx, r)
			if err != nil {
				t.Fatal(err)
			}
			if visible && rec.State == journal.Committed {
				t.Fatal("a commit that was given up is shown, and the journal says that it is committed")
			}
			if visible {
				break
			}
		}
	})
}
