package txn

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/lsm"
	"github.com/seed-4dac0d86/ldapd/store/revision"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// A followed has two DBs on two stores. The field from is the DB on the original store.
// The field to is the DB on a follower, which contains the original's log.
type followed struct {
	*testing.T
	original, follower *lsm.Store
	from, to           *DB
	next               lsm.Position
}

func newFollowed(t *testing.T, o Options) *followed {
	f := &followed{T: t}
	ctx := context.Background()
	var err error
	f.original, err = lsm.Open(lsm.Options{Path: t.TempDir(), KeepLogs: true})
	f.must(err)
	t.Cleanup(func() { f.original.Close() })
	f.must(f.original.Create(ctx, dataSpec))
	f.from, err = Open(ctx, f.original, o)
	f.must(err)
	c, err := f.original.Copy(ctx, func(lsm.Position) error { return nil })
	f.must(err)
	dir := t.TempDir()
	f.must(os.CopyFS(dir, os.DirFS(c.Folder)))
	f.must(c.Close())
	r, err := lsm.Replay(dir, c.Next)
	f.must(err)
	f.must(r.Mark([]byte("mark")))
	f.must(r.Finish())
	f.next = c.Next
	f.follower, err = lsm.Open(lsm.Options{Path: dir, Follow: true})
	f.must(err)
	t.Cleanup(func() { f.follower.Close() })
	f.to, err = Open(ctx, f.follower, Options{Follow: true})
	f.must(err)
	t.Cleanup(func() { f.must(f.to.Close(ctx)) })
	return f
}

func (f *followed) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// write writes the original's log to the follower, without showing it.
func (f *followed) write() {
	f.Helper()
	ctx := context.Background()
	inc := f.follower.Increment(f.next)
	_, err := f.original.ReadLog(ctx, f.next, func(b lsm.LogBatch) error { return inc.Add(b.Repr) })
	f.must(err)
	f.must(inc.Apply(ctx, []byte("mark")))
	f.next = inc.Next()
}

func (f *followed) follow() {
	f.Helper()
	f.write()
	f.must(f.to.ShowNewest(context.Background()))
}

func (f *followed) commit(row, value string, id entry.ID, key uint64) table.Revision {
	f.Helper()
	tab := f.from.Table("data")
	r, err := f.from.Update(context.Background(), func(tx *Tx) error {
		tx.Write(tab, put(row, "p", value))
		tx.Mark(tab, []byte(row), Mark{Kind: MarkUpdate})
		tx.Touch(id)
		tx.TouchKeys(key)
		return nil
	})
	f.must(err)
	return r
}

func (f *followed) want(s *Snapshot, row, value string) {
	f.Helper()
	got, err := s.Get(context.Background(), f.to.Table("data"), []byte(row), table.Select{})
	text := ""
	if len(got.Cells) > 0 {
		text = string(got.Cells[0].Value)
	}
	if err != nil || text != value {
		f.Errorf("row %s is %q, want %q (%v)", row, text, value, err)
	}
}

// TestFollow checks that a standby shows the states of its original, with the same
// revisions. What a commit touched must count as changed as soon as the commit is shown,
// and not before.
func TestFollow(t *testing.T) {
	t.Parallel()
	f := newFollowed(t, Options{})
	ctx := context.Background()
	a, b := entry.ID{1}, entry.ID{2}
	first := f.commit("a", "1", a, 7)
	f.follow()
	old := f.to.Snapshot()
	defer old.Close()
	if old.Max() != first {
		t.Errorf("it shows %s, want %s", old.Max(), first)
	}
	f.want(old, "a", "1")
	next := f.to.Next()
	second := f.commit("a", "2", a, 7)
	f.write()
	between := f.to.Snapshot()
	f.want(between, "a", "1")
	if !between.Unchanged(a, old.Ordinal()) {
		t.Error("a change counts before it is shown")
	}
	between.Close()
	f.must(f.to.ShowNewest(ctx))
	<-next
	now := f.to.Snapshot()
	defer now.Close()
	f.want(now, "a", "2")
	f.want(old, "a", "1")
	if now.Max() != second || now.Unchanged(a, old.Ordinal()) || now.UnchangedKey(7, old.Ordinal()) {
		t.Error("the change is not noted")
	}
	if !now.Unchanged(b, old.Ordinal()) || !now.UnchangedKey(8, old.Ordinal()) {
		t.Error("what no commit touched counts as changed")
	}
	past, err := f.to.At(ctx, first)
	f.must(err)
	defer past.Close()
	f.want(past, "a", "1")
	if _, err := set(f.to, "a", "3"); !errors.Is(err, ErrReadOnly) {
		t.Error("an update:", err)
	}
	if _, err := f.to.AtTime(ctx, time.Now()); !errors.Is(err, ErrRevision) {
		t.Error("the state of now:", err)
	}
	s, err := f.to.AtTime(ctx, first.Time().Add(-time.Millisecond))
	f.must(err)
	s.Close()
	if err := f.from.ShowNewest(ctx); !errors.Is(err, ErrReadOnly) {
		t.Error("ShowNewest of an original:", err)
	}
}

