package txn

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-4dac0d86/ldapd/store/journal"
	"github.com/seed-4dac0d86/ldapd/store/revision"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest"
)

var branchCrashes = flag.Int("branch-crashes", 3, "how often TestBranchCrash stops a server at each line of the protocol of branches")

// A branchCrash is one trial of TestBranchCrash: a server dies during one operation on a
// branch, and another server takes over.
type branchCrash struct {
	*world
	ctx  context.Context
	dead *DB
	db   *DB // the server that takes over
	op   *crashOp
	err  error  // the error that the operation returned
	line string // the point at which the server died; see crashLines
}

// A crashOp is an operation that makes or changes a branch, with the checks to run after the
// server that executed the operation has died.
type crashOp struct {
	name  string
	do    func(ctx context.Context, db *DB) error
	line  func(c *branchCrash, h *journal.Heads, cell revision.Cell) string
	check func(c *branchCrash) (done bool) // reports whether the operation took place
}

var crashOps = []*crashOp{
	{"create", begin("another"), (*branchCrash).lineOfCreate, (*branchCrash).checkCreate},
	{"commit", commitCrashed, (*branchCrash).lineOfCommit, (*branchCrash).checkCommit},
	{"merge", withBranch("staging", mergeIn), (*branchCrash).lineOfMerge, (*branchCrash).checkMerge},
	{"discard", withBranch("staging", discardIn), (*branchCrash).lineOfEnd, (*branchCrash).checkDiscard},
	{"rename", withBranch("staging", renameIn), (*branchCrash).lineOfEnd, (*branchCrash).checkRename},
}

func renameIn(ctx context.Context, b *Branch) error { return b.Rename(ctx, "another") }

// commitCrashed commits a row in each of two tables, in the branch.
func commitCrashed(ctx context.Context, db *DB) error {
	return stageIn(ctx, db, "staging", "crashed")
}

func stageIn(ctx context.Context, db *DB, branch, row string) error {
	if err := db.CatchUp(ctx); err != nil {
		return err
	}
	b, err := db.Branch(branch)
	if err != nil {
		return err
	}
	_, err = b.Update(ctx, func(tx *Tx) error {
		for _, tab := range []table.Table{db.Table("data"), db.Table("other")} {
			tx.Write(tab, put(row, "p", "new"))
			tx.Mark(tab, []byte(row), Mark{Kind: MarkUpdate})
		}
		return nil
	})
	return err
}

// runBranchCrash makes a server die at its n-th call to the store, counted from the
// beginning of an operation. The seed decides about the operation, n and the faults.
func runBranchCrash(w *world, seed uint64) *branchCrash {
	batch, random := w.batch != nil, newSplitmix(seed)
	op, n := crashOps[random.next()%uint64(len(crashOps))], 1+int(random.next()%crashWithin[batch])
	defer func() {
		if w.t.Failed() {
			w.t.Logf("seed %d: %s dies at call %d", seed, op.name, n)
		}
	}()
	c := &branchCrash{world: w, ctx: context.Background(), op: op, line: "died outside"}
	s, f := tabletest.WithFaults(c.store, seed)
	c.dead = c.open(s, f.Crashed)
	w.t.Cleanup(func() { kill(c.dead) })
	if !batch {
		f.SetDelay(time.Millisecond)
		c.takeOver()
	}
	c.must(begin("staging")(c.ctx, c.dead))
	c.must(stageIn(c.ctx, c.dead, "staging", "before"))
	f.CrashAt(n)
	c.err = op.do(c.ctx, c.dead)
	f.CrashAt(1)
	kill(c.dead)
	if batch {
		c.batch.Crash(c.rnd.IntN(3))
		c.takeOver()
	}
	c.look()
	if c.rnd.IntN(2) == 0 {
		f.Land()
	} else {
		time.AfterFunc(time.Duration(c.rnd.IntN(int(c.o.InFlight))), f.Land)
	}
	c.judge()
	c.end()
	return c
}

