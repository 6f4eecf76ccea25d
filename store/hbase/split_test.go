package hbase

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/tsuna/gohbase"
	"github.com/tsuna/gohbase/hrpc"
	"github.com/tsuna/gohbase/pb"
	"google.golang.org/protobuf/proto"

	"github.com/seed-4dac0d86/ldapd/store/hbase/hbasetest"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// The rows from largeRow on are so large that pages end within a row: 20 rows have 4 cells of 100 kB.
const (
	largeRow  = 3000
	largeRows = 20
)

// wideRow is the index of a row that is too large for a page: it has 60 cells of 100 kB.
const wideRow = 2500

func pageKey(i int) []byte { return fmt.Appendf(nil, "%05d", i) }

// pageTable creates a table with four regions and fills it. If rows is large enough, the
// table has more rows than a page.
func pageTable(t *testing.T, rows int) (*Store, *Table) {
	t.Helper()
	s, err := Open(t.Context(), Scheme+hbasetest.Start(t)+"/"+hbasetest.Prefix(t), Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Drop(context.Background(), "rows"); err != nil {
			t.Error(err)
		}
		s.Close()
	})
	spec := table.Spec{Name: "rows", Families: []table.FamilySpec{{Name: 'f'}}, Splits: [][]byte{pageKey(10), pageKey(1200), pageKey(wideRow)}}
	if err := s.Create(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	d := s.Table("rows").(*Table)
	var ms []table.Mutation
	for i := range rows {
		m := table.Mutation{Row: pageKey(i), Cells: []table.Cell{{Family: 'f', Qualifier: []byte("q"), Value: []byte("v")}}}
		for j := range 60 {
			if i == wideRow || j < 4 && i >= largeRow && i < largeRow+largeRows {
				m.Cells = append(m.Cells, table.Cell{Family: 'f', Qualifier: fmt.Appendf(nil, "w%02d", j), Value: make([]byte, 100_000)})
			}
		}
		ms = append(ms, m)
	}
	if err := d.Apply(t.Context(), 1, ms); err != nil {
		t.Fatal(err)
	}
	return s, d
}

// scanKeys scans the rows from lo up to but not including hi, and calls a function for
// each row. Each of these rows must be returned exactly once.
func scanKeys(t *testing.T, d *Table, lo, hi int, s table.Select, at func(n int)) {
	t.Helper()
	n := 0
	for row, err := range d.Scan(t.Context(), table.Range{Start: pageKey(lo), End: pageKey(hi)}, s) {
		if err != nil {
			t.Fatal(err)
		}
		i := lo + n
		if s.Reverse {
			i = hi - 1 - n
		}
		if !bytes.Equal(row.Key, pageKey(i)) {
			t.Fatalf("row %d is %q", n, row.Key)
		}
		if n := len(row.Cells); s.MaxCells == 0 && (i == wideRow && n != 61 || i >= largeRow && i < largeRow+largeRows && n != 5) {
			t.Fatalf("row %d has %d cells", i, n)
		}
		if n++; at != nil {
			at(n)
		}
	}
	if n != hi-lo {
		t.Fatalf("%d rows, want %d", n, hi-lo)
	}
}

// eachRow yields the rows of a scanner's pages.
func eachRow(t *testing.T, sc *scanner, yield func(table.Row) bool) {
	t.Helper()
	sc.pages(t.Context(), func(rows []table.Row, err error) bool {
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range rows {
			if !yield(row) {
				return false
			}
		}
		return true
	})
}

// everyRow is a filter that all rows of a pageTable match. With a filter, regions are read in parallel.
var everyRow = table.HasRange{ColumnRange: table.ColumnPrefix('f', nil)}

func TestScanPages(t *testing.T) {
	t.Parallel()
	const rows = 6000
	_, d := pageTable(t, rows)
	for _, reverse := range []bool{false, true} {
		scanKeys(t, d, 0, rows, table.Select{Reverse: reverse}, nil)
		scanKeys(t, d, 0, rows, table.Select{Reverse: reverse, MaxCells: 1}, nil)
		scanKeys(t, d, 5, 1201, table.Select{Reverse: reverse}, nil)
		scanKeys(t, d, 10, 1200, table.Select{Reverse: reverse}, nil)
		scanKeys(t, d, wideRow, wideRow+1, table.Select{Reverse: reverse}, nil)
	}
	scanKeys(t, d, 0, rows, table.Select{View: settled(1), Filter: everyRow}, nil)
	scanKeys(t, d, 5, 1201, table.Select{View: settled(1), Filter: everyRow}, nil)
}

// TestScanResumes loses the scanner of the server after each page: the server closes it, or has
// answered a call twice. Each scan must return every row once.
func TestScanResumes(t *testing.T) {
	t.Parallel()
	const rows = 6000
	s, d := pageTable(t, rows)
	for i := range 4 {
		reverse, brief := i%2 == 0, i >= 2 // a brief scan keeps no scanner
		sc, err := d.newScanner(t.Context(), table.Range{}, &table.Select{Reverse: reverse, View: settled(1)})
		if err != nil {
			t.Fatal(err)
		}
		sc.brief = brief
		n, lost, held := 0, 0, 0
		eachRow(t, sc, func(row table.Row) bool {
			i := n
			if reverse {
				i = rows - 1 - n
			}
			if !bytes.Equal(row.Key, pageKey(i)) {
				t.Fatalf("row %d is %q", n, row.Key)
			}
			if n++; sc.open.id == 0 || sc.open.seq > 2 {
				return true
			}
			if len(sc.held) > 0 {
				held++
			}
			if lost++; lost%2 == 0 {
				sc.open.seq += 3
				return true
			}
			c, err := hrpc.NewScanRange(t.Context(), d.full, sc.open.route, nil, hrpc.ScannerID(sc.open.id), hrpc.CloseScanner())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.conn.client.Load().send(&scanCall{Scan: c, route: sc.open.route, seq: sc.open.seq}); err != nil {
				t.Fatal(err)
			}
			sc.open.seq += 3 // as a mark that this scanner is lost
			return true
		})
		if n != rows || (lost < 4 || held == 0) != brief {
			t.Fatalf("%d rows, want %d; %d scanners lost, %d of them within a row", n, rows, lost, held)
		}
	}
}

