package history_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/branch"
	"github.com/seed-4dac0d86/ldapd/partition/history"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/store/journal"
	"github.com/seed-4dac0d86/ldapd/store/revision"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest"
	"github.com/seed-4dac0d86/ldapd/store/txn"
)

var rebaseCrashes = flag.Int("branch-crashes", 1, "how often TestRebaseCrash stops a server at each line of a rebase")

// rebaseCrash is a directory whose server dies during a rebase.
type rebaseCrash struct {
	*rebased
	o    txn.Options
	line string
}

// open opens the other server.
func (c *rebaseCrash) open(s table.Store, embedded bool) *partition.Partition {
	s, f := tabletest.WithFaults(s, 0)
	if !embedded {
		f.SetDelay(time.Millisecond)
	}
	p, err := partition.Open(context.Background(), s, partition.Options{Create: true, Cache: 1 << 20, Txn: c.o})
	if err != nil {
		c.t.Fatal(err)
	}
	return p
}

// runRebaseCrash lets a server die when a rebase makes its n-th call to the store. Another
// server takes over.
func runRebaseCrash(t *testing.T, store table.Store, n int, seed uint64) *rebaseCrash {
	ctx := context.Background()
	s, f := tabletest.WithFaults(store, seed)
	batch, embedded := store.(*tabletest.BatchMem)
	c := &rebaseCrash{o: txn.Options{Lease: time.Second, InFlight: time.Second}}
	if !embedded {
		f.SetDelay(time.Millisecond)
		c.o.Now = func() time.Time { return time.Now().AddDate(26, 0, 0) } // the clock of synctest starts before the first revision
	}
	c.rebased = newRebasedWith(t, s, partition.Options{Create: true, Cache: 1 << 20, Txn: c.o})
	c.stage("dn: uid=ann,ou=old,o=x\nchangetype: modify\nreplace: sn\nsn: Branch\n")
	c.trunk("dn: uid=bob,ou=old,o=x\nchangetype: modify\nreplace: description\ndescription: two\n")
	dying := c.p
	if !embedded {
		c.p = c.open(store, embedded)
	}
	f.CrashAt(n)
	_, err := history.Rebase(ctx, dying, "b", history.RebaseOptions{By: partition.By{Name: "cn=me"}})
	f.CrashAt(1)
	limited, cancel := context.WithTimeout(ctx, time.Second)
	dying.Close(limited)
	cancel()
	if embedded {
		batch.Crash(rand.New(rand.NewPCG(seed, 0)).IntN(3))
		c.p = c.open(store, embedded)
	}
	c.look()
	f.Land()
	c.judge(err)
	if err := c.p.Close(ctx); err != nil {
		t.Error(err)
	}
	return c
}

// look finds out where the server died.
func (c *rebaseCrash) look() {
	if err := c.p.CatchUp(context.Background()); err != nil {
		c.t.Fatal(err)
	}
	_, old := branch.Find(c.p, "b")
	next, half := branch.Find(c.p, history.Unfinished("b"))
	switch {
	case old != nil && half != nil:
		c.line = "nothing is left"
		c.t.Error("both branches are gone")
	case old != nil:
		c.line = "the old branch is discarded"
	case half == nil && strings.Contains(c.people(next.Snapshot(context.Background())), "Branch"):
		c.line = "filled"
	case half == nil:
		c.line = "half done"
	case strings.Contains(c.people(c.branch().Snapshot(context.Background())), "two"):
		c.line = "renamed"
	default:
		c.line = "before it"
	}
}

// judge completes the rebase on the other server and merges the branch.
func (c *rebaseCrash) judge(answer error) {
	ctx := context.Background()
	if answer == nil && c.line != "renamed" {
		c.t.Errorf("it was acknowledged and is lost: %s", c.line)
	}
	c.eventually("the rebase is ended", func() error { _, err := c.rebase(history.Neither); return err })
	c.eventually("the branch is merged", func() error {
		b, err := branch.Find(c.p, "b")
		if err == nil {
			_, err = b.Merge(ctx, partition.By{})
		}
		return err
	})
	got := c.people(state.Newest(c.p), nil)
	if !strings.Contains(got, "Branch") || !strings.Contains(got, "two") {
		c.t.Errorf("died when %s: after the merge:\n%s", c.line, got)
	}
	for _, b := range branch.All(c.p) {
		c.t.Errorf("died when %s: the branch %s is left", c.line, b.Name())
	}
}

func (c *rebaseCrash) eventually(what string, do func() error) {
	c.t.Helper()
	var err error
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if err = errors.Join(c.p.CatchUp(context.Background()), do()); err == nil {
			return
		}
	}
	c.t.Errorf("died when %s: %s: %v", c.line, what, err)
}