// takeOver opens the other server.
func (c *branchCrash) takeOver() {
	s, f := tabletest.WithFaults(c.store, 0)
	if c.batch == nil {
		f.SetDelay(time.Millisecond)
	}
	c.db = c.open(s, never)
	c.t.Cleanup(func() { kill(c.db) })
}

func (c *branchCrash) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// look sets c.line: it finds out from the content of the store where the server died.
func (c *branchCrash) look() {
	h, err := c.db.log.Heads(c.ctx)
	c.must(err)
	for _, s := range h.Slots() {
		cell := h.Cell(s)
		if s.IsBranch() && (cell.Owner == "another" || c.op.name != "create") {
			c.line = c.op.line(c, h, cell)
		}
	}
}

func (c *branchCrash) lineOfCreate(_ *journal.Heads, cell revision.Cell) string {
	if cell.State == revision.Recovering {
		return "slot claimed, branch not open"
	}
	return "branch open"
}

func (c *branchCrash) lineOfCommit(_ *journal.Heads, cell revision.Cell) string {
	switch {
	case len(cell.Undecided) > 0:
		return "reserved, cells half written"
	case len(cell.Void) > 0:
		return "made void"
	case c.err != nil && cell.Head > cell.First && c.value("crashed") == "new":
		return "published, not acknowledged"
	}
	return "before it, or acknowledged"
}

func (c *branchCrash) lineOfMerge(h *journal.Heads, cell revision.Cell) string {
	switch cell.State {
	case revision.Frozen:
		return "frozen, checking"
	case revision.Merged, revision.Free:
		return "merged, not swept"
	case revision.Merging:
		rec, err := c.db.log.State(c.ctx, cell.Merge)
		c.must(err)
		switch {
		case rec.State != journal.Committed:
			return "merging, journal absent or pending"
		case !h.Visible(cell.Merge):
			return "journal committed, not published"
		}
		return "published, cell still merging"
	}
	return "before it"
}

func (c *branchCrash) lineOfEnd(_ *journal.Heads, cell revision.Cell) string {
	if cell.State == revision.Closed || cell.State == revision.Free || cell.Owner == "another" {
		return c.op.name + " done, not acknowledged or not swept"
	}
	return "before it"
}

// value returns the value of a row in the branch, and checks that both tables have the
// same value.
func (c *branchCrash) value(row string) string {
	c.t.Helper()
	var got []string
	c.eventually("its branch can be read", func() error {
		b, err := c.find("staging", "another")
		if err != nil {
			return err
		}
		s, err := b.Snapshot(c.ctx)
		if err != nil {
			return err
		}
		defer s.Close()
		got = c.both(s, row)
		return nil
	})
	return c.whole(row, got)
}

func (c *branchCrash) both(s *Snapshot, row string) (got []string) {
	for _, name := range []string{"data", "other"} {
		v, err := get(s, c.db.Table(name), row)
		c.must(err)
		got = append(got, v)
	}
	return got
}

func (c *branchCrash) whole(row string, got []string) string {
	c.t.Helper()
	if len(got) != 2 || got[0] != got[1] {
		c.t.Errorf("%s: %s is half there: %q", c, row, got)
		return ""
	}
	return got[0]
}

// trunk returns the current value of a row on the trunk.
func (c *branchCrash) trunk(row string) string {
	c.t.Helper()
	c.must(c.db.CatchUp(c.ctx))
	s := c.db.Snapshot()
	defer s.Close()
	return c.whole(row, c.both(s, row))
}

// find returns the branch that has one of the names.
func (c *branchCrash) find(names ...string) (b *Branch, err error) {
	if err = c.db.CatchUp(c.ctx); err != nil {
		return nil, err
	}
	for _, name := range names {
		if b, err = c.db.Branch(name); err == nil {
			return b, nil
		}
	}
	return nil, err
}

