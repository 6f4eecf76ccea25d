package conformance

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

// Bench measures a store with rows like those of a directory: each entry has a master
// row, a tree row and some index rows. Bench opens the store once for each benchmark.
func Bench(b *testing.B, open func(b *testing.B) table.Store) {
	b.Run("Get", func(b *testing.B) { BenchGet(b, open(b)) })
	b.Run("GetAbsent", func(b *testing.B) { BenchGetAbsent(b, open(b)) })
	b.Run("Scan", func(b *testing.B) { BenchScan(b, open(b)) })
	b.Run("ScanShort", func(b *testing.B) { BenchScanShort(b, open(b)) })
	b.Run("ScanFilter", func(b *testing.B) { BenchScanFilter(b, open(b)) })
	b.Run("Commit", func(b *testing.B) { BenchCommit(b, open(b)) })
	b.Run("CommitParallel", func(b *testing.B) { BenchCommitParallel(b, open(b)) })
	b.Run("Bulk", func(b *testing.B) { BenchBulk(b, open(b)) })
}

var benchSpecs = []table.Spec{
	{Name: "master", Families: []table.FamilySpec{{Name: 'i'}, {Name: 'u', With: 'i'}, {Name: 'm'}}},
	{Name: "tree", Families: []table.FamilySpec{{Name: 'i'}, {Name: 'n'}}},
	{Name: "index_a", Families: []table.FamilySpec{{Name: 'i'}}},
	{Name: "index_b", Families: []table.FamilySpec{{Name: 'i'}}},
	{Name: "index_c", Families: []table.FamilySpec{{Name: 'i'}}},
}

// benchRows is the number of entries in the benchmarks of reads.
const benchRows = 20_000

// benchID returns ids that are spread over the key space like random UUIDs.
func benchID(n int) []byte {
	id := make([]byte, 16)
	binary.BigEndian.PutUint64(id, uint64(n)*0x9e3779b97f4a7c15)
	binary.BigEndian.PutUint64(id[8:], uint64(n))
	return id
}

func benchEntry(n int) []table.Write {
	id := benchID(n)
	cell := func(f table.Family, q, v string) table.Cell {
		return table.Cell{Family: f, Qualifier: []byte(q), Value: []byte(v)}
	}
	master := table.Mutation{Row: id, Cells: []table.Cell{cell('i', "parent", "0123456789abcdef"), cell('i', "rdn", fmt.Sprintf("uid=user%d", n))}}
	norm := table.Mutation{Row: append([]byte("0123456789abcdef"), fmt.Sprintf("2.5.4.3=user%d", n)...)}
	norm.Cells = append(norm.Cells, table.Cell{Family: 'i', Qualifier: []byte("id"), Value: id})
	for i := range 18 {
		v := fmt.Sprintf("value %d of user %d", i, n)
		master.Cells = append(master.Cells, cell('u', fmt.Sprintf("attribute%02d", i), v))
		norm.Cells = append(norm.Cells, cell('n', fmt.Sprintf("2.5.4.%d=%s", i, v), "12345678"))
	}
	ws := []table.Write{{Table: "master", Mutations: []table.Mutation{master}}, {Table: "tree", Mutations: []table.Mutation{norm}}}
	for i, t := range []string{"index_a", "index_b", "index_c"} {
		k := append(fmt.Appendf(nil, "=value %d\x00\x01", n*(i+1)%5000), id...)
		ws = append(ws, table.Write{Table: t, Mutations: []table.Mutation{{Row: k, Cells: []table.Cell{cell('i', "p", "0123456789abcdef")}}}})
	}
	return ws
}

// benchFill creates the tables and loads the entries.
func benchFill(b *testing.B, s table.Store, rows int) {
	b.Helper()
	ctx := context.Background()
	if err := s.Create(ctx, benchSpecs...); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	by := map[string][]table.Mutation{}
	for i := range rows {
		for _, w := range benchEntry(i) {
			by[w.Table] = append(by[w.Table], w.Mutations...)
		}
	}
	for name, ms := range by {
		for len(ms) > 0 {
			n := min(len(ms), 2000)
			if err := s.Table(name).Apply(ctx, 1, ms[:n]); err != nil {
				b.Fatal(err)
			}
			ms = ms[n:]
		}
	}
}

