package hbase_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"
	"testing"

	"github.com/tsuna/gohbase"
	"github.com/tsuna/gohbase/filter"
	"github.com/tsuna/gohbase/hrpc"
	"golang.org/x/sync/errgroup"

	"github.com/seed-4dac0d86/ldapd/store/hbase/hbasetest"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

const benchRows = 10_000

func benchKey(i int) []byte { return fmt.Appendf(nil, "row-%06d", i) }

// benchTable returns a table whose rows have ten cells, about as many as an entry.
func benchTable(b *testing.B) table.Table {
	b.Helper()
	d := create(b, open(b), data, heads)
	var ms []table.Mutation
	for i := range benchRows {
		ms = append(ms, benchMutation(i))
	}
	apply(b, d, 1, ms...)
	b.ResetTimer()
	return d
}

func benchMutation(i int) table.Mutation {
	m := table.Mutation{Row: benchKey(i)}
	for j := range 9 {
		m.Cells = append(m.Cells, cell('a', fmt.Sprintf("attribute%d\x00", j), fmt.Sprintf("some value %d of row %d", j, i)))
	}
	m.Cells = append(m.Cells, cell('b', fmt.Sprintf("cn=person %d", i%100), "p"))
	return m
}

func BenchmarkGet(b *testing.B) {
	d := benchTable(b)
	for i := 0; b.Loop(); i++ {
		if _, err := d.Get(b.Context(), benchKey(i%benchRows), table.Select{View: upTo(1)}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkGetParallel(b *testing.B) {
	d := benchTable(b)
	var n atomic.Int64
	b.SetParallelism(8)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := d.Get(b.Context(), benchKey(int(n.Add(1))%benchRows), table.Select{View: upTo(1)}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkGetMany100(b *testing.B) {
	d := benchTable(b)
	keys := make([][]byte, 100)
	for i := 0; b.Loop(); i++ {
		for j := range keys {
			keys[j] = benchKey((i*997 + j*37) % benchRows)
		}
		if _, err := d.GetMany(b.Context(), keys, table.Select{View: upTo(1)}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkApply(b *testing.B) {
	d := benchTable(b)
	for i := 0; b.Loop(); i++ {
		apply(b, d, table.Revision(i+2), benchMutation(i%benchRows))
	}
}

func BenchmarkApply1000(b *testing.B) {
	d := benchTable(b)
	ms := make([]table.Mutation, 1000)
	for i := 0; b.Loop(); i++ {
		for j := range ms {
			ms[j] = benchMutation((i*1000 + j) % benchRows)
		}
		apply(b, d, table.Revision(i+2), ms...)
	}
	b.ReportMetric(float64(b.N*len(ms))/b.Elapsed().Seconds(), "rows/s")
}

func BenchmarkSwap(b *testing.B) {
	s := open(b)
	h := create(b, s, heads)
	var old []byte
	for i := 0; b.Loop(); i++ {
		next := fmt.Appendf(nil, "head %d", i)
		ok, err := h.Swap(b.Context(), []byte("r"), 'h', []byte("q"), old, []table.Cell{{Family: 'h', Qualifier: []byte("q"), Value: next}})
		if err != nil || !ok {
			b.Fatal(ok, err)
		}
		old = next
	}
}

func BenchmarkScan(b *testing.B) {
	for _, c := range []struct {
		name string
		s    table.Select
		rows int
	}{
		{"all", table.Select{View: upTo(1)}, benchRows},
		{"one family", table.Select{View: upTo(1), Families: []table.Family{'b'}}, benchRows},
		{"has", table.Select{View: upTo(1), Filter: table.Has{Family: 'b', Qualifier: []byte("cn=person 7")}}, benchRows / 100},
		{"match", table.Select{View: upTo(1), Filter: table.HasMatch{Family: 'b', Prefix: []byte("cn="), Parts: [][]byte{[]byte("son 7")}, AtEnd: true}}, benchRows / 100},
		{"first", table.Select{View: upTo(1), MaxRows: 1}, 1},
	} {
		b.Run(c.name, func(b *testing.B) {
			d := benchTable(b)
			for b.Loop() {
				n := 0
				for _, err := range d.Scan(b.Context(), table.Range{}, c.s) {
					if err != nil {
						b.Fatal(err)
					}
					n++
				}
				if n != c.rows {
					b.Fatalf("%d rows", n)
				}
			}
			b.ReportMetric(float64(b.N*c.rows)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

// BenchmarkRegions finds 3 of 100,000 rows in eight regions, by a scan with a filter, and with gohbase
// alone by eight such scans at once, which return the matching cells only.
func BenchmarkRegions(b *testing.B) {
	const rows, regions = 100_000, 8
	s := open(b)
	spec := data
	for i := 1; i < regions; i++ {
		spec.Splits = append(spec.Splits, benchKey(i*rows/regions))
	}
	d := create(b, s, spec, heads)
	var ms []table.Mutation
	for i := range rows {
		m := benchMutation(i)
		if i%(rows/3) == 7 {
			m.Cells = append(m.Cells, cell('b', "cn=wanted", "p"))
		}
		if ms = append(ms, m); len(ms) == 1000 {
			apply(b, d, 1, ms...)
			ms = nil
		}
	}
	b.Run("scan", func(b *testing.B) {
		for b.Loop() {
			n := 0
			for _, err := range d.Scan(b.Context(), table.Range{}, table.Select{View: upTo(1), Filter: table.Has{Family: 'b', Qualifier: []byte("cn=wanted")}}) {
				if err != nil {
					b.Fatal(err)
				}
				n++
			}
			if n != 3 {
				b.Fatalf("%d rows", n)
			}
		}
	})
	b.Run("raw", func(b *testing.B) {
		cl := gohbase.NewClient(hbasetest.Start(b), gohbase.Logger(slog.New(slog.DiscardHandler)))
		defer cl.Close()
		wanted := filter.NewQualifierFilter(filter.NewCompareFilter(filter.Equal, filter.NewBinaryComparator(filter.NewByteArrayComparable([]byte("cn=wanted")))))
		ends := append([][]byte{nil}, append(spec.Splits, nil)...)
		for b.Loop() {
			var n atomic.Int64
			var g errgroup.Group
			for i := range regions {
				g.Go(func() error {
					scan, err := hrpc.NewScanRange(b.Context(), []byte(s.FullName(spec.Name)), bytes.Clone(ends[i]), ends[i+1], hrpc.Filters(wanted), hrpc.Families(map[string][]string{"b": nil}))
					if err != nil {
						return err
					}
					for found := cl.Scan(scan); ; n.Add(1) {
						if _, err := found.Next(); err != nil {
							if errors.Is(err, io.EOF) {
								return nil
							}
							return err
						}
					}
				})
			}
			if err := g.Wait(); err != nil || n.Load() != 3 {
				b.Fatal(n.Load(), err)
			}
		}
	})
}
