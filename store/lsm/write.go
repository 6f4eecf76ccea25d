package lsm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

// A delta is the change of one revision to one group of a row.
type delta struct {
	t      *tableInfo
	g      *group
	row    []byte
	prefix []byte // prefix of the row's image keys
	del    bool
	over   bool         // the row had an image before the change
	hidden bool         // the row has an image that the writer's view hides
	cells  []table.Cell // sorted by column, one cell per column; the revision of each is set
}

// A sink receives the keys that a change writes. Examples are a batch and a sorted table.
type sink interface {
	Set(key, value []byte, _ *pebble.WriteOptions) error
	Delete(key []byte, _ *pebble.WriteOptions) error
}

// A writer converts deltas into keys. A load has writers of its own. The writer of the
// store may be used only by the goroutine that holds the right to write.
type writer struct {
	s     *Store
	view  readView // the state that the writer builds on: all revisions if view.view is nil
	it    *iterator
	out   sink
	enc   encoder
	rev   table.Revision
	key   []byte
	val   []byte
	old   []table.Cell
	cells []table.Cell
	n     int64 // number of keys written
	seeks int64

	deltas []delta
	mem    []byte
	arena  []table.Cell
}

func (w *writer) set(key, value []byte) error {
	w.n++
	return w.out.Set(key, value, nil)
}

