package txn

import (
	"context"
	"flag"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/store/hbase"
	"github.com/seed-4dac0d86/ldapd/store/hbase/hbasetest"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

var hbaseCrashes = flag.Int("hbase-crashes", 0, "trials of TestBranchCrashOnHBase; 0 skips the test")

// enoughCrashes is a number of trials in which every point of crashLines should occur.
const enoughCrashes = 200

// TestBranchCrashOnHBase is TestBranchCrash on a real HBase, in real time. A trial takes some
// seconds, because the server that takes over waits for the end of a lease.
func TestBranchCrashOnHBase(t *testing.T) {
	if *hbaseCrashes == 0 {
		t.Skip("-hbase-crashes is 0")
	}
	quorum, prefix := hbasetest.Start(t), hbasetest.Prefix(t)
	var mu sync.Mutex
	met := map[string]int{}
	t.Run("trials", func(t *testing.T) {
		for seed := range uint64(*hbaseCrashes) {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				url := fmt.Sprintf("%s%s/%s%d", hbase.Scheme, quorum, prefix, seed)
				point := runBranchCrash(newHBaseWorld(t, url, seed), seed).String()
				mu.Lock()
				defer mu.Unlock()
				met[point]++
			})
		}
	})
	logLines(t, *hbaseCrashes, met)
	for _, l := range crashLines[false] {
		if *hbaseCrashes >= enoughCrashes && met[l] == 0 {
			t.Errorf("no server died at %q", l)
		}
	}
}

// newHBaseWorld returns a world whose store is a new store on a real HBase. The store is
// dropped when the test ends.
func newHBaseWorld(t *testing.T, url string, seed uint64) *world {
	s, err := hbase.Open(t.Context(), url, hbase.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		names, err := s.Names(context.Background())
		if err == nil {
			err = s.Drop(context.Background(), names...)
		}
		if err != nil {
			t.Error(err)
		}
		s.Close()
	})
	w := worldOf(t, s, seed)
	w.o = Options{Lease: 2 * time.Second, Poll: 20 * time.Millisecond, InFlight: time.Second}
	w.patience = time.Minute
	w.revisions = func() []table.Revision { return storedRevisions(t, s, dataSpec, otherSpec) }
	return w
}

// storedRevisions returns the revisions of all cells in some tables.
func storedRevisions(t *testing.T, s table.Store, specs ...table.Spec) (rs []table.Revision) {
	for _, spec := range specs {
		tab := s.Table(spec.Name)
		var keys [][]byte
		for key, err := range tab.(table.Collector).Keys(t.Context(), table.Range{}) {
			if err != nil {
				t.Fatal(err)
			}
			keys = append(keys, key)
		}
		for _, f := range spec.Families {
			rows, err := tab.(table.Versioner).Versions(t.Context(), keys, f.Name, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, row := range rows {
				for _, c := range row.Cells {
					rs = append(rs, c.Revision)
				}
			}
		}
	}
	return rs
}
