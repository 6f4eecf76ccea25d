package lsm

import (
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest/conformance"
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
	conformance.Run(t, func(t *testing.T) table.Store { return openTest(t, Options{}) })
}

func TestConformanceInMemory(t *testing.T) {
	conformance.Run(t, func(t *testing.T) table.Store {
		// The memtables are small, so that reads use sorted tables.
		return openTest(t, Options{Path: "store", FS: vfs.NewMem(), NoSync: true, MemTable: 64 << 10})
	})
}

func BenchmarkStore(b *testing.B) {
	conformance.Bench(b, func(b *testing.B) table.Store {
		s, err := Open(Options{Path: b.TempDir()})
		if err != nil {
			b.Fatal(err)
		}
		return s
	})
}

// BenchmarkBulkBehindALargeRow loads small rows after a row of a million cells, such as a
// large group. The memory that the large row leaves behind must not make the small rows
// expensive.
func BenchmarkBulkBehindALargeRow(b *testing.B) {
	ctx := b.Context()
	s := openTest(b, Options{})
	if err := s.Create(ctx, table.Spec{Name: "t", Families: []table.FamilySpec{{Name: 'f'}}}); err != nil {
		b.Fatal(err)
	}
	load, err := s.Bulk(ctx, 1, table.BulkOptions{})
	if err != nil {
		b.Fatal(err)
	}
	defer load.Abort()
	large := table.Mutation{Row: []byte("large"), Cells: make([]table.Cell, 1<<20)}
	for i := range large.Cells {
		large.Cells[i] = table.Cell{Family: 'f', Qualifier: fmt.Appendf(nil, "%07d", i), Value: []byte{1}}
	}
	small := table.Mutation{Row: []byte("small"), Cells: large.Cells[:1]}
	if err := load.Add("t", large); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := load.Add("t", small); err != nil {
			b.Fatal(err)
		}
	}
}
