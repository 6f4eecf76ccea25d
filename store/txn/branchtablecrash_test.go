package txn

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-4dac0d86/ldapd/store/lsm"
	"github.com/seed-4dac0d86/ldapd/store/lsm/lsmtest"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// lineStep is one step of TestLinesPowerLoss.
type lineStep func(ctx context.Context, db *DB) error

// setIn sets two columns of a row in a branch, or on the trunk if branch is empty.
func setIn(branch, row, v string) lineStep {
	return func(ctx context.Context, db *DB) error {
		fn := func(tx *Tx) error {
			tab := db.Table("data")
			m := put(row, "p", v)
			m.Cells = append(m.Cells, table.Cell{Family: 'c', Qualifier: []byte(v), Value: []byte(v)})
			tx.Write(tab, m)
			tx.Mark(tab, []byte(row), Mark{Kind: MarkValue, Hash: uint64(v[0])})
			return nil
		}
		if branch == "" {
			_, err := db.Update(ctx, fn)
			return err
		}
		b, err := db.Branch(branch)
		if err == nil {
			_, err = b.Update(ctx, fn)
		}
		return err
	}
}

func withBranch(name string, do func(ctx context.Context, b *Branch) error) lineStep {
	return func(ctx context.Context, db *DB) error {
		b, err := db.Branch(name)
		if err == nil {
			err = do(ctx, b)
		}
		return err
	}
}

func begin(name string) lineStep {
	return func(ctx context.Context, db *DB) error {
		_, err := db.CreateBranch(ctx, name)
		return err
	}
}

func mergeIn(ctx context.Context, b *Branch) error {
	_, err := b.Merge(ctx, nil)
	return err
}

func discardIn(ctx context.Context, b *Branch) error { return b.Discard(ctx) }

// lineSteps make three branches, change rows in the branches and on the trunk, merge one branch
// and discard another. Two commits conflict if they set values with the same first letter in
// one row.
var lineSteps = []lineStep{
	setIn("", "x", "old"), begin("merged"), setIn("merged", "x", "branch"), setIn("", "x", "trunk"),
	begin("clashes"), setIn("clashes", "y", "same"), begin("discarded"), setIn("discarded", "x", "gone"),
	setIn("", "y", "sure"), setIn("merged", "z", "much more than fits into one piece"),
	withBranch("merged", mergeIn), setIn("discarded", "z", "gone too"), setIn("", "z", "another long text for the row"),
	withBranch("discarded", discardIn), setIn("", "x", "last"), setIn("clashes", "x", "here"),
}

// describe returns everything that readers of a store see: the newest state, and each branch
// with its clashes.
func describe(ctx context.Context, db *DB) (string, error) {
	read := func(s *Snapshot) (text string, err error) {
		for row, err := range s.Scan(ctx, db.Table("data"), table.Range{}, table.Select{Families: []table.Family{'a', 'c'}}) {
			if err != nil {
				return "", err
			}
			text += " " + string(row.Key)
			for _, c := range row.Cells {
				text += fmt.Sprintf(" %s=%s", c.Qualifier, c.Value)
			}
		}
		return text, nil
	}
	now := db.Snapshot()
	defer now.Close()
	text, err := read(now)
	if err != nil {
		return "", err
	}
	for _, b := range db.Branches() {
		s, err := b.Snapshot(ctx)
		if err != nil {
			return "", err
		}
		own, err := read(s)
		s.Close()
		if err != nil {
			return "", err
		}
		text += "\n" + b.Name() + ":" + own
		clashes, err := b.Clashes(ctx)
		if err != nil {
			return "", err
		}
		for _, c := range clashes {
			text += fmt.Sprintf(" (clash in %s)", c.Row)
		}
	}
	return text, nil
}

// TestLinesPowerLoss simulates a power loss at each sync of a store with branches. It
// checks that the reopened store shows the state after some step, that no acknowledged
// step is lost, and that the store can be used.
func TestLinesPowerLoss(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	start := func(fs vfs.FS) (table.Store, *DB) {
		s, err := lsm.Open(lsm.Options{Path: "store", FS: fs, Cache: 1 << 20, MemTable: 16 << 10})
		if err == nil {
			err = s.Create(ctx, lineSpec)
		}
		var db *DB
		if err == nil {
			db, err = Open(ctx, s, Options{})
		}
		if err != nil {
			t.Fatal(err)
		}
		return s, db
	}
	stop := func(s table.Store, db *DB) {
		if err := db.Close(ctx); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	seen := []string{""}
	load := func(fs vfs.FS, acked func(int)) {
		s, db := start(fs)
		defer stop(s, db)
		for i, step := range lineSteps {
			if err := step(ctx, db); err != nil {
				t.Fatalf("step %d: %v", i, err)
			}
			acked(i + 1)
			text, err := describe(ctx, db)
			if err != nil {
				t.Fatal(err)
			}
			seen = append(seen, text)
		}
	}
	disks := 0
	lsmtest.PowerLoss(t, 5, load, func(d lsmtest.Disk) {
		disks++
		s, db := start(d.FS)
		defer stop(s, db)
		got, err := describe(ctx, db)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(seen[d.Acked:], got) {
			t.Errorf("what is left is of no step from %d on:\n%s\nsteps:\n%q", d.Acked, got, seen[d.Acked:])
		}
		for _, step := range []lineStep{begin("later"), setIn("later", "x", "later"), setIn("", "x", "now"), withBranch("later", mergeIn)} {
			if err := step(ctx, db); err != nil {
				t.Fatal(err)
			}
		}
		after, err := describe(ctx, db)
		now, _, _ := strings.Cut(after, "\n")
		if err != nil || !strings.Contains(now, " later=later") || !strings.Contains(now, " now=now") {
			t.Errorf("after a merge that followed: %q, %v", now, err)
		}
	})
	if disks < 2*len(lineSteps) {
		t.Errorf("only %d power losses", disks)
	}
}