// BenchGet reads random master rows.
func BenchGet(b *testing.B, s table.Store) {
	benchFill(b, s, benchRows)
	t := s.Table("master")
	rnd := rand.New(rand.NewPCG(1, 2))
	sel := table.Select{View: at(1), Families: []table.Family{'i', 'u'}}
	b.ReportAllocs()
	for b.Loop() {
		row, err := t.Get(context.Background(), benchID(rnd.IntN(benchRows)), sel)
		if err != nil || len(row.Cells) != 20 {
			b.Fatal(len(row.Cells), err)
		}
	}
}

// BenchGetAbsent looks up rows that do not exist.
func BenchGetAbsent(b *testing.B, s table.Store) {
	benchFill(b, s, benchRows)
	t := s.Table("master")
	n := benchRows
	b.ReportAllocs()
	for b.Loop() {
		row, err := t.Get(context.Background(), benchID(n), table.Select{View: at(1), Families: []table.Family{'i', 'u'}})
		if err != nil || len(row.Cells) != 0 {
			b.Fatal(len(row.Cells), err)
		}
		n++
	}
}

// BenchScan reads all normalised values. One operation is one row.
func BenchScan(b *testing.B, s table.Store) {
	benchFill(b, s, benchRows)
	benchScan(b, s, table.Select{View: at(1), Families: []table.Family{'n'}}, benchRows)
}

// BenchScanShort looks up values in an index with scans of four rows.
func BenchScanShort(b *testing.B, s table.Store) {
	benchFill(b, s, benchRows)
	t := s.Table("index_a")
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		rows := 0
		for _, err := range t.Scan(context.Background(), table.Prefix(fmt.Appendf(nil, "=value %d\x00\x01", n%5000)), table.Select{View: at(1)}) {
			if err != nil {
				b.Fatal(err)
			}
			rows++
		}
		if rows != benchRows/5000 {
			b.Fatal(rows)
		}
		n++
	}
}

// BenchScanFilter scans for the few rows that match a substring filter. One operation is
// one examined row.
func BenchScanFilter(b *testing.B, s table.Store) {
	benchFill(b, s, benchRows)
	benchScan(b, s, table.Select{View: at(1), Families: []table.Family{'i'}, Filter: table.HasMatch{
		Family: 'n', Prefix: []byte("2.5.4.7="), Parts: [][]byte{[]byte("user 777")}}}, benchRows)
}

func benchScan(b *testing.B, s table.Store, sel table.Select, rows int) {
	t := s.Table("tree")
	b.ReportAllocs()
	b.ResetTimer()
	for n := 0; n < b.N; n += rows {
		for _, err := range t.Scan(context.Background(), table.Range{}, sel) {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}

// BenchCommit commits entries, one after another.
func BenchCommit(b *testing.B, s table.Store) {
	batcher, ok := s.(table.Batcher)
	if !ok {
		b.Skip("the store has no batches")
	}
	benchFill(b, s, 1000)
	b.ReportAllocs()
	n := 1000
	for b.Loop() {
		n++
		wait, err := batcher.Commit(context.Background(), table.Batch{Revision: table.Revision(n), Writes: benchEntry(n)})
		if err == nil {
			err = wait()
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

// BenchCommitParallel commits entries from eight goroutines for each processor, which share
// fsyncs.
func BenchCommitParallel(b *testing.B, s table.Store) {
	batcher, ok := s.(table.Batcher)
	if !ok {
		b.Skip("the store has no batches")
	}
	benchFill(b, s, 1000)
	var mu sync.Mutex
	n := 1000
	b.SetParallelism(8)
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			mu.Lock()
			n++
			wait, err := batcher.Commit(context.Background(), table.Batch{Revision: table.Revision(n), Writes: benchEntry(n)})
			mu.Unlock()
			if err == nil {
				err = wait()
			}
			if err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// BenchBulk loads entries. One operation is one entry.
func BenchBulk(b *testing.B, s table.Store) {
	bulker, ok := s.(table.Bulker)
	if !ok {
		b.Skip("the store has no loads")
	}
	benchFill(b, s, 0)
	ctx := context.Background()
	entries := make([][]table.Write, min(b.N, 50_000))
	for i := range entries {
		entries[i] = benchEntry(i)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for done := 0; done < b.N; done += len(entries) {
		load, err := bulker.Bulk(ctx, table.Revision(done+1), table.BulkOptions{})
		if err != nil {
			b.Fatal(err)
		}
		for _, e := range entries[:min(len(entries), b.N-done)] {
			for _, w := range e {
				if err := load.Add(w.Table, w.Mutations...); err != nil {
					b.Fatal(err)
				}
			}
		}
		if err := load.Finish(ctx, nil); err != nil {
			b.Fatal(err)
		}
	}
}
