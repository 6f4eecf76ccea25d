package hbase

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/tsuna/gohbase/filter"
	"github.com/tsuna/gohbase/hrpc"
	"github.com/tsuna/gohbase/pb"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

const (
	// Pages grow from firstPage to lastPage rows, because many scans need few rows. The first page has
	// more if the caller expects more.
	firstPage = 32
	lastPage  = 2048
)

// afterAll is a key above all other keys. A reverse scan that begins at the end of a
// table is sent to the region of afterAll, which is the last region. routeBefore appends
// afterAll to a key to route a reverse scan to the region before a key.
var afterAll = bytes.Repeat([]byte{0xff}, 64)

// A scanner walks a range of rows page by page. The first page of a scan without a filter has a
// scanner of the server of its own, because many scans end with it. All other pages of a region share one.
type scanner struct {
	t    *Table
	get  *selection // selection for reading rows again by their keys
	push push       // the conditions that the server tests

	// The selection first is what pages return. The selection plain is what the caller
	// requested. If they differ, the server leaves out cells, and rows are read again by
	// their keys.
	first, plain *selection

	depth     int // number of versions of a column that pages return
	reverse   bool
	start     []byte // start of the next page
	exclusive bool   // the next page begins after start
	stop      []byte
	route     []byte // a key of the region that the next page is sent to
	size      int    // number of rows of the next page
	left      int    // number of rows that the caller still needs; negative if all
	later     bool   // the next page is not the first one
	brief     bool   // each page has a scanner of its own, with which the server answers soon
	done      bool

	// These are counted while the server leaves out cells.
	looked int64   // rows that the server has looked at
	sent   int64   // rows that it has sent
	passed []int64 // for each of push.parts, or for push.part, rows that passed it

	open opened
	held []rawRow // the beginning of a row, which the open scanner continues
}

// An opened is a scanner of the server that can be continued.
type opened struct {
	id    uint64 // zero if there is none
	seq   uint64 // number of calls that continued it
	route []byte // a key of its region
}

// Scan implements table.Table.
func (t *Table) Scan(ctx context.Context, r table.Range, s table.Select) iter.Seq2[table.Row, error] {
	return func(yield func(table.Row, error) bool) {
		sc, err := t.newScanner(ctx, r, &s)
		if err != nil {
			yield(table.Row{}, err)
			return
		}
		pages := sc.pages
		if sc.filter() != nil && !sc.reverse && sc.left < 0 && !sc.done {
			if rs := t.divide(ctx, r); len(rs) > 1 {
				pages = func(ctx context.Context, yield func([]table.Row, error) bool) { sc.parallel(ctx, rs, yield) }
			}
		}
		pages(ctx, func(rows []table.Row, err error) bool {
			if err != nil {
				yield(table.Row{}, err)
				return false
			}
			for i := range rows {
				if !yield(rows[i], nil) {
					return false
				}
			}
			return true
		})
	}
}

func (t *Table) newScanner(ctx context.Context, r table.Range, s *table.Select) (*scanner, error) {
	h, err := t.shape(ctx)
	if err != nil {
		return nil, err
	}
	sc := &scanner{t: t, depth: 1, reverse: s.Reverse, size: firstPage, left: -1}
	if s.Expect > 0 {
		sc.size = max(firstPage, min(s.Expect, lastPage))
	}
	if s.MaxRows > 0 {
		sc.left, sc.size = s.MaxRows, min(s.MaxRows, lastPage)
	}
	if sc.get, err = selectFor(h, s, false); err != nil {
		return nil, err
	}
	if sc.plain, err = selectFor(h, s, true); err != nil {
		return nil, err
	}
	s.Filter = t.testable(s.Filter)
	if sc.push, err = pushdown(h, sc.plain, s); err != nil {
		return nil, err
	}
	sc.first = sc.plain
	if sc.push.cells != nil {
		sc.first = sc.push.cells
	}
	sc.begin(r)
	return sc, nil
}

func (sc *scanner) begin(r table.Range) {
	empty := len(r.End) > 0 && bytes.Compare(r.Start, r.End) >= 0
	sc.done = empty || sc.push.never
	sc.start, sc.stop, sc.route = r.Start, r.End, r.Start
	if sc.reverse {
		sc.start, sc.stop, sc.route, sc.exclusive = r.End, r.Start, r.End, true
		if len(sc.route) == 0 {
			sc.route = afterAll
		}
	}
}

