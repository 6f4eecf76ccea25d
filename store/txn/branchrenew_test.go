package txn

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-4dac0d86/ldapd/store/journal"
	"github.com/seed-4dac0d86/ldapd/store/revision"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest"
)

// heldStore is a store that does not answer one call until the context of the call ends. The
// call is the first one, after the field held was set, that writes cells of a branch into the
// table "data", or reads marks of that table. If trunk is set, it may also be a call that
// writes cells of the trunk. When that call arrives, the store first calls the function in
// held. While deaf is set, the store refuses to change the cell of a branch in the heads. If
// last is set, the store calls last with each new cell of a branch in the heads. When last
// returns true, the heads become unreadable.
type heldStore struct {
	*tabletest.Mem
	held               atomic.Pointer[func()]
	last               atomic.Pointer[func(*revision.Cell) bool]
	trunk, deaf, blind atomic.Bool
}

type heldTable struct {
	memTable
	s *heldStore
}

func (s *heldStore) Table(name string) table.Table {
	return heldTable{s.Mem.Table(name).(memTable), s}
}

func (t heldTable) hold(ctx context.Context) {
	if t.Name() != "data" {
		return
	}
	if held := t.s.held.Swap(nil); held != nil {
		(*held)()
		<-ctx.Done()
	}
}

func (t heldTable) Apply(ctx context.Context, r table.Revision, ms []table.Mutation) error {
	if r.IsStaged() || t.s.trunk.Load() {
		t.hold(ctx)
	}
	return t.memTable.Apply(ctx, r, ms)
}

func (t heldTable) Versions(ctx context.Context, rows [][]byte, f table.Family, after table.Revision) ([]table.Row, error) {
	t.hold(ctx)
	return t.memTable.Versions(ctx, rows, f, after)
}

func (t heldTable) Swap(ctx context.Context, row []byte, f table.Family, q, old []byte, cells []table.Cell) (bool, error) {
	c := revision.Cell{}
	if t.Name() == journal.Cluster {
		c, _ = revision.DecodeCell(cells[0].Value)
	}
	if t.s.deaf.Load() && c.Kind == revision.Branch {
		return false, table.ErrUnavailable
	}
	done, err := t.memTable.Swap(ctx, row, f, q, old, cells)
	if last := t.s.last.Load(); last != nil && c.Kind == revision.Branch && (*last)(&c) {
		t.s.blind.Store(true)
		time.Sleep(time.Millisecond) // so that the last reading of the heads is older than the change
	}
	return done, err
}

func (t heldTable) Get(ctx context.Context, row []byte, s table.Select) (table.Row, error) {
	if t.s.blind.Load() && t.Name() == journal.Cluster {
		return table.Row{}, table.ErrUnavailable
	}
	return t.memTable.Get(ctx, row, s)
}

// heldBranch returns a branch, its store and a function. The function makes another server
// change the cell of the branch while the first server works on the branch.
func heldBranch(t *testing.T) (*branchTest, *heldStore, func(change func(*revision.Cell))) {
	s := &heldStore{Mem: tabletest.NewMem()}
	b := newBranchTest(t, s, fast)
	b.stage(b.branch, "x", "1")
	other := b.db[1].commits.(*cluster).writer.Load()
	return b, s, func(change func(*revision.Cell)) {
		c, err := other.readBranch(t.Context(), b.branch)
		if err != nil {
			t.Fatal(err)
		}
		next := c.cell
		change(&next)
		if done, err := c.swap(t.Context(), next); !done || err != nil {
			t.Fatal(done, err)
		}
	}
}

// TestBranchTaken checks that a commit in a branch, or a merge, starts again if another
// server changes the branch's cell while the commit or merge waits for the store.
func TestBranchTaken(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*revision.Cell){
		"made void": func(c *revision.Cell) {
			c.Void, c.Head, c.Undecided = append(c.Void, c.Undecided...), c.LastUndecided(), nil
		},
		"renamed": func(c *revision.Cell) { c.Owner = "renamed" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b, s, other := heldBranch(t)
				held := func() { other(change) }
				s.held.Store(&held)
				b.stage(b.branch, "x", "2")
				b.want("the branch", b.in(b.branch, "x"), "2")
			})
		})
	}
	t.Run("thawed", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			b, s, other := heldBranch(t)
			held := func() { other(func(c *revision.Cell) { c.State = revision.Open }) }
			s.held.Store(&held)
			if _, err := b.merge(); err != nil {
				t.Fatal(err)
			}
			b.want("after the merge", b.at(b.db[0].Snapshot().Max(), "x"), "1")
		})
	})
}

