package partition_test

import (
	"context"
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/branches"
	"github.com/seed-4dac0d86/ldapd/partition/configure"
	"github.com/seed-4dac0d86/ldapd/table/lsm"
)

var branchChanges = flag.Int("branchchanges", 2000, "entries that TestBranchFigures adds in a branch")

// TestBranchFigures prints how long it takes to fill, check and merge a large branch, and one
// with ten entries. It checks only that all entries are there afterwards, since other
// processes share the machine.
func TestBranchFigures(t *testing.T) {
	ctx := context.Background()
	s, err := lsm.Open(lsm.Options{Path: t.TempDir()})
	must(t, err)
	defer s.Close()
	p, err := partition.Open(ctx, s, partition.Options{Create: true})
	must(t, err)
	defer p.Close(ctx)
	must(t, configure.SetSuffixes(ctx, p, []string{"dc=example,dc=com"}))
	f := &figures{t, p}
	f.add("dc=example,dc=com", "objectClass: organization", "objectClass: dcObject", "o: Example")
	f.add("ou=people,dc=example,dc=com", "objectClass: organizationalUnit")
	f.mergeNew("small", 0, 10)
	f.mergeNew("large", 10, *branchChanges)
	for _, i := range []int{0, 9, 10, *branchChanges + 9} {
		_, err := f.find(benchDN(i))
		must(t, err)
	}
}

// mergeNew adds n people in a branch, changes a thousand entries outside, and merges.
func (f *figures) mergeNew(branch string, from, n int) {
	f.t.Helper()
	ctx := context.Background()
	by := partition.By{Name: "cn=admin"}
	b, err := branches.Create(ctx, f.p, branches.Options{Name: branch, By: by})
	must(f.t, err)
	begin, spent := time.Now(), cpu()
	for done := 0; done < n; done += 1000 {
		_, err := b.Update(ctx, by, func(tx *partition.Tx) error {
			for i := done; i < min(done+1000, n); i++ {
				if _, err := tx.Add(ctx, name(benchDN(from+i)), benchPerson(from+i), false); err != nil {
					return err
				}
			}
			return nil
		})
		must(f.t, err)
	}
	filled, filling := time.Since(begin), cpu()-spent
	for i := range 1000 {
		must(f.t, update(f.t, f.p, func(tx *partition.Tx) error {
			m := op.Modification{Kind: op.ModReplace, PartialAttribute: attrs(fmt.Sprintf("o: Example %d", i))[0]}
			return tx.Modify(ctx, name("dc=example,dc=com"), []op.Modification{m})
		}))
	}
	begin = time.Now()
	conflicts, err := b.Conflicts(ctx)
	must(f.t, err)
	if len(conflicts) > 0 {
		f.t.Fatalf("conflicts of new entries: %v", conflicts)
	}
	checked := time.Since(begin)
	begin, spent = time.Now(), cpu()
	_, err = b.Merge(ctx, by)
	must(f.t, err)
	f.t.Logf("%d entries added in a branch in %v (%v of CPU); checked against 1,000 commits in %v, merged in %v (%v of CPU)", n,
		filled.Round(time.Millisecond), filling.Round(time.Millisecond), checked.Round(time.Millisecond), time.Since(begin).Round(time.Millisecond), (cpu() - spent).Round(time.Millisecond))
}