// pages yields pages of rows until there are no more, the caller stops the iteration, or an error
// occurs.
func (sc *scanner) pages(ctx context.Context, yield func([]table.Row, error) bool) {
	defer sc.shut(ctx)
	for !sc.done && sc.left != 0 {
		raw, err := sc.next(ctx)
		var rows []table.Row
		if err == nil {
			rows, err = sc.rows(ctx, raw)
		}
		rows = slices.DeleteFunc(rows, func(r table.Row) bool { return len(r.Cells) == 0 })
		if sc.left > 0 {
			rows = rows[:min(len(rows), sc.left)]
			sc.left -= len(rows)
		}
		if (err != nil || len(rows) > 0) && !yield(rows, err) || err != nil {
			return
		}
	}
}

// rows converts the rows of a page. It reads a row again if the page did not return the
// complete row.
func (sc *scanner) rows(ctx context.Context, raw []rawRow) ([]table.Row, error) {
	total := 0
	for i := range raw {
		total += len(raw[i].versions)
	}
	rows := make([]table.Row, 0, len(raw))
	cells := make([]table.Cell, 0, total)
	var again []*table.Row
	see := readView{view: sc.first.view}
	for i := range raw {
		at := len(cells)
		var more bool
		var err error
		see.opener = sc.t.opener(raw[i].key)
		if cells, more, err = resolve(cells, raw[i].versions, &see, 0, 1); err != nil {
			return nil, err
		}
		found, ok := sc.first.trim(cells[at:len(cells):len(cells)], raw[i].versions, sc.first.limit())
		whole := ok && !more && !raw[i].partial
		row := table.Row{Key: raw[i].key, Cells: found}
		sc.count(row, whole)
		if whole && (len(found) == 0 || sc.first != sc.plain && !sc.push.test.Match(row)) {
			continue // all cells that the page returned of the row are deleted, or the row does not match
		}
		rows = append(rows, row)
		if !whole || sc.first != sc.plain {
			// The pointer stays valid, because rows never grows beyond its capacity.
			again = append(again, &rows[len(rows)-1])
		}
	}
	if err := sc.reread(ctx, again, raw); err != nil {
		return nil, err
	}
	sc.adapt(ctx)
	return rows, nil
}

// A row that is read by its key costs about as much as dense rows of a scan.
const dense = 4

// count counts a row of a page.
func (sc *scanner) count(row table.Row, whole bool) {
	if sc.first == sc.plain {
		return
	}
	parts := sc.push.alternatives()
	if sc.passed == nil {
		sc.passed = make([]int64, len(parts))
	}
	sc.sent++
	for i := range parts {
		if !whole || parts[i].test.Match(row) {
			sc.passed[i]++
		}
	}
}

// adapt chooses a better filter for the next pages, once enough rows were seen: only the part of a
// conjunction that the fewest rows pass, or none if many rows pass each part.
func (sc *scanner) adapt(ctx context.Context) {
	if sc.first == sc.plain || sc.sent < firstPage {
		return
	}
	best := 0
	for i, n := range sc.passed {
		if n < sc.passed[best] {
			best = i
		}
	}
	switch n := sc.passed[best]; {
	case dense*n > sc.looked && sc.looked > 0:
		sc.shut(ctx)
		sc.first = sc.plain
	case 2*n < sc.sent && len(sc.push.parts) > 1:
		sc.shut(ctx)
		sc.push.part, sc.push.parts = sc.push.parts[best], nil
		sc.first, sc.looked, sc.sent, sc.passed = sc.push.cells, 0, 0, nil
	}
}

// reread fills rows by their keys. A row that is too wide for one answer is read in
// pieces.
func (sc *scanner) reread(ctx context.Context, again []*table.Row, raw []rawRow) error {
	if len(again) == 1 && len(raw) == 1 && raw[0].partial {
		return sc.t.page(ctx, again[0], sc.get)
	}
	return sc.t.fill(ctx, again, sc.get)
}

// next returns the next page, which may be empty.
func (sc *scanner) next(ctx context.Context) ([]rawRow, error) {
	call, resp, err := sc.ask(ctx)
	for err != nil && ctx.Err() == nil && sc.retreat(ctx, err) {
		call, resp, err = sc.ask(ctx)
	}
	if err != nil {
		return nil, err
	}
	sc.follow(call, resp)
	if sc.reverse && len(sc.start) > 0 {
		if end := call.Region().StopKey(); len(end) > 0 && bytes.Compare(end, sc.start) < 0 {
			sc.shut(ctx)
			sc.route = end // this region ends before start, so another region is between
			return nil, nil
		}
	}
	rows := join(append(sc.held, call.rows...))
	sc.held = nil
	if resp.MoreResults != nil && !resp.GetMoreResults() {
		sc.done = true
		return rows, nil
	}
	if !resp.GetMoreResultsInRegion() {
		sc.nextRegion(call.Region())
		return rows, nil
	}
	if n := len(rows); n > 0 && rows[n-1].partial {
		if n == 1 {
			sc.shut(ctx) // the row is read by its key
		} else if rows = rows[:n-1]; sc.open.id != 0 {
			sc.held = []rawRow{call.rows[len(call.rows)-1]}
		}
	}
	return sc.advance(ctx, rows, resp)
}