// TestBranchNotRenewed checks that a commit in a branch, or a merge, fails with
// table.ErrUnavailable if the store refuses to renew the branch's cell meanwhile.
func TestBranchNotRenewed(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func(b *branchTest) error{
		"commit": func(b *branchTest) error {
			_, err := b.branch.Update(b.t.Context(), func(tx *Tx) error {
				tab := b.db[0].Table("data")
				tx.Write(tab, put("x", "p", "2"))
				tx.Mark(tab, []byte("x"), Mark{Kind: MarkUpdate})
				return nil
			})
			return err
		},
		"merge": func(b *branchTest) error { _, err := b.merge(); return err },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b, s, _ := heldBranch(t)
				held := func() { s.deaf.Store(true) }
				s.held.Store(&held)
				if err := do(b); !errors.Is(err, table.ErrUnavailable) || errors.Is(err, ErrUnknown) || errors.Is(err, context.Canceled) {
					t.Errorf("got %v", err)
				}
				s.deaf.Store(false)
				b.stage(b.branch, "x", "3")
				if _, err := b.merge(); err != nil {
					t.Fatal(err)
				}
				b.want("after the merge", b.at(b.db[0].Snapshot().Max(), "x"), "3")
			})
		})
	}
}

// TestBranchUnknown checks that making, renaming or discarding a branch returns
// ErrUnknown, and not another failure, if the change was made but the heads that show it
// cannot be read.
func TestBranchUnknown(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		last func(*revision.Cell) bool
		do   func(b *branchTest) error
	}{
		"create": {
			func(c *revision.Cell) bool { return c.State == revision.Open },
			func(b *branchTest) error { _, err := b.db[0].CreateBranch(b.t.Context(), "another"); return err },
		},
		"rename": {
			func(c *revision.Cell) bool { return c.Owner == "renamed" },
			func(b *branchTest) error { return b.branch.Rename(b.t.Context(), "renamed") },
		},
		"discard": {
			func(c *revision.Cell) bool { return c.State == revision.Closed },
			func(b *branchTest) error { return b.branch.Discard(b.t.Context()) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b, s, _ := heldBranch(t)
				s.last.Store(&c.last)
				if err := c.do(b); !errors.Is(err, ErrUnknown) {
					t.Errorf("got %v", err)
				}
				s.last.Store(nil)
				s.blind.Store(false)
			})
		})
	}
}

// TestBranchBesideSlowCommit checks that making a branch waits for an earlier commit that
// stays undecided for a lease.
func TestBranchBesideSlowCommit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &heldStore{Mem: tabletest.NewMem()}
		o := fast
		o.Lease = 20 * pastPatience
		b := newBranchTest(t, s, o)
		s.trunk.Store(true)
		held := func() {}
		s.held.Store(&held)
		go b.db[1].Update(t.Context(), func(tx *Tx) error {
			tab := b.db[1].Table("data")
			tx.Write(tab, put("x", "p", "slow"))
			tx.Mark(tab, []byte("x"), Mark{Kind: MarkUpdate})
			return nil
		})
		synctest.Wait()
		began := time.Now()
		b.create("another")
		if time.Since(began) < pastPatience {
			t.Errorf("it took %v: nothing was undecided", time.Since(began))
		}
	})
}

// TestBranchDiscardedWhileMerging checks that a branch cannot be discarded while it is
// being merged, because the merge may be decided already.
func TestBranchDiscardedWhileMerging(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, _, other := heldBranch(t)
		w := b.db[1].commits.(*cluster).writer.Load()
		w.mu.Lock()
		p, err := w.newCommit(&journal.Record{Kind: journal.Merge})
		w.mu.Unlock()
		if err != nil {
			t.Fatal(err)
		}
		other(func(c *revision.Cell) { c.State, c.Merge = revision.Merging, p.rec.Revision })
		if err := b.branch.Discard(t.Context()); !errors.Is(err, ErrConflict) {
			t.Errorf("got %v", err)
		}
		// The merge was never begun, so the branch is open again after a lease.
		eventually(t, "it is discarded", time.Minute, func() bool { return b.branch.Discard(t.Context()) == nil })
		w.finalise(p, journal.Aborted)
	})
}
