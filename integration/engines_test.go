// Package integration tests the whole program on both engines: a real HBase if Java and
// Maven are found, and the embedded store.
package integration

import (
	"context"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-4dac0d86/ldapd/internal/hbasetest"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/configure"
	"github.com/seed-4dac0d86/ldapd/table"
	"github.com/seed-4dac0d86/ldapd/table/hbase"
	"github.com/seed-4dac0d86/ldapd/table/lsm"
)

const suffix = "dc=example,dc=com"

// engine opens an empty store.
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

// openHBase opens a store with a prefix of its own.
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

// openPartition makes an empty directory with the suffix and a few indexes. It makes only
// a few because every index is a table, which takes HBase a while to create.
func openPartition(t testing.TB, s table.Store, indexes ...configure.Index) *partition.Partition {
	t.Helper()
	ctx := context.Background()
	p, err := partition.Open(ctx, s, partition.Options{Create: true, Indexes: indexes, Cache: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close(ctx) })
	if err := configure.SetSuffixes(ctx, p, []string{suffix}); err != nil {
		t.Fatal(err)
	}
	return p
}
