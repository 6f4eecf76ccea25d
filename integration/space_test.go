package integration

import (
	"context"
	"flag"
	"fmt"
	"math"
	"os"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/partition/verify"
	"github.com/seed-4dac0d86/ldapd/partition/write"
	"github.com/seed-4dac0d86/ldapd/store/hbase/hbasetest"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/txn"
)

var (
	spacePeople = flag.Int("people", 100, "entries that are overwritten until space comes back, in hundreds")
	spaceRounds = flag.Int("rounds", 6, "times that they are")
)

// spacePartition opens a directory with a long lease, because the machine may be slow.
func spacePartition(t *testing.T, s table.Store) *partition.Partition {
	t.Helper()
	ctx := context.Background()
	p, err := partition.Open(ctx, s, partition.Options{Create: true, Indexes: []catalog.Index{},
		Txn: txn.Options{Lease: time.Minute, SecretAge: time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close(ctx) })
	if err := onlineschema.SetSuffixes(ctx, p, []string{suffix}); err != nil {
		t.Fatal(err)
	}
	return p
}

// writeRound adds the people or overwrites them.
func writeRound(t *testing.T, p *partition.Partition, round int, add bool) {
	t.Helper()
	ctx := context.Background()
	by := partition.By{Name: "cn=admin"}
	for i := 0; i < *spacePeople; i += 100 {
		_, err := write.Update(ctx, p, by, func(tx *partition.Tx) error {
			for k := i; k < i+100; k++ {
				name := mustParse(fmt.Sprintf("cn=p%d,%s", k, suffix))
				values := []op.PartialAttribute{{Description: "sn", Values: [][]byte{fmt.Appendf(nil, "round %d", round)}}, {Description: "description", Values: [][]byte{fmt.Appendf(nil, "%0300d", (k+1)*(round+1)*7919)}}, {Description: "userPassword", Values: [][]byte{fmt.Appendf(nil, "{SSHA}%d of %d", round, k)}}}
				var err error
				if add {
					class := op.PartialAttribute{Description: "objectClass", Values: [][]byte{[]byte("person")}}
					_, err = tx.Add(ctx, name, append(values, class), false)
				} else {
					var ms []op.Modification
					for _, v := range values {
						ms = append(ms, op.Modification{Kind: op.ModReplace, PartialAttribute: v})
					}
					err = tx.Modify(ctx, name, ms)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// settledSize waits until the size of the tables of a prefix has not changed for some time, and
// returns the size. HBase archives the files that compactions have replaced, but only after a
// delay. So if the size has settled but is larger than the parameter enough, settledSize waits
// until a minute has passed.
func settledSize(t *testing.T, hb *hbasetest.Instance, prefix string, enough int64) (size int64) {
	t.Helper()
	end := time.Now().Add(time.Minute)
	for same := 0; same < 12 || size > enough && time.Now().Before(end); time.Sleep(300 * time.Millisecond) {
		now, err := hb.Size(prefix + "_")
		if err != nil {
			t.Fatal(err)
		}
		if same++; now != size {
			size, same = now, 0
		}
	}
	return size
}

// fillUp makes a directory and overwrites its people in the given number of rounds. It returns
// the size on disk before and after a collection of everything that nobody can read. The
// parameter enough is the expected upper bound of the second size.
func fillUp(t *testing.T, hb *hbasetest.Instance, rounds int, enough int64) (before, after int64) {
	t.Helper()
	ctx := context.Background()
	prefix := hbasetest.Prefix(t)
	store := openPrefix(t, hb.Quorum(), prefix)
	p := spacePartition(t, store)
	if _, err := write.Update(ctx, p, partition.By{Name: "cn=admin"}, func(tx *partition.Tx) error {
		_, err := tx.Add(ctx, mustParse(suffix), []op.PartialAttribute{{Description: "objectClass", Values: [][]byte{[]byte("domain")}}}, false)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	writeRound(t, p, 0, true)
	for round := range rounds {
		writeRound(t, p, round+1, false)
	}
	if err := store.(table.Reclaimer).Purge(ctx); err != nil {
		t.Fatal(err)
	}
	before = settledSize(t, hb, prefix, math.MaxInt64)
	s := state.Newest(p)
	last := s.Revision()
	s.Close()
	collect := func(o txn.CollectOptions) {
		if _, err := p.DB.Collect(ctx, o); err != nil {
			t.Fatal(err)
		}
	}
	for p.DB.Horizon() < last {
		collect(txn.CollectOptions{})
	}
	collect(txn.CollectOptions{Now: true}) // Now requests compactions
	after = settledSize(t, hb, prefix, enough)
	found := 0
	n, err := verify.Verify(ctx, p, verify.Options{Found: func(f *verify.Finding) error { found++; t.Log(f); return nil }})
	if err != nil || n != *spacePeople+1 || found > 0 {
		t.Errorf("%d entries, %d findings, %v", n, found, err)
	}
	return before, after
}

// TestSpaceComesBackOnHBase overwrites people many times, and runs a collection, which
// requests major compactions from HBase. Afterwards, the people must use little more
// space than people who were written once.
func TestSpaceComesBackOnHBase(t *testing.T) {
	t.Parallel()
	if os.Getenv(hbasetest.QuorumEnv) != "" {
		t.Skip("it looks at the files of an HBase of its own")
	}
	hb := hbasetest.Shared(t)
	_, fresh := fillUp(t, hb, 0, math.MaxInt64)
	full, used := fillUp(t, hb, *spaceRounds, fresh*3/2)
	t.Logf("written once: %d bytes; %d times: %d, collected %d", fresh, *spaceRounds+1, full, used)
	if used > fresh*3/2 || full < 2*fresh {
		t.Error("want a collection to bring it from more than twice to less than one and a half times")
	}
}