// TestFollowCollections checks that a standby does not show a state of the past after
// the original's garbage collection has removed parts of that state.
func TestFollowCollections(t *testing.T) {
	t.Parallel()
	// The clock moves on at every reading. Otherwise all commits and the collection could fall into one
	// millisecond, and there would be no past to remove.
	var readings atomic.Int64
	f := newFollowed(t, Options{Now: func() time.Time {
		return time.Now().Add(time.Duration(readings.Add(1)) * time.Millisecond)
	}})
	ctx := context.Background()
	first := f.commit("a", "1", entry.ID{1}, 1)
	f.follow()
	past, err := f.to.At(ctx, first)
	f.must(err)
	defer past.Close()
	f.want(past, "a", "1")
	seen := f.to.Snapshot()
	defer seen.Close()
	f.commit("a", "2", entry.ID{1}, 1)
	f.commit("b", "2", entry.ID{2}, 1)
	f.from.horizon.(*embedded).clock.Observe(revision.At(time.Now().Add(time.Second)))
	f.commit("c", "3", entry.ID{3}, 1)
	done, err := f.from.Collect(ctx, CollectOptions{Retention: time.Nanosecond})
	f.must(err)
	if done.Removed.Cells == 0 {
		t.Fatalf("nothing was collected: %+v", done)
	}
	f.write()
	// The collection has removed the state, but the DB does not show the collection yet. Reads
	// of the past must notice the collection nevertheless.
	if row, err := past.Get(ctx, f.to.Table("data"), []byte("a"), table.Select{}); err == nil {
		t.Errorf("the past has %v", row.Cells)
	}
	f.must(f.to.ShowNewest(ctx))
	var gone *HorizonError
	if _, err := f.to.At(ctx, first); !errors.As(err, &gone) {
		t.Error("the past:", err)
	}
	if _, err := seen.Get(ctx, f.to.Table("data"), []byte("a"), table.Select{}); !errors.As(err, &gone) {
		t.Error("an old state of the present:", err)
	}
	now := f.to.Snapshot()
	defer now.Close()
	f.want(now, "a", "2")
	if now.Unchanged(entry.ID{9}, 2) {
		t.Error("records may be gone, and what they touched counts as unchanged")
	}
}

// TestTakenOver checks that a store which another server has taken over commits nothing.
func TestTakenOver(t *testing.T) {
	t.Parallel()
	var taken error
	s := openLSM(t, t.TempDir())
	defer s.Close()
	if err := s.Create(context.Background(), dataSpec); err != nil {
		t.Fatal(err)
	}
	db, err := Open(context.Background(), s, Options{Fenced: func() error { return taken }})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := set(db, "a", "1"); err != nil {
		t.Fatal(err)
	}
	taken = errors.New("another server has it")
	if _, err := set(db, "a", "2"); !errors.Is(err, ErrReadOnly) || !strings.Contains(err.Error(), "another server has it") {
		t.Error(err)
	}
	if err := db.Status().Refusal; !errors.Is(err, taken) {
		t.Error("the status says", err)
	}
	if err := db.Close(context.Background()); err != nil {
		t.Error(err)
	}
}
