package txn

import (
	"context"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/store/journal"
	"github.com/seed-4dac0d86/ldapd/store/revision"
)

// TestCutBranches removes everything after a checkpoint from a store with branches, as the
// restore of a backup does. If the cut keeps branches, those that were open at the checkpoint
// must be open again and show what they showed then, even if they were merged later. Branches
// that were discarded later, or merged and archived later, stay closed. The trunk must not show
// the commits of any of these branches.
func TestCutBranches(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		keep  bool
		times int // number of cuts; the second one must change nothing
	}{{"kept", true, 1}, {"kept, cut again", true, 2}, {"discarded", false, 2}} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) { cutBranches(t, c.keep, c.times) })
		})
	}
}

func cutBranches(t *testing.T, keep bool, times int) {
	ctx := context.Background()
	s := newMem()
	b := newBranchTest(t, s, fast) // makes the branch staging
	branches := map[string]*Branch{"staging": b.branch}
	for _, name := range []string{"before", "after", "archived", "discarded", "parked", "frozen", "idle"} {
		branches[name] = b.create(name)
		b.stage(branches[name], name, "early")
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	merge := func(name string) {
		t.Helper()
		_, err := branches[name].Merge(ctx, nil)
		must(err)
	}
	merge("before")
	must(branches["parked"].Park(ctx))
	b.stage(b.branch, "staging", "early")
	must(b.db[0].CatchUp(ctx))
	at, err := b.db[0].Checkpoint(ctx, "here")
	must(err)
	log := journal.New(s)
	eventually(t, "the branches are settled", 10*time.Second, func() bool {
		done, err := log.SettleBranches(ctx, at.Revision)
		return done && err == nil
	})
	want := rows(t, b.db[0], at.Revision)

	b.stage(b.branch, "staging", "late")
	b.stage(branches["after"], "after", "late")
	b.set(1, "other", "late")
	b.stage(b.create("new"), "new", "late")
	must(branches["discarded"].Discard(ctx))
	w, err := b.db[0].commits.(*cluster).holder()
	must(err)
	c, err := w.readBranch(ctx, branches["frozen"])
	must(err)
	frozen := c.cell
	frozen.State = revision.Frozen
	_, err = c.swap(ctx, frozen)
	must(err)
	merge("after")
	merge("archived")
	archiveNow(t, b, branches["archived"])
	for _, db := range b.db {
		die(db)
	}
	for _, r := range s.Revisions() { // as snapshots.Restore does
		if r > at.Revision {
			must(s.Table("data").Erase(ctx, r, [][]byte{[]byte("staging"), []byte("after"), []byte("other"), []byte("new")}))
		}
	}
	for range times {
		must(log.Cut(ctx, at.Revision, keep))
	}

	db := open(t, s, fast)
	b.db = [2]*DB{db, db}
	write(t, db, "again", "p", "1") // the head passes the revisions of the merges that were cut off
	time.Sleep(10 * time.Millisecond)
	write(t, db, "again", "p", "2")
	if got := rows(t, db, at.Revision); got != want {
		t.Errorf("at the checkpoint:\n%s\nwant\n%s", got, want)
	}
	for name, shown := range map[string]string{"before": "early", "staging": "", "after": "", "archived": "", "discarded": "", "parked": "", "frozen": "", "new": ""} {
		now := db.Snapshot()
		b.want("the trunk, of "+name, value(t, now, db.Table("data"), name, "p"), shown)
		now.Close()
	}
	open := map[string]bool{}
	for _, x := range db.Branches() {
		open[x.name] = true
		b.want(x.name, b.in(x, x.name), "early")
		if _, err := x.Merge(ctx, nil); (err != nil) != (x.name == "parked") {
			t.Errorf("merging %s: %v", x.name, err)
		}
		if x.name == "parked" {
			must(x.Discard(ctx))
			continue
		}
		now := db.Snapshot()
		b.want("the trunk, of "+x.name, value(t, now, db.Table("data"), x.name, "p"), "early")
		now.Close()
	}
	for _, name := range []string{"staging", "after", "frozen", "idle", "parked"} {
		if open[name] != keep {
			t.Errorf("%s is open: %v", name, open[name])
		}
	}
	if want := map[bool]int{true: 5}[keep]; len(open) != want {
		t.Errorf("%d branches, want %d: %v", len(open), want, open)
	}
}

// archiveNow archives a merged branch, as servers do when nobody needs its marks any
// more.
func archiveNow(t *testing.T, b *branchTest, branch *Branch) {
	t.Helper()
	log := journal.New(b.s)
	eventually(t, "the branch is archived", 10*time.Second, func() bool {
		h, err := log.Heads(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if h.Cell(branch.slot).State == revision.Merged {
			if err := log.Free(context.Background(), branch.slot, h.Raw(branch.slot)); err != nil {
				t.Fatal(err)
			}
		}
		return h.Cell(branch.slot).State == revision.Free
	})
}
