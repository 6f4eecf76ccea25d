package txn

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest"
)

func TestCheckpoint(t *testing.T) {
	each(t, func(t *testing.T, db *DB) {
		ctx := context.Background()
		r := write(t, db, "x", "q", "before")
		c, err := db.Checkpoint(ctx, "release-1")
		if err != nil {
			t.Fatal(err)
		}
		if c.Revision < r {
			t.Errorf("the checkpoint leaves out a commit that came before it")
		}
		write(t, db, "x", "q", "after")
		if _, err := db.Checkpoint(ctx, "release-1"); !errors.Is(err, ErrCheckpointExists) {
			t.Errorf("a second one of the name: %v", err)
		}
		all, err := db.Checkpoints(ctx)
		if err != nil || len(all) != 1 || all[0] != c {
			t.Fatalf("listed: %v, %v; want %v", all, err, c)
		}
		s, err := db.At(ctx, all[0].Revision)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if got := value(t, s, db.Table("data"), "x", "q"); got != "before" {
			t.Errorf("at the checkpoint: %q", got)
		}
		if err := db.DeleteCheckpoint(ctx, "release-1"); err != nil {
			t.Fatal(err)
		}
		if err := db.DeleteCheckpoint(ctx, "release-1"); !errors.Is(err, ErrCheckpoint) {
			t.Errorf("deleted twice: %v", err)
		}
		if _, err := db.FindCheckpoint(ctx, "release-1"); !errors.Is(err, ErrCheckpoint) {
			t.Errorf("found after it was deleted: %v", err)
		}
	})
}

func TestCheckpointNames(t *testing.T) {
	for name, want := range map[string]bool{
		"a": true, "before-upgrade_2.1": true, "r": true, "rx-0-1": true, strings.Repeat("a", 64): true,
		"": false, "now": false, "2026": false, "20261120100000Z": false, "r1-0-1": false, "a b": false,
		"ä": false, "-a": false, strings.Repeat("a", 65): false, "a\x00": false, "a\n": false,
	} {
		if got := IsCheckpointName(name); got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
}

// TestCheckpointAcross makes a checkpoint on one server between commits of another server. The
// state at the checkpoint must not change and must be the same on both servers.
func TestCheckpointAcross(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		ctx := context.Background()
		store, faults := tabletest.WithFaults(newMem(), 7)
		a, b := open(t, store, fast), open(t, store, fast)
		faults.SetRate(0.05) // the faults include swaps whose answer is lost
		for i := range 20 {
			if _, err := b.Update(ctx, func(tx *Tx) error {
				tx.Write(b.Table("data"), put(fmt.Sprint("r", i), "q", fmt.Sprint(i)))
				return nil
			}); err != nil && !errors.Is(err, table.ErrUnavailable) && !errors.Is(err, ErrUnknown) {
				t.Fatal(err)
			}
		}
		faults.SetRate(0)
		eventually(t, "both write again", 5*time.Second, func() bool { return writes(a) && writes(b) })
		c, err := a.Checkpoint(ctx, "moment")
		if err != nil {
			t.Fatal(err)
		}
		before := rows(t, a, c.Revision)
		for i := range 20 {
			write(t, b, fmt.Sprint("r", i), "q", "later")
		}
		for _, db := range []*DB{a, b} {
			found, err := db.FindCheckpoint(ctx, "moment")
			if err != nil || found != c {
				t.Fatalf("found %v, %v; want %v", found, err, c)
			}
			if got := rows(t, db, c.Revision); got != before {
				t.Errorf("at the checkpoint, now: %s; then: %s", got, before)
			}
		}
	})
}

