package lsm

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/seed-4dac0d86/ldapd/table"
	"github.com/seed-4dac0d86/ldapd/table/tabletest"
)

func openTest(t testing.TB, o Options) *Store {
	t.Helper()
	if o.Path == "" {
		o.Path = t.TempDir()
	}
	if o.Cache == 0 {
		o.Cache = 8 << 20
	}
	if o.Logf == nil {
		o.Logf = t.Logf
	}
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestConformance(t *testing.T) {
	tabletest.Run(t, func(t *testing.T) table.Store { return openTest(t, Options{}) })
}

func TestConformanceInMemory(t *testing.T) {
	tabletest.Run(t, func(t *testing.T) table.Store {
		// Small memtables, so that reads go through sorted tables.
		return openTest(t, Options{Path: "store", FS: vfs.NewMem(), NoSync: true, MemTable: 64 << 10})
	})
}

func BenchmarkStore(b *testing.B) {
	tabletest.Bench(b, func(b *testing.B) table.Store {
		s, err := Open(Options{Path: b.TempDir()})
		if err != nil {
			b.Fatal(err)
		}
		return s
	})
}
