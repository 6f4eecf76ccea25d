package lsm

import (
	"bytes"
	"context"
	"iter"
	"sync"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

// A cursor reads the rows of one group in key order.
type cursor struct {
	rowReader
	t       *tableInfo
	group   *group
	reverse bool
	lower   []byte
	upper   []byte

	st     state
	row    []byte // key of the current row
	prefix []byte // prefix of the current row's image keys
	valid  bool
	due    bool // the cursor must be advanced
	moved  bool // the iterator may no longer be at the image of the current row
}

// open positions the cursor before the first row of the range.
func (c *cursor) open(p *iterPool, t *tableInfo, g *group, e readView, r table.Range, reverse bool) error {
	c.t, c.group, c.readView, c.reverse = t, g, e, reverse
	c.prefix, c.valid, c.moved = c.prefix[:0], false, false
	c.lower = appendImage(c.lower[:0], t.id, g.name, r.Start)
	if len(r.End) > 0 {
		c.upper = appendImage(c.upper[:0], t.id, g.name, r.End)
	} else {
		c.upper = appendGroupEnd(c.upper[:0], t.id, g.name)
	}
	var err error
	if c.it, err = p.get(e.poolMax()); err != nil {
		return err
	}
	c.it.SetBounds(c.lower, c.upper)
	return nil
}

func (c *cursor) close(p *iterPool) {
	if c.it == nil {
		return
	}
	c.it.SetBounds(nil, nil)
	p.put(c.it)
	p.m.add(&c.rowReader)
	c.it, c.view = nil, nil
}

// The method "first" moves to the first row in the direction of the scan.
func (c *cursor) first() error {
	c.sk++
	if c.reverse {
		return c.advance(c.it.Last())
	}
	return c.advance(c.it.First())
}

// next moves to the next row in the direction of the scan.
func (c *cursor) next() error {
	switch {
	case c.reverse:
		c.sk++
		return c.advance(c.it.SeekLT(c.prefix))
	case c.moved:
		return c.advance(c.skipRow())
	}
	return c.advance(c.it.NextPrefix())
}

// skipRow moves the iterator past all keys of the current row.
func (c *cursor) skipRow() bool {
	c.key = appendRowPart(c.key[:0], c.prefix, termRow)
	c.sk++
	return c.it.SeekGE(c.key)
}

// seek moves to the first row at or after the given one. It works only in forward scans.
func (c *cursor) seek(row []byte) error {
	if c.valid && bytes.Compare(c.row, row) >= 0 {
		return nil
	}
	c.key = appendImage(c.key[:0], c.t.id, c.group.name, row)
	c.sk++
	return c.advance(c.it.SeekGE(c.key))
}

// advance sets the current row to the row under the iterator. If the view does not show
// that row, advance continues to the next row that the view shows.
func (c *cursor) advance(ok bool) error {
	for {
		c.valid = false
		if !ok {
			return c.it.Error()
		}
		same, err := c.setRow(c.it.Key())
		if err != nil {
			return err
		}
		if same && !c.reverse {
			ok = c.skipRow() // skip the remaining keys of a row that is already read
			continue
		}
		seen, err := c.look()
		if err != nil {
			return err
		}
		if seen {
			c.valid = true
			return nil
		}
		if c.reverse {
			c.sk++
			ok = c.it.SeekLT(c.prefix)
		} else {
			ok = c.skipRow()
		}
	}
}

// setRow sets the current row from a key. It reports whether the key belongs to the row
// that was already current.
func (c *cursor) setRow(k []byte) (same bool, err error) {
	if n := len(c.prefix); n > 0 && len(k) >= n && k[n-1] != escaped && bytes.Equal(k[:n-1], c.prefix[:n-1]) {
		return true, nil
	}
	if len(k) < headLen {
		return false, errKey
	}
	row, _, rest, ok := cutEscaped(c.row[:0], k[headLen:])
	if !ok {
		return false, errKey
	}
	c.row = row
	c.prefix = append(c.prefix[:0], k[:len(k)-len(rest)]...)
	c.prefix[len(c.prefix)-1] = termImage
	return false, nil
}

// look finds the state of the row under the iterator and reports whether the view shows
// it. The iterator must be at the row's first key or, in a reverse scan, at the row's
// last key.
func (c *cursor) look() (bool, error) {
	c.st = state{prefix: c.prefix, deltas: c.st.deltas[:0]}
	c.mem = c.mem[:0]
	c.moved = true
	if c.t.spec.Unversioned {
		c.st.exists, c.st.columns = true, true
		return true, nil
	}
	if c.reverse {
		if !c.seekImage() {
			return false, c.it.Error()
		}
	}
	for tries := 0; revisionOf(c.it.Key()) > c.max; tries++ {
		ok := false
		if tries < 2 {
			ok = c.it.Next()
		} else {
			ok = c.seekImage()
		}
		if !ok || !c.onImage() {
			return false, c.it.Error()
		}
	}
	if !c.onImage() {
		return false, nil
	}
	c.moved = revisionOf(c.it.Key()) > c.low && !c.isCausal()
	err := c.classify(&c.st)
	if c.st.columns {
		c.moved = true
	}
	return c.st.exists || c.st.pieced, err
}

func (c *cursor) seekImage() bool {
	c.key = append(c.key[:0], c.prefix...)
	if c.max < maxRevision {
		c.key = appendSuffix(c.key, c.max)
	}
	c.sk++
	return c.it.SeekGE(c.key) && c.onImage()
}

// onImage reports whether the iterator is at an image key of the current row.
func (c *cursor) onImage() bool {
	return bytes.Equal(comparer.Split.Prefix(c.it.Key()), c.prefix)
}

// A scan joins the cursors of the groups that a Select needs. Scans are pooled, because
// an index lookup is a scan of a few rows.
type scan struct {
	s       *Store
	t       *tableInfo
	sel     selection
	filter  table.Filter // nil if the filter cannot be evaluated here
	fsel    selection
	lead    []*cursor // cursors that move together: every row is first read from these
	follow  []*cursor // cursors that move only to rows that match the filter
	open    []*cursor // the cursors of lead and follow
	spare   []*cursor
	cols    []table.ColumnRange
	max     int
	reverse bool
	cells   []table.Cell
}

// Scan implements table.Table.
func (h handle) Scan(ctx context.Context, r table.Range, s table.Select) iter.Seq2[table.Row, error] {
	return func(yield func(table.Row, error) bool) {
		if err := h.s.gate.begin(ctx); err != nil {
			yield(table.Row{}, err)
			return
		}
		defer h.s.gate.end()
		if err := h.scan(ctx, r, &s, yield); err != nil {
			yield(table.Row{}, h.s.wrap("scan "+h.name, err))
		}
	}
}

func (h handle) scan(ctx context.Context, r table.Range, s *table.Select, yield func(table.Row, error) bool) error {
	t, err := h.s.tables.table(h.name)
	if err != nil {
		return err
	}
	if len(r.End) > 0 && bytes.Compare(r.Start, r.End) >= 0 {
		return nil
	}
	x := scans.Get().(*scan)
	defer x.close()
	x.s, x.t, x.max, x.reverse = h.s, t, s.MaxCells, s.Reverse
	if err := x.start(s, r); err != nil {
		return err
	}
	for rows := 0; s.MaxRows == 0 || rows < s.MaxRows; {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if h.s.gate.closed() {
			return table.ErrClosed
		}
		row := x.current()
		if row == nil {
			return nil
		}
		cells, err := x.tryRow(row)
		if err != nil {
			return err
		}
		if len(cells) > 0 {
			if rows++; !yield(table.Row{Key: row, Cells: cells}, nil) {
				return nil
			}
		}
		if rows == s.MaxRows && rows > 0 {
			return nil
		}
		if err := x.advance(row); err != nil {
			return err
		}
	}
	return nil
}

// tryRow calls rowCells and converts a panic of Pebble into an error. A panic in the loop
// body of the scan's caller stays a panic.
func (x *scan) tryRow(row []byte) (cells []table.Cell, err error) {
	defer damaged(&err)
	return x.rowCells(row)
}

// start prepares the selection and the filter and positions the cursors. Some filters
// test no keys and cannot match a row that has none of the filter's columns. A forward
// scan with such a filter scans only the groups of these columns (x.lead). It reads the
// other groups (x.follow) only for rows that match.
func (x *scan) start(s *table.Select, r table.Range) error {
	if err := x.sel.set(x.t, s); err != nil {
		return err
	}
	byKey, err := x.setFilter(s.Filter)
	if err != nil {
		return err
	}
	e := newReadView(s.View)
	if err := x.add(x.fsel, &x.lead, e, r); err != nil {
		return err
	}
	rest := &x.lead
	if x.filter != nil && !byKey && !s.Reverse && !x.filter.Match(table.Row{}) {
		rest = &x.follow
	}
	if err := x.add(x.sel, rest, e, r); err != nil {
		return err
	}
	for _, c := range x.lead {
		if err := c.first(); err != nil {
			return err
		}
	}
	return nil
}

// add opens cursors for the groups of a selection that have no cursor yet.
func (x *scan) add(sel selection, list *[]*cursor, e readView, r table.Range) error {
	for i := range sel {
		g := sel[i].group
		if x.cursor(g) != nil {
			continue
		}
		c := new(cursor)
		if n := len(x.spare); n > 0 {
			c, x.spare = x.spare[n-1], x.spare[:n-1]
		}
		*list, x.open = append(*list, c), append(x.open, c)
		if err := c.open(&x.s.iters, x.t, g, e, r, x.reverse); err != nil {
			return err
		}
	}
	return nil
}

func (x *scan) cursor(g *group) *cursor {
	for _, c := range x.open {
		if c.group == g {
			return c
		}
	}
	return nil
}

// setFilter selects the columns that a filter needs, if these columns can be determined.
// It reports whether the filter also needs keys.
func (x *scan) setFilter(f table.Filter) (byKey bool, err error) {
	if x.filter, x.fsel = nil, x.fsel[:0]; f == nil {
		return false, nil
	}
	cols, byKey, ok := filterColumns(x.t, f, x.cols[:0])
	if x.cols = cols; !ok || len(cols) == 0 { // a filter of keys alone saves nothing: the caller tests them too
		return false, nil
	}
	x.filter = f
	for _, c := range cols {
		f, err := x.fsel.add(x.t, c.Family)
		if err != nil {
			return false, err
		}
		f.ranges = append(f.ranges, c)
	}
	x.fsel.finish()
	return byKey, nil
}

var scans = sync.Pool{New: func() any { return new(scan) }}

func (x *scan) close() {
	for _, c := range x.open {
		c.close(&x.s.iters)
		c.t, c.group = nil, nil
	}
	x.spare = append(x.spare, x.open...)
	x.lead, x.follow, x.open = x.lead[:0], x.follow[:0], x.open[:0]
	x.s, x.t, x.filter = nil, nil, nil
	clear(x.cols)
	scans.Put(x)
}

// current returns the next row of the leading cursors, or nil at the end. The key of a
// row may be empty, but current does not return nil for it.
func (x *scan) current() []byte {
	var row []byte
	for _, c := range x.lead {
		if !c.valid {
			continue
		}
		d := bytes.Compare(c.row, row)
		if row == nil || !x.reverse && d < 0 || x.reverse && d > 0 {
			if row = c.row; row == nil {
				row = []byte{}
			}
		}
	}
	return row
}

// rowCells returns the selected cells of a row, or no cells if the filter does not match.
func (x *scan) rowCells(row []byte) ([]table.Cell, error) {
	var err error
	if x.filter != nil {
		if x.cells, err = x.gather(row, x.fsel, 0); err != nil {
			return nil, err
		}
		if !x.filter.Match(table.Row{Key: row, Cells: x.cells}) {
			return nil, nil
		}
		for _, c := range x.follow {
			if err := c.seek(row); err != nil {
				return nil, err
			}
		}
	}
	x.cells, err = x.gather(row, x.sel, x.max)
	return x.cells, err
}

// gather decodes the cells of a row. It uses the cursors that are at this row.
func (x *scan) gather(row []byte, sel selection, max int) ([]table.Cell, error) {
	cells := x.cells[:0]
	for i := range sel {
		c := x.cursor(sel[i].group)
		if !c.valid || !bytes.Equal(c.row, row) {
			continue
		}
		var err error
		if cells, err = c.cells(cells, &c.st, &sel[i], max); err != nil {
			return cells, err
		}
	}
	return inOrder(cells, len(sel), max), nil
}

// advance moves the leading cursors whose current row is row. The memory of row belongs
// to one of these cursors, so advance finds the cursors before it moves any of them.
func (x *scan) advance(row []byte) (err error) {
	defer damaged(&err)
	if len(x.lead) == 1 {
		return x.lead[0].next()
	}
	for _, c := range x.lead {
		c.due = c.valid && bytes.Equal(c.row, row)
	}
	for _, c := range x.lead {
		if !c.due {
			continue
		}
		if err := c.next(); err != nil {
			return err
		}
	}
	return nil
}