// TestUnfinishedCheckpoint records checkpoints that their server does not confirm. Such a
// checkpoint must not be listed, another checkpoint must be able to take its name, and a
// collection must drop it if it is old.
func TestUnfinishedCheckpoint(t *testing.T) {
	each(t, func(t *testing.T, db *DB) {
		ctx := context.Background()
		late := Checkpoint{Name: "late", Revision: write(t, db, "x", "q", "1"), Made: time.Now().Add(-time.Hour)}
		begin := func(c *Checkpoint, token uint64) {
			t.Helper()
			if done, err := db.log.BeginCheckpoint(ctx, c, token); err != nil || !done {
				t.Fatalf("begun: %v, %v", done, err)
			}
		}
		begin(&late, 1)
		if all, err := db.Checkpoints(ctx); err != nil || len(all) != 0 {
			t.Errorf("listed: %v, %v", all, err)
		}
		if _, err := db.Checkpoint(ctx, "late"); err != nil {
			t.Fatalf("another one of the name: %v", err)
		}
		if done, err := db.log.ConfirmCheckpoint(ctx, &late); err != nil || done {
			t.Errorf("confirmed when another one has the name: %v, %v", done, err)
		}

		young, old := Checkpoint{Name: "young", Revision: late.Revision, Made: time.Now()}, Checkpoint{Name: "old", Revision: late.Revision, Made: late.Made}
		begin(&young, 2)
		begin(&old, 3)
		if _, err := db.Collect(ctx, CollectOptions{}); err != nil {
			t.Fatal(err)
		}
		if done, err := db.log.ConfirmCheckpoint(ctx, &old); err != nil || done {
			t.Errorf("confirmed after a collection dropped it: %v, %v", done, err)
		}
		if done, err := db.log.ConfirmCheckpoint(ctx, &young); err != nil || !done {
			t.Errorf("a collection dropped what is just being made: %v, %v", done, err)
		}
	})
}

func rows(t *testing.T, db *DB, r table.Revision) string {
	t.Helper()
	ctx := context.Background()
	s, err := db.At(ctx, r)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var b strings.Builder
	for row, err := range s.Scan(ctx, db.Table("data"), table.Range{}, table.Select{}) {
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s=%s ", row.Key, row.Cells[0].Value)
	}
	return b.String()
}

// TestCheckpointGone checks that reads of a checkpoint below the horizon fail after
// another server has deleted the checkpoint, because a third server may have collected
// the versions that the checkpoint kept.
func TestCheckpointGone(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		ctx := context.Background()
		store := newMem()
		a, b := open(t, store, fast), open(t, store, fast)
		write(t, a, "x", "q", "kept")
		c, err := a.Checkpoint(ctx, "moment")
		if err != nil {
			t.Fatal(err)
		}
		collectPast(t, b, write(t, b, "x", "q", "later"))
		eventually(t, "the horizon is the reader's too", 5*time.Second, func() bool { return a.Horizon() > c.Revision })
		s, err := a.At(ctx, c.Revision)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if got := value(t, s, a.Table("data"), "x", "q"); got != "kept" {
			t.Errorf("the checkpoint has %q", got)
		}
		if err := b.DeleteCheckpoint(ctx, "moment"); err != nil {
			t.Fatal(err)
		}
		collectPast(t, b, write(t, b, "x", "q", "last"))
		var gone *HorizonError
		if _, err := s.Get(ctx, a.Table("data"), []byte("x"), table.Select{}); !errors.As(err, &gone) {
			t.Errorf("a row: %v", err)
		}
		if _, err := s.GetMany(ctx, a.Table("data"), [][]byte{[]byte("x")}, table.Select{}); !errors.As(err, &gone) {
			t.Errorf("rows: %v", err)
		}
		err = nil
		for _, err = range s.Scan(ctx, a.Table("data"), table.Range{}, table.Select{}) {
		}
		if !errors.As(err, &gone) {
			t.Errorf("a scan: %v", err)
		}
	})
}

// TestCheckpointBesideDead makes a checkpoint of a store with a branch when a server has
// just died. DB.Checkpoint must wait until the dead server's slot is recovered.
func TestCheckpointBesideDead(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		o := fast
		o.Lease = 10 * pastPatience
		b := newBranchTest(t, newMem(), o)
		b.set(1, "y", "1")
		kill(b.db[1])
		b.stage(b.branch, "x", "1")
		if _, err := b.db[0].Checkpoint(context.Background(), "moment"); err != nil {
			t.Fatal(err)
		}
	})
}