func (c *branchCrash) eventually(what string, do func() error) {
	c.t.Helper()
	var err error
	for end := time.Now().Add(2 * c.patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if err = do(); err == nil {
			return
		}
	}
	c.t.Errorf("%s: not within %v: %s: %v", c, 2*c.patience, what, err)
}

func (c *branchCrash) String() string { return c.op.name + ", " + c.line }

// judge checks that the outcome of the operation agrees with the error that the operation
// returned.
func (c *branchCrash) judge() {
	c.t.Helper()
	done := c.op.check(c)
	switch {
	case c.err == nil && !done:
		c.t.Errorf("%s: it was acknowledged and is lost", c)
	case c.err != nil && done && !errors.Is(c.err, ErrUnknown):
		c.t.Errorf("%s: it failed and is there: %v", c, c.err)
	}
}

// checkCreate checks that the name can be used, and that a branch with this name can be changed
// and merged.
func (c *branchCrash) checkCreate() (done bool) {
	c.eventually("the name is usable", func() error {
		_, err := c.find("another")
		if done = err == nil; done {
			return nil
		}
		_, err = c.db.CreateBranch(c.ctx, "another")
		return err
	})
	c.eventually("it takes a commit", func() error { return stageIn(c.ctx, c.db, "another", "after") })
	c.merge("another", "after")
	return done
}

// checkCommit checks that the branch can be used, and has either the whole commit or
// nothing of it.
func (c *branchCrash) checkCommit() bool {
	c.eventually("it takes a commit", func() error { return stageIn(c.ctx, c.db, "staging", "after") })
	in := c.value("crashed")
	c.merge("staging", "before", "after")
	if out := c.trunk("crashed"); out != in {
		c.t.Errorf("%s: %q in the branch, %q after the merge", c, in, out)
	}
	return in == "new"
}

// checkMerge checks that the branch is either merged or still open with all its commits.
func (c *branchCrash) checkMerge() (done bool) {
	c.eventually("the merge stands, or the branch takes a commit", func() error {
		err := stageIn(c.ctx, c.db, "staging", "after")
		if done = errors.Is(err, ErrBranch); done {
			return nil
		}
		return err
	})
	if done {
		if v := c.trunk("before"); v != "new" {
			c.t.Errorf("%s: the trunk has %q", c, v)
		}
		return true
	}
	if v := c.trunk("before"); v != "" {
		c.t.Errorf("%s: the branch is open, and the trunk has %q", c, v)
	}
	c.merge("staging", "before", "after")
	return false
}

// checkDiscard checks that the name can be used. If the branch was discarded, a new branch must
// be able to take the name. Otherwise the old branch must still have it.
func (c *branchCrash) checkDiscard() (done bool) {
	c.eventually("the name is usable", func() error {
		_, err := c.find("staging")
		if done = errors.Is(err, ErrBranch); done {
			_, err = c.db.CreateBranch(c.ctx, "staging")
		}
		return err
	})
	if v := c.value("before"); (v == "new") == done {
		c.t.Errorf("%s: the branch has %q", c, v)
	}
	c.eventually("it takes a commit", func() error { return stageIn(c.ctx, c.db, "staging", "after") })
	c.merge("staging", "after")
	if v := c.trunk("before"); (v == "new") == done {
		c.t.Errorf("%s: the trunk has %q", c, v)
	}
	return done
}

// checkRename checks that the branch has one of the two names, and that the other name is
// free.
func (c *branchCrash) checkRename() bool {
	old, other := "staging", "another"
	c.eventually("it has one name, and the other one is free", func() error {
		if _, err := c.find(old); err != nil {
			old, other = other, old // a call that reached the store late may have renamed the branch
			return err
		}
		_, err := c.db.CreateBranch(c.ctx, other)
		return err
	})
	c.eventually("it takes a commit", func() error { return stageIn(c.ctx, c.db, old, "after") })
	c.merge(old, "before", "after")
	return old == "another"
}

