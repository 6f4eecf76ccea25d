package txn

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/seed-4dac0d86/ldapd/store/journal"
	"github.com/seed-4dac0d86/ldapd/store/revision"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// TestCut removes everything after a checkpoint from a store whose servers have died. The
// store must then show the state of the checkpoint, with its past, and take commits again.
func TestCut(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ctx := context.Background()
		s := newMem()
		var dbs []*DB
		for range 3 {
			dbs = append(dbs, open(t, s, fast))
		}
		n := 0
		writeAll := func() {
			for _, db := range dbs {
				n++
				write(t, db, fmt.Sprint("row ", n%5), "q", fmt.Sprint(n))
			}
		}
		reopen := func(i int) { // closing a server leaves an archive of its slot
			if err := dbs[i].Close(ctx); err != nil {
				t.Fatal(err)
			}
			dbs[i] = open(t, s, fast)
		}
		writeAll()
		reopen(1)
		writeAll()
		if err := dbs[0].CatchUp(ctx); err != nil {
			t.Fatal(err)
		}
		early, err := dbs[0].Checkpoint(ctx, "early")
		if err != nil {
			t.Fatal(err)
		}
		at, err := dbs[0].Checkpoint(ctx, "here")
		if err != nil {
			t.Fatal(err)
		}
		want := rows(t, dbs[0], at.Revision)
		before := dbs[0].Snapshot()
		frontier, err := before.Frontier(ctx)
		before.Close()
		if err != nil {
			t.Fatal(err)
		}

		writeAll()
		reopen(2)
		writeAll()
		if _, err := dbs[0].Checkpoint(ctx, "later"); err != nil {
			t.Fatal(err)
		}
		after := dbs[0].Snapshot()
		lost, err := after.Frontier(ctx)
		after.Close()
		if err != nil {
			t.Fatal(err)
		}
		for _, db := range dbs {
			die(db)
		}
		log := journal.New(s)
		for range 2 { // the second cut changes nothing
			if err := log.Cut(ctx, at.Revision, true); err != nil {
				t.Fatal(err)
			}
		}
		h, err := log.Heads(ctx)
		if err != nil || h.Max() > at.Revision {
			t.Errorf("the heads: %v, newest %s", err, h.Max())
		}
		for _, slot := range h.Slots() {
			for rec, err := range log.Scan(ctx, slot, at.Revision, revision.Last-1) {
				t.Errorf("left in the journal: %v, %v", rec, err)
			}
		}

		db := open(t, s, fast)
		if got := rows(t, db, at.Revision); got != want {
			t.Errorf("at the checkpoint:\n%s\nwant\n%s", got, want)
		}
		all, err := db.Checkpoints(ctx)
		if err != nil || len(all) != 2 || all[0].Revision != early.Revision || all[1].Revision != at.Revision {
			t.Errorf("checkpoints: %v, %v", all, err)
		}
		if err := db.Follows(ctx, frontier); err != nil {
			t.Errorf("a consumer of before: %v", err)
		}
		if err := db.Follows(ctx, lost); !errors.Is(err, ErrForeign) {
			t.Errorf("a consumer of commits that were cut: %v", err)
		}
		r := write(t, db, "row 0", "q", "again")
		if r <= at.Revision {
			t.Errorf("a commit at %s, after a cut at %s", r, at.Revision)
		}
		now := db.Snapshot()
		defer now.Close()
		if got := value(t, now, db.Table("data"), "row 0", "q"); got != "again" {
			t.Errorf("after a commit: %q", got)
		}
	})
}

// TestIncomplete checks that a store that is being copied cannot be opened.
func TestIncomplete(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newMem()
		open(t, s, fast)
		if err := s.Create(t.Context(), table.Spec{Name: journal.Incomplete, Unversioned: true, Families: []table.FamilySpec{{Name: 'i'}}}); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(t.Context(), s, fast); !errors.Is(err, ErrIncomplete) {
			t.Error(err)
		}
	})
}

// die ends a server without letting it free its slot.
func die(db *DB) {
	e := db.commits.(*cluster)
	e.stop(errors.New("crash"))
	e.done.Wait()
}