// retreat prepares another attempt after a failed call. It returns false if the error is final.
func (sc *scanner) retreat(ctx context.Context, err error) bool {
	var answer *serverError
	answered := errors.As(err, &answer)
	lost := sc.open.id != 0
	sc.open, sc.held = opened{}, nil
	switch {
	case errors.Is(err, table.ErrBusy):
		return false
	case lost && answered:
		// The region was split or moved, the scanner was not used for too long, or an answer
		// was lost. A new scanner begins behind the last whole row.
		return true
	case !errors.Is(err, table.ErrUnavailable):
		return false
	case sc.filter() != nil && !sc.brief:
		// The server may have spent its time searching a large region for a match.
		sc.brief = true
		return true
	}
	return sc.unfilter(ctx)
}

// ask sends the call for one page.
func (sc *scanner) ask(ctx context.Context) (call *scanCall, resp *pb.ScanResponse, err error) {
	n, last := sc.size, false
	if sc.left > 0 && sc.left <= n {
		n, last = sc.left, true
	}
	read := readPositioned
	switch {
	case sc.brief:
		read = readDefault
	case sc.later, sc.filter() != nil:
		read = readStream
	}
	err = sc.t.store.conn.repeat(ctx, "scan", sc.t.full, func(ctx context.Context, cl *client) error {
		opts := append(sc.first.options(sc.depth, sc.first.limit()), hrpc.NumberOfRows(uint32(n)))
		if last || read != readStream {
			opts = append(opts, hrpc.CloseScanner())
		}
		if sc.first != sc.plain {
			opts = append(opts, hrpc.TrackScanMetrics())
		}
		if sc.open.id != 0 {
			opts = append(opts, hrpc.ScannerID(sc.open.id))
		} else if f := sc.filter(); f != nil {
			opts = append(opts, hrpc.Filters(f))
		}
		if sc.reverse {
			opts = append(opts, hrpc.Reversed())
		}
		s, err := hrpc.NewScanRange(ctx, sc.t.full, sc.start, sc.stop, opts...)
		if err != nil {
			return err
		}
		call = &scanCall{Scan: s, route: sc.route, exclusive: sc.exclusive, reversed: sc.reverse, withStop: sc.reverse && len(sc.stop) > 0, read: read}
		if sc.open.id != 0 {
			call.route, call.seq = sc.open.route, sc.open.seq
		}
		m, err := cl.send(call)
		if err != nil {
			return err
		}
		var ok bool
		if resp, ok = m.(*pb.ScanResponse); !ok {
			return fmt.Errorf("answer to a Scan is a %T", m)
		}
		return nil
	})
	if err == nil && sc.open.id != 0 && alreadyClosed(resp) {
		return call, resp, &serverError{"ScannerClosed", "the region server has closed the scanner"}
	}
	if err == nil {
		for _, m := range resp.GetScanMetrics().GetMetrics() {
			if m.GetName() == "ROWS_SCANNED" {
				sc.looked += m.GetValue()
			}
		}
		if sc.later = true; len(call.rows) >= n {
			sc.size = min(4*sc.size, lastPage)
		}
	}
	return call, resp, err
}

// alreadyClosed reports whether resp answers a call of a scanner that the server had closed before. It happens
// when gohbase repeats a call whose answer was lost. Servers without HBASE-28595 then answer as if the region had no
// more rows, and the lost answer's rows would be missing. All other answers say whether the region has more.
func alreadyClosed(resp *pb.ScanResponse) bool { return resp.MoreResultsInRegion == nil }

// follow notes whether the server keeps the scanner of a call. The server closes a scanner at the
// end of its region.
func (sc *scanner) follow(call *scanCall, resp *pb.ScanResponse) {
	switch {
	case call.IsClosing(), !resp.GetMoreResultsInRegion(), resp.MoreResults != nil && !resp.GetMoreResults():
		sc.open = opened{}
	case sc.open.id != 0:
		sc.open.seq++
	default:
		sc.open = opened{id: resp.GetScannerId(), route: call.route}
	}
}

