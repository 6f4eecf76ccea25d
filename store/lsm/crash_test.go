package lsm

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-4dac0d86/ldapd/store/lsm/lsmtest"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

var crashSpecs = []table.Spec{
	{Name: "data", Families: []table.FamilySpec{{Name: 'a'}, {Name: 'c', ImageLimit: 100}}},
	{Name: "heads", Unversioned: true, Families: []table.FamilySpec{{Name: 'h'}}},
}

// step returns the n-th commit of a load. The commit writes the number n into two rows of
// the table data and into the row head.
func step(n int) table.Batch {
	cell := func(f table.Family, q string) table.Cell {
		return table.Cell{Family: f, Qualifier: []byte(q), Value: fmt.Appendf(nil, "%08d", n)}
	}
	return table.Batch{Revision: table.Revision(n), Writes: []table.Write{
		{Table: "data", Mutations: []table.Mutation{
			{Row: []byte("one"), Cells: []table.Cell{cell('a', "n"), cell('c', fmt.Sprintf("n%04d", n))}},
			{Row: fmt.Appendf(nil, "row%04d", n), Cells: []table.Cell{cell('a', "n")}},
		}},
		{Table: "heads", Mutations: []table.Mutation{{Row: []byte("head"), Cells: []table.Cell{cell('h', "n")}}}},
	}}
}

// TestPowerLoss checks that after a power loss a prefix of the commits survives. Each
// surviving commit must be complete, and all acknowledged commits must survive. The store is
// closed and opened again on the way, so that power is also lost while its ending is written
// and while the ending becomes void.
func TestPowerLoss(t *testing.T) {
	const steps = 60
	load := func(fs vfs.FS, acked func(int)) {
		s := mustOpen(t, Options{Path: "store", FS: fs, MemTable: 16 << 10})
		ctx := context.Background()
		if err := s.Create(ctx, crashSpecs...); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for n := 1; n <= steps; n++ {
			wait, err := s.Commit(ctx, step(n))
			if err != nil {
				t.Fatal(err)
			}
			wg.Go(func() {
				if err := wait(); err != nil {
					t.Error(err)
				}
				acked(n)
			})
			if n%5 == 0 {
				wg.Wait()
			}
			if n == steps/2 {
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				s = mustOpen(t, Options{Path: "store", FS: fs, MemTable: 16 << 10})
			}
		}
		wg.Wait()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	disks := 0
	lsmtest.PowerLoss(t, 1, load, func(d lsmtest.Disk) {
		disks++
		checkPrefix(t, d)
	})
	if disks < steps/5 {
		t.Errorf("only %d power losses", disks)
	}
}

// checkPrefix opens a disk and checks that it contains a prefix of the commits, and that
// each of these commits is complete.
func checkPrefix(t *testing.T, d lsmtest.Disk) {
	t.Helper()
	s := mustOpen(t, Options{Path: "store", FS: d.FS})
	defer s.Close()
	if err := s.Create(context.Background(), crashSpecs...); err != nil {
		t.Fatal(err)
	}
	n := headOf(t, s)
	if n < d.Acked {
		t.Fatalf("%d commits are left", n)
	}
	rows := 0
	one := 0
	for row, err := range s.Table("data").Scan(context.Background(), table.Range{}, table.Select{}) {
		switch {
		case err != nil:
			t.Fatal(err)
		case string(row.Key) == "one":
			one = len(row.Family('c'))
			if got := fmt.Sprintf("%08d", n); string(row.Cells[0].Value) != got {
				t.Fatalf("row one is of commit %s, head of %s", row.Cells[0].Value, got)
			}
		case string(row.Key) == fmt.Sprintf("row%04d", rows+1):
			rows++
		default:
			t.Fatalf("row %q behind %d rows", row.Key, rows)
		}
	}
	if rows != n || one != n {
		t.Fatalf("%d commits by the head, but %d rows and %d columns", n, rows, one)
	}
}

func headOf(t *testing.T, s *Store) int {
	t.Helper()
	row, err := s.Table("heads").Get(context.Background(), []byte("head"), table.Select{})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	if len(row.Cells) > 0 {
		if n, err = strconv.Atoi(string(row.Cells[0].Value)); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

func mustOpen(t *testing.T, o Options) *Store {
	t.Helper()
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestPowerLossInLoad checks that after a power loss a load exists completely or not at
// all. If the load survives, the commits before it must survive too. After the store has
// been opened again, no temporary files of the load may be left.
func TestPowerLossInLoad(t *testing.T) {
	const before, rows = 5, 400
	load := func(fs vfs.FS, acked func(int)) {
		s := mustOpen(t, Options{Path: "store", FS: fs})
		ctx := context.Background()
		if err := s.Create(ctx, crashSpecs...); err != nil {
			t.Fatal(err)
		}
		for n := 1; n <= before; n++ {
			// The test does not wait for this commit.
			if _, err := s.Commit(ctx, step(n)); err != nil {
				t.Fatal(err)
			}
		}
		b, err := s.Bulk(ctx, 100, table.BulkOptions{Memory: 8 << 10})
		if err != nil {
			t.Fatal(err)
		}
		for i := range rows {
			m := table.Mutation{Row: fmt.Appendf(nil, "bulk%04d", i*7%rows), Cells: []table.Cell{
				{Family: 'a', Qualifier: []byte("q"), Value: []byte("v")}, {Family: 'c', Qualifier: []byte("q"), Value: []byte("v")}}}
			if err := b.Add("data", m); err != nil {
				t.Fatal(err)
			}
		}
		last := []table.Write{{Table: "heads", Mutations: []table.Mutation{{Row: []byte("head"),
			Cells: []table.Cell{{Family: 'h', Qualifier: []byte("n"), Value: []byte("00000100")}}}}}}
		if err := b.Finish(ctx, func(table.Overwritten) []table.Write { return last }); err != nil {
			t.Fatal(err)
		}
		acked(100)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	whole, none := 0, 0
	lsmtest.PowerLoss(t, 2, load, func(d lsmtest.Disk) {
		s := mustOpen(t, Options{Path: "store", FS: d.FS})
		defer s.Close()
		if err := s.Create(context.Background(), crashSpecs...); err != nil {
			t.Fatal(err)
		}
		head, got, commits := headOf(t, s), 0, 0
		for row, err := range s.Table("data").Scan(context.Background(), table.Range{}, table.Select{}) {
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(string(row.Key), "bulk") && len(row.Cells) == 2 {
				got++
			} else if strings.HasPrefix(string(row.Key), "row") {
				commits++
			}
		}
		switch {
		case head == 100 && got == rows && commits == before:
			whole++
		case head < 100 && got == 0 && head == commits && d.Acked < 100:
			none++
		default:
			t.Fatalf("head %d, %d rows of the load, %d commits", head, got, commits)
		}
		names, _ := d.FS.List("store")
		for _, n := range names {
			if strings.HasPrefix(n, bulkPrefix) {
				t.Errorf("%s is left", n)
			}
		}
	})
	if whole == 0 || none == 0 {
		t.Errorf("the load was there %d times and missing %d times: the test sees one side only", whole, none)
	}
}