// merge merges a branch and checks that the trunk then has the branch's rows.
func (c *branchCrash) merge(name string, rows ...string) {
	c.t.Helper()
	c.eventually("it is merged", func() error {
		b, err := c.find(name)
		if err == nil {
			_, err = b.Merge(c.ctx, nil)
		}
		if errors.Is(err, ErrBranch) {
			return nil // an earlier attempt has merged it
		}
		return err
	})
	for _, row := range rows {
		if v := c.trunk(row); v != "new" {
			c.t.Errorf("%s: %s is %q after the merge", c, row, v)
		}
	}
}

// end discards the remaining branches and checks that no invisible cells remain in the
// store.
func (c *branchCrash) end() {
	c.t.Helper()
	for _, b := range c.db.Branches() {
		c.must(b.Discard(c.ctx))
	}
	c.eventually("all slots are free", func() error {
		h, err := c.db.log.Heads(c.ctx)
		if err != nil {
			return err
		}
		for _, s := range h.Slots() {
			if s.IsBranch() && h.Cell(s).State != revision.Free {
				return fmt.Errorf("slot %d is in state %d", s, h.Cell(s).State)
			}
		}
		return nil
	})
	c.swept(c.db)
	c.must(c.db.Close(c.ctx))
}

// crashLines are the points of the operations (crashOp.name and branchCrash.line) at which a
// server must have died in some trial. There are fewer points on a store of one server,
// because it does many steps in one batch. The key is true for a store of one server.
var crashLines = map[bool][]string{
	true: {
		"create, died outside", "create, branch open", "commit, before it, or acknowledged", "commit, published, not acknowledged",
		"merge, before it", "merge, merged, not swept", "discard, before it", "discard, discard done, not acknowledged or not swept",
		"rename, before it", "rename, rename done, not acknowledged or not swept",
	},
	false: {
		"create, died outside", "create, slot claimed, branch not open", "create, branch open",
		"commit, before it, or acknowledged", "commit, reserved, cells half written", "commit, published, not acknowledged",
		"merge, before it", "merge, frozen, checking", "merge, merging, journal absent or pending",
		"merge, journal committed, not published", "merge, published, cell still merging", "merge, merged, not swept",
		"discard, before it", "discard, discard done, not acknowledged or not swept",
		"rename, before it", "rename, rename done, not acknowledged or not swept",
	},
}

// A server dies at one of the first crashWithin[batch] calls to the store. batch is true
// for a store of one server.
var crashWithin = map[bool]uint64{true: 6, false: 24}

// TestBranchCrash makes a server die at every point of its operations on branches.
// Afterwards the operation must have taken place completely or not at all, in agreement
// with the answer to its client. The branch's name must be usable, and no invisible cells
// may be left. The test does not run in parallel with other tests, because their servers
// would lose their leases.
func TestBranchCrash(t *testing.T) {
	for _, batch := range []bool{true, false} {
		t.Run(fmt.Sprintf("batch=%v", batch), func(t *testing.T) {
			met, trials := map[string]int{}, 0
			missing := func() bool {
				return slices.ContainsFunc(crashLines[batch], func(l string) bool { return met[l] < *branchCrashes })
			}
			for seed := uint64(1); missing() && !t.Failed(); seed++ {
				if trials++; trials > 400**branchCrashes {
					t.Errorf("not met often enough after %d trials: %v", trials, met)
				}
				trial := func(t *testing.T) { met[runBranchCrash(newWorld(t, batch, seed), seed).String()]++ }
				if batch { // these servers wait only for the store, so they need no virtual time
					trial(t)
				} else {
					synctest.Test(t, trial)
				}
			}
			logLines(t, trials, met)
		})
	}
}

// logLines prints how often a server died at each point.
func logLines(t *testing.T, trials int, met map[string]int) {
	var lines []string
	for _, l := range slices.Sorted(maps.Keys(met)) {
		lines = append(lines, fmt.Sprintf("%5d %s", met[l], l))
	}
	t.Logf("%d trials\n%s", trials, strings.Join(lines, "\n"))
}