// shut closes the open scanner, if there is one. It does not wait for the answer: if the call fails,
// the server closes the scanner when it has not been used for a minute.
func (sc *scanner) shut(ctx context.Context) {
	if sc.open.id == 0 {
		return
	}
	t, open := sc.t, sc.open
	sc.open, sc.held = opened{}, nil
	ctx = context.WithoutCancel(ctx)
	go func() {
		_ = t.store.conn.do(ctx, "scan", t.full, func(ctx context.Context, cl *client) error {
			s, err := hrpc.NewScanRange(ctx, t.full, open.route, nil, hrpc.ScannerID(open.id), hrpc.NumberOfRows(0), hrpc.CloseScanner())
			if err != nil {
				return err
			}
			_, err = cl.send(&scanCall{Scan: s, route: open.route, seq: open.seq})
			return err
		})
	}()
}

// filter combines the filter of rows and the filter of cells.
func (sc *scanner) filter() filter.Filter {
	switch row, cells := sc.push.row, sc.first.columns; {
	case row == nil:
		return cells
	case cells == nil:
		return row
	default:
		return filter.NewList(filter.MustPassAll, row, cells)
	}
}

// advance prepares the next page within a region that has more rows.
func (sc *scanner) advance(ctx context.Context, rows []rawRow, resp *pb.ScanResponse) ([]rawRow, error) {
	if n := len(rows); n > 0 {
		sc.pass(rows[n-1].key)
		return rows, nil
	}
	// The page has no rows: the server stopped after a time or an amount of data, and
	// returned its position.
	switch at := cursor(resp); {
	case at != nil && !bytes.Equal(at, sc.start):
		sc.start, sc.route, sc.exclusive = at, at, false
		return nil, nil
	case sc.open.id != 0: // the server itself keeps the position
		return nil, nil
	case at != nil && !sc.exclusive:
		// The server could not finish this one row, so the row is read by its key.
		sc.pass(at)
		return []rawRow{{key: at, partial: true}}, nil
	case sc.unfilter(ctx):
		return nil, nil
	}
	return nil, fmt.Errorf("hbase: scan %s: %w: the region server stops at %q without an answer", sc.t.full, table.ErrUnavailable, sc.start)
}

// unfilter removes the caller's filter from the scan. This is possible because the filter
// is only a hint. It reports whether there was a filter.
func (sc *scanner) unfilter(ctx context.Context) bool {
	if sc.push.row == nil && sc.first == sc.plain {
		return false
	}
	sc.shut(ctx)
	sc.push.row, sc.first = nil, sc.plain
	return true
}

// pass makes the scan continue after a row.
func (sc *scanner) pass(row []byte) {
	if sc.reverse {
		sc.start, sc.route, sc.exclusive = row, row, true
		return
	}
	sc.start = append(bytes.Clone(row), 0)
	sc.route = sc.start
	sc.exclusive = false
}

// A bounds provides the start and the end of a region.
type bounds interface {
	StartKey() []byte
	StopKey() []byte
}

// nextRegion makes the scan continue in the next region, in the direction of the scan.
func (sc *scanner) nextRegion(r bounds) {
	if sc.reverse {
		k := r.StartKey()
		sc.done = len(k) == 0 || len(sc.stop) > 0 && bytes.Compare(k, sc.stop) <= 0
		sc.start, sc.route, sc.exclusive = k, routeBefore(k), true
		return
	}
	k := r.StopKey()
	sc.done = len(k) == 0 || len(sc.stop) > 0 && bytes.Compare(k, sc.stop) >= 0
	sc.start, sc.route, sc.exclusive = k, k, false
}

// routeBefore returns a key just before k. This key is so close to k that it should be in
// the region that ends at k. If the key is in an earlier region, next detects this.
func routeBefore(k []byte) []byte {
	n := len(k)
	if n == 0 {
		return nil
	}
	if k[n-1] == 0 {
		return k[:n-1]
	}
	b := make([]byte, 0, n+len(afterAll))
	b = append(b, k...)
	b[n-1]--
	return append(b, afterAll...)
}

// join joins the pieces of a row if an answer contains several pieces.
func join(rows []rawRow) []rawRow {
	out := rows[:0]
	for _, r := range rows {
		if n := len(out); n > 0 && bytes.Equal(out[n-1].key, r.key) {
			last := &out[n-1]
			last.versions = append(last.versions[:len(last.versions):len(last.versions)], r.versions...)
			last.partial = r.partial
			continue
		}
		out = append(out, r)
	}
	return out
}
