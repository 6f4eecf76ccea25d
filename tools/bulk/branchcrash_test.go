package bulk_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/branch"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/partition/search"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest"
	"github.com/seed-4dac0d86/ldapd/store/txn"
	"github.com/seed-4dac0d86/ldapd/tools/bulk"
)

var branchCrashes = flag.Int("branch-crashes", 1, "how often TestImportCrash stops a server at each line of an import into a branch")

// An importCrash is a directory whose server dies during an import into a branch.
type importCrash struct {
	t    *testing.T
	p    *partition.Partition // the server that takes over
	o    txn.Options
	want int // number of entries after a complete import
}

// largeCompany returns a directory that is imported into a branch by several commits.
func largeCompany() string {
	var b strings.Builder
	b.WriteString(company(0))
	for i := range 6 {
		fmt.Fprintf(&b, "dn: uid=%[1]d,ou=people,dc=example,dc=com\nobjectClass: inetOrgPerson\ncn: %[1]d\nsn: %[1]d\n", i)
		for v := range 40 {
			fmt.Fprintf(&b, "description: %d %s\n", v, strings.Repeat("x", 50<<10))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// open opens a store. The returned Faults control the failures of the store.
func (c *importCrash) open(s table.Store, seed uint64) (*partition.Partition, *tabletest.Faults) {
	s, f := tabletest.WithFaults(s, seed)
	if _, ok := s.(table.Batcher); !ok {
		f.SetDelay(time.Millisecond)
	}
	p, err := partition.Open(context.Background(), s, partition.Options{Create: true, Cache: 1 << 20, Txn: c.o})
	must(c.t, err)
	return p, f
}

// runImportCrash lets a server die when an import makes its n-th call to the store. It
// returns the number of entries that the branch had then.
func runImportCrash(t *testing.T, store table.Store, n int, seed uint64) (left int) {
	ctx := context.Background()
	batch, embedded := store.(*tabletest.BatchMem)
	c := &importCrash{t: t, o: txn.Options{Lease: time.Second, InFlight: time.Second}}
	if !embedded { // the clock of synctest starts before the first revision
		c.o.Now = func() time.Time { return time.Now().AddDate(26, 0, 0) }
	}
	dying, f := c.open(store, seed)
	must(t, onlineschema.SetSuffixes(ctx, dying, []string{"dc=example,dc=com"}))
	b, err := branch.Create(ctx, dying, branch.Options{Name: "b"})
	must(t, err)
	if !embedded {
		c.p, _ = c.open(store, 0)
	}
	text := largeCompany()
	c.want = strings.Count(text, "dn: ")
	f.CrashAt(n)
	answer := importInto(t, dying, b, text, false)
	f.CrashAt(1)
	limited, cancel := context.WithTimeout(ctx, time.Second)
	dying.Close(limited)
	cancel()
	if embedded {
		batch.Crash(rand.New(rand.NewPCG(seed, 0)).IntN(3))
		c.p, _ = c.open(store, 0)
	}
	f.Land()
	left = c.goOn(text)
	if answer == nil && left != c.want {
		t.Errorf("it was acknowledged, and %d entries of %d are there", left, c.want)
	}
	must(t, c.p.Close(ctx))
	return left
}

func importInto(t *testing.T, p *partition.Partition, b *branch.Branch, text string, again bool) error {
	_, err := bulk.Import(context.Background(), p, bulk.Options{Files: []string{"-"}, Stdin: strings.NewReader(text), Branch: b, Workers: 1,
		Continue: again, Rejects: filepath.Join(t.TempDir(), "rejects")})
	return err
}

// goOn imports the text again on the server that takes over, and merges the branch. It
// returns the number of entries that the branch had before the second import.
func (c *importCrash) goOn(text string) (left int) {
	c.t.Helper()
	ctx := context.Background()
	c.eventually("a commit in the branch", func(b *branch.Branch) error { return b.Describe(ctx, partition.By{}, "mine") })
	c.eventually("a look at the branch", func(b *branch.Branch) (err error) { left, err = entriesOf(b.Snapshot(ctx)); return err })
	c.eventually("the same import", func(b *branch.Branch) error {
		return importInto(c.t, c.p, b, text, true) // the branch already has some of the entries
	})
	if n, err := entriesOf(state.Newest(c.p), nil); n != 0 || err != nil {
		c.t.Errorf("before the merge: %d entries are seen, %v", n, err)
	}
	c.eventually("the merge", func(b *branch.Branch) error { _, err := b.Merge(ctx, partition.By{}); return err })
	if n, err := entriesOf(state.Newest(c.p), nil); n != c.want || err != nil {
		c.t.Errorf("after the merge: %d entries of %d, %v", n, c.want, err)
	}
	mustCheck(c.t, c.p)
	return left
}

func (c *importCrash) eventually(what string, do func(*branch.Branch) error) {
	c.t.Helper()
	var err error
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if err = c.p.CatchUp(context.Background()); err != nil {
			continue
		}
		var b *branch.Branch
		if b, err = branch.Find(c.p, "b"); err == nil {
			if err = do(b); err == nil {
				return
			}
		}
	}
	c.t.Errorf("%s: %v", what, err)
}

// entriesOf returns the number of entries of a state.
func entriesOf(s *partition.Snapshot, err error) (n int, _ error) {
	if err != nil {
		return 0, err
	}
	defer s.Close()
	q := partition.Query{Scope: op.WholeSubtree, Filter: filter.Resolve(filter.MustParse("(|(uid=*)(ou=*)(dc=*))"), s.Schema())}
	for _, err := range search.Search(context.Background(), s, q) {
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// TestImportCrash lets a server die during an import into a branch. It checks that the
// branch keeps the commits that were made, and that the same import can then be completed.
func TestImportCrash(t *testing.T) {
	t.Parallel()
	for _, embedded := range []bool{true, false} {
		t.Run(fmt.Sprintf("embedded=%v", embedded), func(t *testing.T) {
			t.Parallel()
			met, trials, calls := map[int]int{}, 0, 200 // an import makes fewer than 200 calls
			if embedded {
				calls = 60
			}
			missing := func() bool {
				return slices.ContainsFunc([]int{0, 5, 8}, func(n int) bool { return met[n] < *branchCrashes })
			}
			for seed := 1; missing() && !t.Failed(); seed++ {
				if trials++; trials > 50+50**branchCrashes {
					t.Errorf("not met often enough after %d trials: %v", trials, met)
				}
				n := 1 + rand.New(rand.NewPCG(uint64(seed), 1)).IntN(calls)
				if embedded {
					met[runImportCrash(t, tabletest.NewBatchMem(), n, uint64(seed))]++
				} else {
					synctest.Test(t, func(t *testing.T) { met[runImportCrash(t, tabletest.NewMem(), n, uint64(seed))]++ })
				}
				if t.Failed() {
					t.Logf("seed %d: dies at call %d", seed, n)
				}
			}
			t.Logf("%d trials; so often the branch had so many entries: %v", trials, met)
		})
	}
}
