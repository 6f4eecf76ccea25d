package txn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/journal"
	"github.com/seed-4dac0d86/ldapd/store/revision"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest"
)

// branchTest is a store with two servers, and a branch that the first server made. On a
// store of one server, both elements of db are that server.
type branchTest struct {
	t      *testing.T
	s      table.Store
	db     [2]*DB
	branch *Branch
}

func newBranchTest(t *testing.T, s table.Store, o Options) *branchTest {
	t.Helper()
	b := &branchTest{t: t, s: s}
	for i := range b.db {
		if _, ok := s.(table.Batcher); ok && i > 0 {
			b.db[i] = b.db[0]
			break
		}
		b.db[i] = open(t, b.s, o)
		eventually(t, "it writes", 10*time.Second, func() bool { return b.db[i].Refusal() == nil })
	}
	b.set(0, "x", "old")
	b.branch = b.create("staging")
	return b
}

// eachBranchStore runs a test on every kind of store, and on the engine lsm, which stores
// each small family of a row as one image.
func eachBranchStore(t *testing.T, o Options, test func(t *testing.T, b *branchTest)) {
	kinds := append(slices.Clone(stores), storeKind{"lsm", nil})
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(t *testing.T) {
				if kind.make == nil {
					kind.make = func() table.Store { return lsmStore(t) }
				}
				test(t, newBranchTest(t, kind.make(), o))
			})
		})
	}
}

func lsmStore(t *testing.T) table.Store {
	s := openLSM(t, t.TempDir())
	t.Cleanup(func() { s.Close() })
	return s
}

func (b *branchTest) create(name string) *Branch {
	b.t.Helper()
	branch, err := b.db[0].CreateBranch(context.Background(), name)
	if err != nil {
		b.t.Fatal(err)
	}
	return branch
}