// closings reports the calls that close a scanner.
type closings struct {
	gohbase.RPCClient
	done chan error
}

func (c closings) SendRPC(rpc hrpc.Call) (proto.Message, error) {
	m, err := c.RPCClient.SendRPC(rpc)
	if s, ok := rpc.(*scanCall); ok && s.IsClosing() && s.ScannerId() != math.MaxUint64 {
		c.done <- err
	}
	return m, err
}

// TestScanCloses ends a scan early. The server must then close its scanner at once, not when the scanner
// has not been used for a minute.
func TestScanCloses(t *testing.T) {
	t.Parallel()
	s, d := pageTable(t, 600)
	sc, err := d.newScanner(t.Context(), table.Range{}, &table.Select{View: settled(1)})
	if err != nil {
		t.Fatal(err)
	}
	cl := s.conn.client.Load()
	closed := closings{cl.raw, make(chan error, 1)}
	cl.raw = closed
	var left opened
	eachRow(t, sc, func(table.Row) bool {
		left = sc.open
		return left.id == 0
	})
	if left.id == 0 {
		t.Fatal("the scan kept no scanner")
	}
	select {
	case err := <-closed.done:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("nothing closes the scanner")
	}
	c, err := hrpc.NewScanRange(t.Context(), d.full, left.route, nil, hrpc.ScannerID(left.id))
	if err != nil {
		t.Fatal(err)
	}
	m, err := cl.send(&scanCall{Scan: c, route: left.route, seq: left.seq})
	if resp, ok := m.(*pb.ScanResponse); err == nil && !(ok && alreadyClosed(resp)) {
		t.Error("the scanner is still open")
	}
}

// TestScanSplit splits two regions during a forward scan, and two during a reverse scan. In the
// forward scan, one region is ahead of the scan's position and one is behind it. In the reverse
// scan, both regions are ahead. Then, during a scan of all regions in parallel, it splits a region, merges two, and
// closes and opens one, as a move does. Each scan must return every row once.
func TestScanSplit(t *testing.T) {
	t.Parallel()
	const rows = 6000
	s, d := pageTable(t, rows)
	// A region that was created by a split cannot be split again before a compaction.
	at := map[bool][]int{false: {4000, 600}, true: {1800, 5}}
	for _, reverse := range []bool{false, true} {
		scanKeys(t, d, 0, rows, table.Select{Reverse: reverse, View: settled(1)}, func(n int) {
			if n == 3000 {
				for _, k := range at[reverse] {
					split(t, s, d, pageKey(k))
				}
			}
		})
	}
	s, d = pageTable(t, rows)
	scanKeys(t, d, 0, rows, table.Select{View: settled(1), Filter: everyRow}, func(n int) {
		if n == 100 { // the scans of all four regions have begun
			split(t, s, d, pageKey(4000))
			mergeRegions(t, s, d, pageKey(5), pageKey(600))
			reopen(t, s, d, pageKey(1300))
		}
	})
}

type settled table.Revision

func (s settled) Max() table.Revision           { return table.Revision(s) }
func (s settled) Low() table.Revision           { return table.Revision(s) }
func (s settled) Visible(r table.Revision) bool { return r <= table.Revision(s) }

// split makes the master split the region that contains a key, and waits until the split
// is done.
func split(t *testing.T, s *Store, d *Table, at []byte) {
	t.Helper()
	changeRegions(t, s, hbasetest.NewSplit(t.Context(), regionOf(t, d, at), at), func() bool {
		return bytes.Equal(regionOf(t, d, at).StartKey(), at)
	})
}

// mergeRegions makes the master merge the regions that contain two keys, and waits until that is done.
func mergeRegions(t *testing.T, s *Store, d *Table, low, high []byte) {
	t.Helper()
	changeRegions(t, s, hbasetest.NewMerge(t.Context(), regionOf(t, d, low), regionOf(t, d, high)), func() bool {
		return bytes.Equal(regionOf(t, d, low).StartKey(), regionOf(t, d, high).StartKey())
	})
}

// reopen makes the master close the region that contains a key, and open it again.
func reopen(t *testing.T, s *Store, d *Table, key []byte) {
	t.Helper()
	for _, call := range hbasetest.NewReopen(t.Context(), regionOf(t, d, key)) {
		changeRegions(t, s, call, func() bool { return true })
	}
}

// changeRegions makes a call of the master, and waits until the change is done.
func changeRegions(t *testing.T, s *Store, call hrpc.Call, done func() bool) {
	t.Helper()
	err := s.master(t.Context(), call.Name(), "", func(ctx context.Context, adm gohbase.AdminClient) error {
		_, err := adm.(gohbase.RPCClient).SendRPC(call)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); !done(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s does not end", call.Name())
		}
	}
}

// regionOf looks up the region of a key with a new client, which has no cached regions.
func regionOf(t *testing.T, d *Table, key []byte) hrpc.RegionInfo {
	t.Helper()
	cl, err := d.store.conn.newClient()
	if err != nil {
		t.Fatal(err)
	}
	defer cl.close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	g, err := hrpc.NewGet(ctx, d.full, key)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cl.Get(g); err != nil {
		t.Fatal(err)
	}
	return g.Region()
}
