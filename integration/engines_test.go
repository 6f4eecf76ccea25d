// Package integration tests the whole program on both engines: the embedded store and,
// if the machine can run it (see hbasetest.Needs), a real HBase.
package integration

import (
	"context"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/store/hbase"
	"github.com/seed-4dac0d86/ldapd/store/hbase/hbasetest"
	"github.com/seed-4dac0d86/ldapd/store/lsm"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

const suffix = "dc=example,dc=com"

// An engine opens empty stores of one kind.
type engine struct {
	name string
	open func(t testing.TB) table.Store
}

var engines = []engine{
	{"lsm", func(t testing.TB) table.Store {
		s, err := lsm.Open(lsm.Options{Path: "/store", FS: vfs.NewMem()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}},
	{"hbase", func(t testing.TB) table.Store { return openHBase(t, hbasetest.Start(t)) }},
}

// openHBase opens a store whose table prefix no other test uses.
func openHBase(t testing.TB, quorum string) table.Store {
	return openPrefix(t, quorum, hbasetest.Prefix(t))
}

func openPrefix(t testing.TB, quorum, prefix string) table.Store {
	url := "hbase://" + quorum + "/" + prefix
	s, err := hbase.Open(context.Background(), url, hbase.Options{Timeout: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// openPartition makes an empty directory with the suffix and the given indexes. Every
// index is a table, and HBase takes a while to create a table, so tests should use few
// indexes.
func openPartition(t testing.TB, s table.Store, indexes ...catalog.Index) *partition.Partition {
	t.Helper()
	ctx := context.Background()
	p, err := partition.Open(ctx, s, partition.Options{Create: true, Indexes: indexes, Cache: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close(ctx) })
	if err := onlineschema.SetSuffixes(ctx, p, []string{suffix}); err != nil {
		t.Fatal(err)
	}
	return p
}
