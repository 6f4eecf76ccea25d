package partition_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/branch"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/store/lsm"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest"
)

var (
	branchChanges   = flag.Int("branchchanges", 500, "entries that TestBranchFigures adds in a branch")
	branchConflicts = flag.Int("branchconflicts", 100, "entries that TestBranchFigures changes in a branch and outside")
	branchStore     = flag.String("branchstore", "embedded", "the store of TestBranchFigures: embedded, or many, a store in memory of many servers")
)

// TestBranchFigures fills, checks and merges a large branch and a branch with ten entries,
// and lists many conflicts. It prints how long each step takes and what each merge writes.
// It checks that the first and the last entry of each branch are there afterwards, that
// merges write few keys, and that the conflicts are found. It does not check times, since
// other processes share the machine.
func TestBranchFigures(t *testing.T) {
	ctx := context.Background()
	var s table.Store = tabletest.NewMem()
	if *branchStore == "embedded" {
		l, err := lsm.Open(lsm.Options{Path: t.TempDir()})
		must(t, err)
		defer l.Close()
		s = l
	}
	p, err := partition.Open(ctx, s, partition.Options{Format: *storeFormat, Create: true})
	must(t, err)
	defer p.Close(ctx)
	must(t, onlineschema.SetSuffixes(ctx, p, []string{"dc=example,dc=com"}))
	f := &branchFigures{figures{t: t, p: p}, s}
	f.add("dc=example,dc=com", "objectClass: organization", "objectClass: dcObject", "o: Example")
	f.add("ou=people,dc=example,dc=com", "objectClass: organizationalUnit")
	f.mergeNew("small", 0, 10)
	f.mergeNew("large", 10, *branchChanges)
	for _, i := range []int{0, 9, 10, *branchChanges + 9} {
		_, err := f.find(benchDN(i))
		must(t, err)
	}
	f.commits("after the merges")
	f.listConflicts(min(*branchConflicts, *branchChanges))
}

type branchFigures struct {
	figures
	store table.Store
}

var figuresBy = partition.By{Name: "cn=admin"}

// measure prints the time and the memory that fn needs, and how many keys it writes.
func (f *branchFigures) measure(what string, fn func()) {
	f.t.Helper()
	debug.FreeOSMemory()
	var most atomic.Int64
	stop := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		for {
			most.Store(max(most.Load(), resident()))
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	})
	before, written := resident(), f.written()
	begin, spent := time.Now(), cpu()
	fn()
	took, used := time.Since(begin), cpu()-spent
	close(stop)
	watching.Wait()
	f.t.Logf("%s: %v, %v of CPU, %d keys written, %d MB of memory before, %d MB at most", what, took.Round(100*time.Microsecond), used.Round(100*time.Microsecond),
		f.written()-written, before>>20, most.Load()>>20)
}

// resident returns the memory of this process, or 0 if it is unknown.
func resident() int64 {
	text, _ := os.ReadFile("/proc/self/statm")
	var all, is int64
	if n, _ := fmt.Sscan(string(text), &all, &is); n < 2 {
		return 0
	}
	return is * int64(os.Getpagesize())
}

// written returns the number of keys that the store has written, or 0 if the store is not
// embedded.
func (f *branchFigures) written() int64 {
	if s, ok := f.store.(*lsm.Store); ok {
		return s.Metrics().KeysWritten
	}
	return 0
}

// stage calls fn in a branch for each i from 0 to n-1, up to a thousand times in each commit.
func (f *branchFigures) stage(b *branch.Branch, n int, fn func(tx *partition.Tx, i int) error) {
	f.t.Helper()
	for done := 0; done < n; done += 1000 {
		_, err := b.Update(context.Background(), figuresBy, func(tx *partition.Tx) error {
			for i := done; i < min(done+1000, n); i++ {
				if err := fn(tx, i); err != nil {
					return err
				}
			}
			return nil
		})
		must(f.t, err)
	}
}

// commits makes a thousand commits on the trunk.
func (f *branchFigures) commits(when string) {
	f.t.Helper()
	f.measure("1,000 commits "+when, func() {
		for i := range 1000 {
			must(f.t, update(f.t, f.p, func(tx *partition.Tx) error {
				return replace(tx, "dc=example,dc=com", fmt.Sprintf("o: Example %d", i))
			}))
		}
	})
}

func replace(tx *partition.Tx, at, line string) error {
	return tx.Modify(context.Background(), name(at), []op.Modification{{Kind: op.ModReplace, PartialAttribute: attrs(line)[0]}})
}

// mergeNew adds n people in a branch, makes a thousand commits outside, and merges.
func (f *branchFigures) mergeNew(called string, from, n int) {
	f.t.Helper()
	ctx := context.Background()
	b, err := branch.Create(ctx, f.p, branch.Options{Name: called, By: figuresBy})
	must(f.t, err)
	f.measure(fmt.Sprintf("%d entries added in a branch", n), func() {
		f.stage(b, n, func(tx *partition.Tx, i int) error {
			_, err := tx.Add(ctx, name(benchDN(from+i)), benchPerson(from+i), false)
			return err
		})
	})
	f.commits("beside the branch")
	f.measure("checking it", func() {
		conflicts, err := b.Conflicts(ctx)
		must(f.t, err)
		if len(conflicts) > 0 {
			f.t.Fatalf("conflicts of new entries: %v", conflicts)
		}
	})
	written := f.written()
	f.measure("merging it", func() {
		_, err = b.Merge(ctx, figuresBy)
		must(f.t, err)
	})
	if n := f.written() - written; n > 100 {
		f.t.Errorf("the merge wrote %d keys", n)
	}
}

// listConflicts changes entries in a branch and outside, and lists the conflicts.
func (f *branchFigures) listConflicts(n int) {
	f.t.Helper()
	ctx := context.Background()
	b, err := branch.Create(ctx, f.p, branch.Options{Name: "conflicts", By: figuresBy})
	must(f.t, err)
	f.stage(b, n, func(tx *partition.Tx, i int) error {
		return replace(tx, benchDN(i), fmt.Sprint("sn: in the branch ", i))
	})
	for i := range n {
		must(f.t, update(f.t, f.p, func(tx *partition.Tx) error { return replace(tx, benchDN(i), fmt.Sprint("sn: outside ", i)) }))
	}
	f.measure(fmt.Sprintf("listing %d conflicts", n), func() {
		found, err := b.Conflicts(ctx)
		must(f.t, err)
		if len(found) != n {
			f.t.Fatalf("%d conflicts, want %d", len(found), n)
		}
	})
	must(f.t, b.Discard(ctx))
}