// TestRebaseCrash lets servers die at random points of a rebase, until servers have died in
// every stage. It checks that nothing of the branch is lost, and that the next rebase completes
// the work.
func TestRebaseCrash(t *testing.T) {
	t.Parallel()
	for _, embedded := range []bool{true, false} {
		t.Run(fmt.Sprintf("embedded=%v", embedded), func(t *testing.T) {
			t.Parallel()
			lines := []string{"before it", "half done", "filled", "the old branch is discarded", "renamed"}
			met, trials, calls := map[string]int{}, 0, 120
			if embedded {
				calls = 40
			}
			missing := func() bool {
				return slices.ContainsFunc(lines, func(l string) bool { return met[l] < *rebaseCrashes })
			}
			for seed := 1; missing() && !t.Failed(); seed++ {
				if trials++; trials > 100+100**rebaseCrashes {
					t.Errorf("not met often enough after %d trials: %v", trials, met)
				}
				n := 1 + rand.New(rand.NewPCG(uint64(seed), 1)).IntN(calls)
				if embedded {
					met[runRebaseCrash(t, tabletest.NewBatchMem(), n, uint64(seed)).line]++
				} else {
					synctest.Test(t, func(t *testing.T) { met[runRebaseCrash(t, tabletest.NewMem(), n, uint64(seed)).line]++ })
				}
				if t.Failed() {
					t.Logf("seed %d: dies at call %d", seed, n)
				}
			}
			var text []string
			for _, l := range slices.Sorted(maps.Keys(met)) {
				text = append(text, fmt.Sprintf("%5d %s", met[l], l))
			}
			t.Logf("%d trials\n%s", trials, strings.Join(text, "\n"))
		})
	}
}

// doubtStore is a store that discards the branch b but returns an error for the discard.
type doubtStore struct{ *tabletest.Mem }

type doubtTable struct {
	table.Table
	table.Versioner
	table.Collector
}

func (s doubtStore) Table(name string) table.Table {
	t := s.Mem.Table(name)
	return doubtTable{t, t.(table.Versioner), t.(table.Collector)}
}

func (t doubtTable) Swap(ctx context.Context, row []byte, f table.Family, q, old []byte, cells []table.Cell) (bool, error) {
	done, err := t.Table.Swap(ctx, row, f, q, old, cells)
	if c, bad := revision.DecodeCell(cells[0].Value); bad == nil && t.Name() == journal.Cluster && c.Kind == revision.Branch && c.State == revision.Closed && c.Owner == "b" {
		return false, fmt.Errorf("%w: no answer", table.ErrClosed)
	}
	return done, err
}

// TestRebaseDoubt checks that a rebase keeps the new branch if it does not learn whether
// the old branch was discarded.
func TestRebaseDoubt(t *testing.T) {
	t.Parallel()
	w := newRebased(t, doubtStore{tabletest.NewMem()})
	w.stage("dn: uid=ann,ou=old,o=x\nchangetype: modify\nreplace: sn\nsn: Branch\n")
	if _, err := w.rebase(history.Neither); !errors.Is(err, txn.ErrUnknown) {
		t.Errorf("got %v", err)
	}
	if _, err := w.rebase(history.Neither); err != nil {
		t.Fatal(err)
	}
	if got := w.people(w.branch().Snapshot(t.Context())); !strings.Contains(got, "Branch") {
		t.Errorf("left is %s", got)
	}
}

// TestRebaseLeftovers makes a branch with the name Unfinished("b"), as if a rebase had been
// interrupted, and then a newer branch with the name "b". The rebase of the newer branch must
// not discard the older branch.
func TestRebaseLeftovers(t *testing.T) { eachBranchStore(t, rebaseLeftovers) }

func rebaseLeftovers(t *testing.T, store func() table.Store) {
	ctx := context.Background()
	w := newRebased(t, store())
	w.stage("dn: uid=ann,ou=old,o=x\nchangetype: modify\nreplace: sn\nsn: Branch\n")
	if err := w.branch().Rename(ctx, history.Unfinished("b")); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * time.Millisecond) // so that the two branches have different times
	if _, err := branch.Create(ctx, w.p, branch.Options{Name: "b"}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.rebase(history.Neither); !partition.Is(err, partition.EntryExists) {
		t.Errorf("got %v", err)
	}
	left, err := branch.Find(w.p, history.Unfinished("b"))
	if err != nil {
		t.Fatal(err)
	}
	if got := w.people(left.Snapshot(ctx)); !strings.Contains(got, "Branch") {
		t.Errorf("left is %s", got)
	}
}