// putColumns writes each cell under its own key, with the cell's revision.
func (w *writer) putColumns(d *delta, cells []table.Cell) error {
	for i := range cells {
		c := &cells[i]
		w.key = appendSuffix(appendColumn(w.key[:0], d.prefix, c.Family, c.Qualifier), c.Revision)
		w.val = appendColumnValue(w.val[:0], c)
		if err := w.set(w.key, w.val); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) putImage(d *delta, r table.Revision, v []byte) error {
	w.key = appendSuffix(append(w.key[:0], d.prefix...), r)
	return w.set(w.key, v)
}

func (w *writer) putMarker(d *delta, r table.Revision, del bool, cutoff table.Revision) error {
	w.val = appendMarker(w.val[:0], del, cutoff)
	return w.putImage(d, r, w.val)
}

// update applies a delta at revision w.rev to its row. In most cases it needs one seek.
func (w *writer) update(d *delta) error {
	m, v, err := w.newest(d)
	if err != nil {
		return err
	}
	exists := v != nil
	switch {
	case exists && m.rev > w.rev:
		return w.insert(d)
	case m.columns:
		return w.updateColumns(d, m)
	}
	w.old = w.old[:0]
	if exists {
		if w.old, err = m.appendAll(w.old); err != nil {
			return err
		}
	}
	del := d.del || exists && m.rev == w.rev && m.del
	w.cells = mergeCells(w.cells[:0], w.old, d.cells, d.del, w.rev)
	return w.putNewest(d, del, w.cells, v)
}

// putNewest writes a row at w.rev as one image. If the image would be too large, it
// writes the row as columns. stored is the image under the iterator. It is nil if there
// is none.
func (w *writer) putNewest(d *delta, del bool, cells []table.Cell, stored []byte) (err error) {
	if sizeOf(cells) > d.g.limit {
		if cells, err = w.bury(d, cells); err != nil {
			return err
		}
		stored = nil // the iterator has moved
	}
	var cutoff table.Revision
	if del {
		cutoff = w.rev
	}
	return w.putRow(d, w.rev, del, cutoff, cells, stored)
}

// newest returns the newest image of the delta's row that the writer sees, and the bytes
// of that image. Both are valid until the iterator moves. If there is no such image, v is
// nil. newest also sets d.over and d.hidden. A writer without an iterator writes to an
// empty group, so there is no image.
func (w *writer) newest(d *delta) (m image, v []byte, err error) {
	if w.it == nil {
		return m, nil, nil
	}
	w.seeks++
	for ok := w.it.SeekPrefixGE(d.prefix); ok; ok = w.it.Next() {
		d.over = true
		rev := revisionOf(w.it.Key())
		if w.view.view != nil && !w.view.sees(rev) {
			d.hidden = true
			continue
		}
		if v, err = w.it.ValueAndErr(); err == nil {
			m, err = parseImage(rev, v)
		}
		return m, v, err
	}
	return m, nil, w.it.Error()
}

// putRow writes a row as one image. If the image would be too large, it writes the row as
// columns, of which those before cutoff are deleted. It writes nothing if the same image is stored already.
func (w *writer) putRow(d *delta, r table.Revision, del bool, cutoff table.Revision, cells []table.Cell, stored []byte) error {
	if sizeOf(cells) <= d.g.limit {
		v := w.enc.image(r, del, cells)
		if stored != nil && bytes.Equal(v, stored) && sameRevision(w.it.Key(), r) {
			return nil
		}
		return w.putImage(d, r, v)
	}
	if err := w.putMarker(d, r, del, cutoff); err != nil {
		return err
	}
	return w.putColumns(d, cells)
}

func sameRevision(key []byte, r table.Revision) bool { return revisionOf(key) == r }

// updateColumns adds cells to a columnar row without reading the row's columns.
func (w *writer) updateColumns(d *delta, m image) error {
	if d.del {
		if err := w.putMarker(d, w.rev, true, max(m.cutoff, w.rev)); err != nil {
			return err
		}
	}
	return w.putColumns(d, d.cells)
}

// sizeOf returns the approximate size of an image of the cells.
func sizeOf(cells []table.Cell) int {
	n := 0
	for i := range cells {
		n += len(cells[i].Qualifier) + len(cells[i].Value) + 3
	}
	return n
}

// mergeCells merges newer cells, which all have revision r, over older cells. It drops
// older tombstones except tombstones of r itself, which record the change of r. If del is
// set, it drops all older cells except those of r.
func mergeCells(dst, older, newer []table.Cell, del bool, r table.Revision) []table.Cell {
	for len(older) > 0 || len(newer) > 0 {
		d := -1
		switch {
		case len(older) == 0:
			d = 1
		case len(newer) > 0:
			d = older[0].Compare(newer[0])
		}
		if d < 0 {
			if c := older[0]; c.Revision == r || !c.Tombstone && !del {
				dst = append(dst, c)
			}
			older = older[1:]
			continue
		}
		if d == 0 {
			older = older[1:]
		}
		dst, newer = append(dst, newer[0]), newer[1:]
	}
	return dst
}

// take converts a table's mutations into deltas, one for each row and group. The cells of
// a delta are sorted and contain the last cell of each column. The deltas use the
// writer's memory.
func (w *writer) take(t *tableInfo, ms []table.Mutation) error {
	for i := range ms {
		m := &ms[i]
		if err := checkCells(t, m.Cells); err != nil {
			return err
		}
		for _, g := range t.groups {
			n := len(w.arena)
			for _, c := range m.Cells {
				if t.byFamily[c.Family] != g {
					continue
				}
				if c.Revision = w.rev; c.Tombstone {
					c.Value = nil
				}
				w.arena = append(w.arena, c)
			}
			if len(w.arena) == n && !m.DeleteRow {
				continue
			}
			at := len(w.mem)
			w.mem = appendImage(w.mem, t.id, g.name, m.Row)
			w.deltas = append(w.deltas, delta{
				t: t, g: g, row: m.Row, del: m.DeleteRow,
				prefix: w.mem[at:len(w.mem):len(w.mem)],
				cells:  table.LastOfEach(w.arena[n:len(w.arena):len(w.arena)]),
			})
		}
	}
	return nil
}

// mergeDeltas sorts the deltas by table, group and row, and merges deltas of the same row and
// group. Later deltas override earlier deltas.
func mergeDeltas(ds []delta) []delta {
	slices.SortStableFunc(ds, func(a, b delta) int { return bytes.Compare(a.prefix, b.prefix) })
	out := ds[:0]
	for _, d := range ds {
		if n := len(out); n > 0 && bytes.Equal(out[n-1].prefix, d.prefix) {
			p := &out[n-1]
			p.del = p.del || d.del
			p.cells = table.LastOfEach(slices.Concat(p.cells, d.cells))
			continue
		}
		out = append(out, d)
	}
	return out
}

func (w *writer) reset(r table.Revision, v table.View) {
	w.rev, w.view = r, readView{}
	if v != nil {
		w.view = newReadView(v)
	}
	w.deltas, w.mem, w.arena = w.deltas[:0], w.mem[:0], w.arena[:0]
}

// clear drops references to the callers' bytes. It also drops the memory of a large
// commit. Otherwise every small commit would clear this memory again, which was a third
// of the cost of a modify.
func (w *writer) clear() {
	w.arena = wiped(w.arena)
	w.deltas = wiped(w.deltas)
	w.old = wiped(w.old)
	w.cells = wiped(w.cells)
	w.out = nil
}

const keptCells = 512

func wiped[T any](s []T) []T {
	if cap(s) > keptCells {
		return nil
	}
	clear(s[:cap(s)])
	return s[:0]
}

func checkCells(t *tableInfo, cells []table.Cell) error {
	for i := range cells {
		c := &cells[i]
		if t.byFamily[c.Family] == nil {
			return fmt.Errorf("table %q has no family %q", t.spec.Name, string(rune(c.Family)))
		}
		if len(c.Value) > table.MaxValue {
			return fmt.Errorf("%w: %d bytes in column %q of table %q, the limit is %d",
				table.ErrTooLarge, len(c.Value), c.Qualifier, t.spec.Name, table.MaxValue)
		}
	}
	return nil
}

var errRevision = errors.New("revision 0, or more than 63 bits")

// rowsOf returns the rows of those deltas for which the function wanted returns true.
func rowsOf(ds []delta, wanted func(*delta) bool) (rows []table.Rows) {
	for i := range ds {
		d := &ds[i]
		if !wanted(d) {
			continue
		}
		at, ok := slices.BinarySearchFunc(rows, d.t.spec.Name, func(r table.Rows, name string) int { return strings.Compare(r.Table, name) })
		if !ok {
			rows = slices.Insert(rows, at, table.Rows{Table: d.t.spec.Name})
		}
		rows[at].Keys = append(rows[at].Keys, d.row)
	}
	for i := range rows { // a row may have deltas in several groups
		slices.SortFunc(rows[i].Keys, bytes.Compare)
		rows[i].Keys = slices.CompactFunc(rows[i].Keys, bytes.Equal)
	}
	return rows
}

// Apply implements table.Table.
func (h handle) Apply(ctx context.Context, r table.Revision, ms []table.Mutation) error {
	t, err := h.s.tables.table(h.name)
	if err == nil && t.spec.Unversioned {
		err = fmt.Errorf("table %q is unversioned: use Swap", h.name)
	}
	if err != nil && !h.s.gate.closed() {
		return h.s.wrap("apply", err)
	}
	wait, err := h.s.Commit(ctx, table.Batch{Revision: r, Writes: []table.Write{{Table: h.name, Mutations: ms}}})
	if err != nil {
		return err
	}
	return wait()
}