func (b *branchTest) set(server int, row, v string) table.Revision {
	b.t.Helper()
	r, err := set(b.db[server], row, v)
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

// stage sets a row in a branch.
func (b *branchTest) stage(branch *Branch, row, v string) table.Revision {
	b.t.Helper()
	tab := b.db[0].Table("data")
	r, err := branch.Update(context.Background(), func(tx *Tx) error {
		m := put(row, "p", v)
		m.Cells = append(m.Cells, table.Cell{Family: secretFamily, Qualifier: []byte("s"), Value: []byte(v)})
		tx.Write(tab, m)
		tx.Mark(tab, []byte(row), Mark{Kind: MarkUpdate})
		return nil
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

func (b *branchTest) in(branch *Branch, row string) string {
	b.t.Helper()
	s, err := branch.Snapshot(context.Background())
	if err != nil {
		b.t.Fatal(err)
	}
	defer s.Close()
	return value(b.t, s, b.db[0].Table("data"), row, "p")
}

func (b *branchTest) at(r table.Revision, row string) string {
	b.t.Helper()
	if err := b.db[0].CatchUp(context.Background()); err != nil {
		b.t.Fatal(err)
	}
	s, err := b.db[0].At(context.Background(), r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer s.Close()
	return value(b.t, s, b.db[0].Table("data"), row, "p")
}

func (b *branchTest) merge() (table.Revision, error) {
	return b.branch.Merge(context.Background(), []byte("merge"))
}

func (b *branchTest) want(what, got, want string) {
	b.t.Helper()
	if got != want {
		b.t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// TestBranch checks who sees the commits of a branch before and after its merge. A state
// of the past must show the branch's commits if the state is not older than the merge.
func TestBranch(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	eachBranchStore(t, fast, func(t *testing.T, b *branchTest) {
		staged := b.stage(b.branch, "x", "new")
		if !revision.SlotOf(staged).IsBranch() {
			t.Errorf("the revision %s does not tell that it is a branch's", staged)
		}
		between := b.set(1, "y", "later")
		b.want("the trunk", b.at(between, "x"), "old")
		b.want("the branch", b.in(b.branch, "x"), "new")
		b.want("the branch, of what came after its base", b.in(b.branch, "y"), "")
		other := b.create("other")
		b.want("another branch", b.in(other, "x"), "old")
		if _, err := b.db[1].CreateBranch(ctx, "staging"); !errors.Is(err, ErrBranchExists) {
			t.Errorf("making it again: %v", err)
		}
		there, err := b.db[1].Branch("staging")
		if err != nil {
			t.Fatal(err)
		}
		b.stage(there, "z", "by the other server")
		m, err := b.merge()
		if err != nil {
			t.Fatal(err)
		}
		b.want("the merge", b.at(m, "x"), "new")
		b.want("the merge, of the second server", b.at(m, "z"), "by the other server")
		b.want("before the merge", b.at(between, "x"), "old")
		b.want("another branch", b.in(other, "x"), "old")
		b.want("a later branch", b.in(b.create("later"), "x"), "new")
		if err := b.db[1].AtLeast(ctx, m); err != nil {
			t.Fatal(err)
		}
		rec, err := b.db[1].log.Get(ctx, m)
		if err != nil || rec.Kind != journal.Merge || string(rec.Message) != "merge" {
			t.Errorf("journal: %+v, %v", rec, err)
		}
		if _, err := b.merge(); !errors.Is(err, ErrBranch) {
			t.Errorf("merging it again: %v", err)
		}
	})
}

// TestBranchesBesideAnOldOne merges more than MaxBranches branches, one after the other, while
// an older branch is open. The open branch keeps the cells of the merged branches in use.
// Nevertheless there must be a slot for each new branch, and the merge of the open branch must
// report its clash.
func TestBranchesBesideAnOldOne(t *testing.T) {
	t.Parallel()
	o := fast
	o.Lease = 10 * time.Second // nothing here waits for a lease, and 64 merges take a while
	eachBranchStore(t, o, func(t *testing.T, b *branchTest) {
		for n := range MaxBranches + 1 {
			branch := b.create(fmt.Sprint("b", n))
			b.stage(branch, fmt.Sprint("row", n), "new")
			if _, err := branch.Merge(context.Background(), nil); err != nil {
				t.Fatal(err)
			}
		}
		b.stage(b.branch, "row3", "too late")
		var clash *ClashError
		if _, err := b.merge(); !errors.As(err, &clash) || len(clash.Clashes) != 1 {
			t.Errorf("the old branch changed what another one had: %v", err)
		}
	})
}

// TestBranchClash checks the clashes that a merge reports. A clash must be reported if, after
// the branch's base, a commit of the trunk or the merge of another branch changed a row that
// the branch changed too. No other clash may be reported.
func TestBranchClash(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	eachBranchStore(t, fast, func(t *testing.T, b *branchTest) {
		b.stage(b.branch, "x", "new")
		b.set(1, "y", "elsewhere")
		if all, err := b.branch.Clashes(ctx); err != nil || len(all) > 0 {
			t.Fatal(all, err)
		}
		first := b.create("first")
		b.stage(first, "x", "first")
		if _, err := first.Merge(ctx, nil); err != nil {
			t.Fatal(err)
		}
		var clash *ClashError
		if _, err := b.merge(); !errors.As(err, &clash) || len(clash.Clashes) != 1 || string(clash.Clashes[0].Row) != "x" {
			t.Fatalf("merging: %v", err)
		}
		if !revision.SlotOf(clash.Clashes[0].With).IsBranch() {
			t.Errorf("the clash is with %s", clash.Clashes[0].With)
		}
		b.stage(b.branch, "w", "still open")
		b.set(1, "w", "trunk")
		if all, err := b.branch.Clashes(ctx); err != nil || len(all) != 2 {
			t.Errorf("%v, %v", all, err)
		}
	})
}

// TestBranchMeets checks that a transaction that began before a merge does not overwrite
// the merge's changes.
func TestBranchMeets(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	eachBranchStore(t, fast, func(t *testing.T, b *branchTest) {
		b.stage(b.branch, "x", "staged")
		tab, tries := b.db[1].Table("data"), 0
		_, err := b.db[1].Update(ctx, func(tx *Tx) error {
			if tries++; tries == 1 {
				if _, err := b.merge(); err != nil {
					return err
				}
			}
			old := value(t, tx, tab, "x", "p")
			tx.Write(tab, put("x", "p", old+" and more"))
			tx.Mark(tab, []byte("x"), Mark{Kind: MarkUpdate})
			return nil
		})
		if err != nil || tries != 2 {
			t.Fatalf("%d attempts: %v", tries, err)
		}
		s := b.db[1].Snapshot()
		defer s.Close()
		b.want("after the merge", value(t, s, tab, "x", "p"), "staged and more")
	})
}

// TestBranchDiscard checks that a discarded branch leaves nothing.
func TestBranchDiscard(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	eachBranchStore(t, fast, func(t *testing.T, b *branchTest) {
		r := b.stage(b.branch, "x", "staged")
		s, err := b.branch.Snapshot(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if err := b.branch.Discard(ctx); err != nil {
			t.Fatal(err)
		}
		if _, err := get(s, b.db[0].Table("data"), "x"); !errors.Is(err, ErrBranch) {
			t.Errorf("reading it: %v", err)
		}
		for name, do := range map[string]func() error{
			"update": func() error { _, err := b.branch.Update(ctx, func(*Tx) error { return nil }); return err },
			"merge":  func() error { _, err := b.merge(); return err },
			"read":   func() error { _, err := b.branch.Snapshot(ctx); return err },
		} {
			if err := do(); !errors.Is(err, ErrBranch) {
				t.Errorf("%s: %v", name, err)
			}
		}
		eventually(t, "its slot is free", 10*time.Second, func() bool {
			return b.db[0].current.Load().heads.Cell(revision.SlotOf(r)).State == revision.Free
		})
		if s, ok := b.s.(interface{ Revisions() []table.Revision }); ok && slices.Contains(s.Revisions(), r) {
			t.Error("its cells remain")
		}
		if again := b.create("staging"); again.slot != b.branch.slot || again.incarnation != 2 {
			t.Errorf("slot %d, incarnation %d", again.slot, again.incarnation)
		}
	})
}

// TestBranchSecrets checks that a branch shows the secrets that were set in the branch, and
// shows all other secrets as the trunk has them now.
func TestBranchSecrets(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	o := fast
	o.Secrets = map[string][]table.Family{"data": {secretFamily}}
	eachBranchStore(t, o, func(t *testing.T, b *branchTest) {
		tab := b.db[0].Table("data")
		b.stage(b.branch, "x", "own")
		if _, err := b.db[1].Update(ctx, func(tx *Tx) error {
			m := put("y", "p", "after the base")
			m.Cells = append(m.Cells, table.Cell{Family: secretFamily, Qualifier: []byte("s"), Value: []byte("today")})
			tx.Write(tab, m)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if err := b.db[0].CatchUp(ctx); err != nil {
			t.Fatal(err)
		}
		s, err := b.branch.Snapshot(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		for row, want := range map[string][2]string{"x": {"own", "own"}, "y": {"", "today"}} {
			got, err := s.Get(ctx, tab, []byte(row), table.Select{Families: []table.Family{'a', secretFamily}})
			if err != nil {
				t.Fatal(err)
			}
			for i, f := range []table.Family{'a', secretFamily} {
				v := ""
				for _, c := range got.Family(f) {
					v = string(c.Value)
				}
				b.want(row, v, want[i])
			}
		}
	})
}

// TestBranchGarbage collects as much as possible before and after a merge, and checks
// what the kept states show.
func TestBranchGarbage(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	o := fast
	o.SecretAge = time.Millisecond
	eachBranchStore(t, o, func(t *testing.T, b *branchTest) {
		b.stage(b.branch, "x", "new")
		b.set(1, "y", "1")
		if err := b.db[0].CatchUp(ctx); err != nil {
			t.Fatal(err)
		}
		kept, err := b.db[0].Checkpoint(ctx, "before")
		if err != nil {
			t.Fatal(err)
		}
		collect := func() {
			t.Helper()
			for range 2 {
				if _, err := b.db[0].Collect(ctx, CollectOptions{All: true}); err != nil {
					t.Fatal(err)
				}
			}
		}
		b.set(1, "x2", "1")
		collect()
		b.want("the branch, whose base is kept", b.in(b.branch, "x"), "new")
		b.want("the branch, whose base is kept", b.in(b.branch, "y"), "")
		m, err := b.merge()
		if err != nil {
			t.Fatal(err)
		}
		slot := b.branch.slot
		eventually(t, "its slot is free", 10*time.Second, func() bool {
			b.set(0, "z", "1")
			return b.db[0].current.Load().heads.Cell(slot).State == revision.Free
		})
		eventually(t, "the horizon passes the merge", 10*time.Second, func() bool {
			b.set(0, "z", "1")
			collect()
			return b.db[0].Horizon() > m
		})
		collect()
		s := b.db[0].Snapshot()
		defer s.Close()
		b.want("now", value(t, s, b.db[0].Table("data"), "x", "p"), "new")
		b.want("the checkpoint", b.at(kept.Revision, "x"), "old")
		b.want("the checkpoint", b.at(kept.Revision, "y"), "1")
	})
}

// TestBranchHelp checks that after a lease another server ends what a dead server has left half
// done in the cell of a branch. Commits in the branch and the merge of the branch must wait for
// the other server, even if the lease is long.
func TestBranchHelp(t *testing.T) {
	t.Parallel()
	for _, lease := range []time.Duration{fast.Lease, 10 * time.Second} {
		t.Run(lease.String(), func(t *testing.T) {
			o := fast
			o.Lease = lease
			bubble(t, func(t *testing.T) { testBranchHelp(t, newBranchTest(t, newMem(), o)) })
		})
	}
}

func testBranchHelp(t *testing.T, b *branchTest) {
	ctx := context.Background()
	w := b.db[0].commits.(*cluster).writer.Load()
	leave := func(change func(*revision.Cell)) {
		t.Helper()
		c, err := w.readBranch(ctx, b.branch)
		if err != nil {
			t.Fatal(err)
		}
		next := c.cell
		change(&next)
		if done, err := c.swap(ctx, next); !done || err != nil {
			t.Fatal(done, err)
		}
	}
	r := b.stage(b.branch, "x", "1")
	reserved := r + 1<<24
	leave(func(c *revision.Cell) { c.Undecided = []table.Revision{reserved} })
	if last := b.stage(b.branch, "x", "2"); last < reserved {
		t.Errorf("%s is below the void %s", last, reserved)
	}
	leave(func(c *revision.Cell) { c.State = revision.Frozen })
	b.stage(b.branch, "x", "3")
	w.mu.Lock()
	p, err := w.newCommit(&journal.Record{Kind: journal.Merge})
	w.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	leave(func(c *revision.Cell) { c.State, c.Merge = revision.Merging, p.rec.Revision })
	b.stage(b.branch, "x", "4")
	w.finalise(p, journal.Aborted)
	leave(func(c *revision.Cell) { c.Undecided = []table.Revision{c.Head + 1<<24} })
	if _, err := b.merge(); err != nil {
		t.Fatal(err)
	}
	if c := b.db[1]; c.CatchUp(ctx) != nil || c.current.Load().heads.Visible(reserved) {
		t.Error("the void revision is visible")
	}
}

// TestBranchRename checks that a renamed branch keeps its commits, and that two branches
// cannot have the same name.
func TestBranchRename(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	eachBranchStore(t, fast, func(t *testing.T, b *branchTest) {
		b.stage(b.branch, "x", "new")
		other := b.create("other")
		if err := b.branch.Rename(ctx, "other"); !errors.Is(err, ErrBranchExists) {
			t.Errorf("taking the name of another: %v", err)
		}
		if err := b.branch.Rename(ctx, "renamed"); err != nil {
			t.Fatal(err)
		}
		if err := other.Rename(ctx, "staging"); err != nil {
			t.Fatal(err)
		}
		if err := b.db[1].CatchUp(ctx); err != nil {
			t.Fatal(err)
		}
		there, err := b.db[1].Branch("renamed")
		if err != nil {
			t.Fatal(err)
		}
		b.stage(there, "z", "under the new name")
		b.want("it", b.in(b.branch, "x"), "new")
		b.want("the other one", b.in(other, "x"), "old")
		if _, err := b.merge(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestRenameOfParked checks that a parked branch gets a single name again if a server
// dies while it renames the branch.
func TestRenameOfParked(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	bubble(t, func(t *testing.T) {
		b := newBranchTest(t, newMem(), fast)
		if err := b.branch.Park(ctx); err != nil {
			t.Fatal(err)
		}
		w, err := b.db[0].commits.(*cluster).holder()
		if err != nil {
			t.Fatal(err)
		}
		c, err := w.readBranch(ctx, b.branch)
		if err != nil {
			t.Fatal(err)
		}
		if done, err := c.setNames(ctx, "staging"+nameSeparator+"renamed"); !done {
			t.Fatal("the first swap:", err)
		}
		if _, err := b.db[1].CreateBranch(ctx, "renamed"); !errors.Is(err, ErrBranchExists) {
			t.Errorf("the next name of a branch: %v", err)
		}
		time.Sleep(10 * fast.Lease)
		b.create("renamed")
		if _, err := b.db[1].Branch("staging"); err != nil {
			t.Errorf("the old name: %v", err)
		}
	})
}

// TestBranchVersion checks that servers that do not know branches refuse a store that
// ever had a branch. Such a server reads cells of versions 1 and 2, and refuses newer
// cells just as this server refuses cells of version 4.
func TestBranchVersion(t *testing.T) {
	t.Parallel()
	eachBranchStore(t, fast, func(t *testing.T, b *branchTest) {
		ctx := context.Background()
		b.stage(b.branch, "x", "new")
		if _, err := b.merge(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "its slot is free", 10*time.Second, func() bool {
			b.set(0, "z", "1")
			return b.db[0].current.Load().heads.Cell(b.branch.slot).State == revision.Free
		})
		h, err := b.db[0].log.Heads(ctx)
		if err != nil {
			t.Fatal(err)
		}
		raw := slices.Clone(h.Raw(b.branch.slot))
		if len(raw) == 0 || raw[0] != 3 {
			t.Fatalf("cell %x", raw)
		}
		raw[0] = 4
		if _, err = revision.DecodeCell(raw); !errors.Is(err, table.ErrNewer) {
			t.Errorf("a newer version: %v", err)
		}
	})
}

// slowStore is a store in which it takes long to write cells of branches into the table "data",
// and to read the versions of its rows.
type slowStore struct {
	*tabletest.Mem
	takes time.Duration
}

type memTable interface {
	table.Table
	table.Versioner
	table.Collector
}

type slowTable struct {
	memTable
	takes time.Duration
}

func (s *slowStore) Table(name string) table.Table {
	if t := s.Mem.Table(name); name != "data" {
		return t
	}
	return slowTable{s.Mem.Table(name).(memTable), s.takes}
}

func (t slowTable) Apply(ctx context.Context, r table.Revision, ms []table.Mutation) error {
	if r.IsStaged() {
		time.Sleep(t.takes)
	}
	return t.memTable.Apply(ctx, r, ms)
}

func (t slowTable) Versions(ctx context.Context, rows [][]byte, f table.Family, after table.Revision) ([]table.Row, error) {
	time.Sleep(t.takes)
	return t.memTable.Versions(ctx, rows, f, after)
}

// TestBranchSlow checks that commits in a branch and the check before a merge may take
// longer than a lease, because the branch's cell is renewed meanwhile.
func TestBranchSlow(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		ctx := context.Background()
		o := fast
		b := newBranchTest(t, &slowStore{newMem(), 3 * o.Lease / 4}, o)
		tab, tries := b.db[0].Table("data"), 0
		began := time.Now()
		_, err := b.branch.Update(ctx, func(tx *Tx) error {
			tries++
			for i := range 3 * applySize {
				row := fmt.Sprintf("row%05d", i)
				tx.Write(tab, put(row, "p", "v"))
				tx.Mark(tab, []byte(row), Mark{Kind: MarkUpdate})
			}
			return nil
		})
		if err != nil || tries != 1 || time.Since(began) < 2*o.Lease {
			t.Fatalf("%d attempts in %v: %v", tries, time.Since(began), err)
		}
		began = time.Now()
		if _, err := b.merge(); err != nil || time.Since(began) < 2*o.Lease {
			t.Fatalf("merged in %v: %v", time.Since(began), err)
		}
		b.want("after the merge", b.at(b.db[0].Snapshot().Max(), "row00000"), "v")
	})
}

// TestMergeThawsAnother merges a branch whose marks conflict with those of another branch that is frozen. The
// merge must thaw that branch, and not itself.
func TestMergeThawsAnother(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		ctx := context.Background()
		b := newBranchTest(t, newMem(), fast)
		tab := b.db[0].Table("data")
		other, err := b.db[0].CreateBranch(ctx, "another")
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range []*Branch{b.branch, other} {
			if _, err := x.Update(ctx, func(tx *Tx) error {
				tx.Write(tab, put("row", "p", "v"))
				tx.Mark(tab, []byte("row"), Mark{Kind: MarkUpdate})
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		w := b.db[0].commits.(*cluster).writer.Load()
		c, err := w.readBranch(ctx, other)
		if err != nil {
			t.Fatal(err)
		}
		frozen := c.cell
		frozen.State = revision.Frozen
		if _, err := c.swap(ctx, frozen); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if _, err := b.merge(); err != nil || time.Since(began) > fast.Lease/2 {
			t.Errorf("merged in %v: %v", time.Since(began), err)
		}
		if c, err = w.readBranch(ctx, other); err != nil || c.cell.State != revision.Open {
			t.Errorf("the other branch is %s: %v", c.cell.State, err)
		}
	})
}

// TestTouchedWithBranches checks what caches learn of commits while a branch is open, and that
// the commits of the trunk, of a branch and of merges share nothing without a lock (make race).
func TestTouchedWithBranches(t *testing.T) {
	eachLive(t, func(t *testing.T, db *DB) {
		const key = 7
		ctx := t.Context()
		tab := db.Table("data")
		first := db.Snapshot()
		defer first.Close()
		ids := []entry.ID{{3}, {1}, {2}}
		var all sync.WaitGroup
		for _, id := range ids {
			all.Go(func() {
				for range 20 {
					if _, err := db.Update(ctx, func(tx *Tx) error {
						tx.Write(tab, put(fmt.Sprint(id[0]), "p", "x"))
						tx.Touch(id, id)
						tx.TouchKeys(9, key, 8, key)
						return nil
					}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Go(func() {
			for i := range 20 {
				b, err := db.CreateBranch(ctx, fmt.Sprint("b", i))
				if err == nil {
					_, err = b.Update(ctx, func(tx *Tx) error {
						tx.Write(tab, put("branch", "p", "x"))
						return nil
					})
				}
				if err == nil && i%2 == 0 {
					_, err = b.Merge(ctx, nil)
				} else if err == nil {
					err = b.Discard(ctx)
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
		all.Go(func() {
			for range 100 {
				if got, ok := db.Snapshot().TouchedWith(key, first.Ordinal()); ok && slices.Contains(got, entry.ID{}) {
					t.Errorf("an id that no commit touched: %v", got)
				}
			}
		})
		all.Wait()
		slices.SortFunc(ids, entry.ID.Compare)
		if got, ok := db.Snapshot().TouchedWith(key, first.Ordinal()); !ok || !slices.Equal(got, ids) {
			t.Errorf("touched with the key: %v, %t, want %v", got, ok, ids)
		}
	})
}
