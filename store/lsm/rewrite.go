package lsm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

// A version is the change that one revision made to a row, read from the image that the
// revision wrote. Each image builds on the image before it. So if a revision is erased,
// or is written after a newer revision, the store rewrites all newer images. This is
// rare, because commits are written in the order of their revisions.
type version struct {
	rev    table.Revision
	marker bool // from an image of a columnar row: the cells of rev are in columns
	del    bool
	cells  []table.Cell
}

// versions reads all images of a row, oldest first.
func (w *writer) versions(prefix []byte) ([]version, error) {
	var vs []version
	for ok := w.it.SeekPrefixGE(prefix); ok; ok = w.it.Next() {
		b, err := w.it.ValueAndErr()
		if err != nil {
			return nil, err
		}
		m, err := parseImage(revisionOf(w.it.Key()), b)
		if err != nil {
			return nil, err
		}
		v := version{rev: m.rev, marker: m.columns, del: m.del}
		if !m.columns {
			if v.cells, err = m.clone().appendAll(nil); err != nil {
				return nil, err
			}
			v.cells = slices.DeleteFunc(v.cells, func(c table.Cell) bool { return c.Revision != m.rev })
		}
		vs = append(vs, v)
	}
	slices.Reverse(vs)
	return vs, w.it.Error()
}

// insert writes a delta whose revision is below other revisions of the row.
func (w *writer) insert(d *delta) error {
	vs, err := w.versions(d.prefix)
	if err != nil {
		return err
	}
	i, found := slices.BinarySearchFunc(vs, w.rev, func(v version, r table.Revision) int {
		return int(min(max(int64(v.rev)-int64(r), -1), 1))
	})
	if !found {
		vs = slices.Insert(vs, i, version{rev: w.rev})
	}
	v := &vs[i]
	v.del = v.del || d.del
	v.cells = table.LastOfEach(slices.Concat(v.cells, d.cells))
	if slices.ContainsFunc(vs, func(v version) bool { return v.marker }) {
		if err := w.putColumns(d, w.lateColumns(d, vs)); err != nil {
			return err
		}
	}
	return w.replay(d, vs, w.rev)
}

// lateColumns returns the cells that insert must write as columns of a columnar row, because reads
// find the visible cells of such a row by the revisions of its columns. They are the late cells,
// and the newer tombstones of their columns. These tombstones may be in images only: when the row
// became columnar, there was nothing that they had to hide.
func (w *writer) lateColumns(d *delta, vs []version) []table.Cell {
	cells := slices.Clone(d.cells)
	for _, v := range vs {
		if v.marker || v.rev <= w.rev {
			continue
		}
		for _, c := range v.cells {
			if _, late := slices.BinarySearchFunc(d.cells, c, table.Cell.Compare); late && c.Tombstone {
				cells = append(cells, c)
			}
		}
	}
	return cells
}

// replay computes the images of a row from the changes of its revisions. It writes only
// the images whose revisions are at least the parameter from.
func (w *writer) replay(d *delta, vs []version, from table.Revision) error {
	var cells []table.Cell
	var cutoff table.Revision
	columns := false
	for _, v := range vs {
		if v.del {
			cutoff = v.rev
		}
		now := mergeCells(nil, cells, v.cells, v.del, v.rev)
		now = slices.DeleteFunc(now, func(c table.Cell) bool { return c.Tombstone && c.Revision != v.rev })
		cells = now
		switch {
		case columns || v.marker:
			columns = true
			if v.rev >= from {
				if err := w.replayColumns(d, v, cutoff, cells); err != nil {
					return err
				}
			}
			cells = nil
		case v.rev >= from:
			// The row may have older columns, if it was columnar at a newer revision already.
			if err := w.putRow(d, v.rev, v.del, cutoff, cells, nil); err != nil {
				return err
			}
			if columns = sizeOf(cells) > d.g.limit; columns {
				cells = nil
			}
		}
	}
	return nil
}

// replayColumns writes the change of one revision to a row that was already columnar at
// that revision.
func (w *writer) replayColumns(d *delta, v version, cutoff table.Revision, cells []table.Cell) error {
	if v.marker || v.del {
		if err := w.putMarker(d, v.rev, v.del, cutoff); err != nil {
			return err
		}
	} else {
		w.key = appendSuffix(append(w.key[:0], d.prefix...), v.rev)
		if err := w.out.Delete(w.key, nil); err != nil {
			return err
		}
	}
	return w.putColumns(d, cells)
}

// Erase implements table.Table.
func (h handle) Erase(ctx context.Context, r table.Revision, rows [][]byte) error {
	s := h.s
	if err := s.gate.beginWrite(ctx, true); err != nil {
		return err
	}
	defer s.gate.endWrite()
	return s.wrap("erase from "+h.name, h.erase(r, rows))
}

func (h handle) erase(r table.Revision, rows [][]byte) (err error) {
	s, w := h.s, &h.s.commits.w
	defer s.caught(&err)
	t, err := s.tables.table(h.name)
	if err != nil {
		return err
	}
	if t.spec.Unversioned {
		return fmt.Errorf("table %q is unversioned", h.name)
	}
	b := s.db.NewBatch()
	w.reset(r, nil)
	if w.it, err = s.iters.get(0); err != nil {
		return err
	}
	defer func() { s.iters.put(w.it); w.it = nil; w.clear() }()
	w.out = b
	rows = slices.Clone(rows)
	slices.SortFunc(rows, bytes.Compare)
	for _, row := range slices.CompactFunc(rows, bytes.Equal) {
		for _, g := range t.groups {
			d := &delta{t: t, g: g, prefix: appendImage(nil, t.id, g.name, row)}
			erase := w.eraseRow
			if r.IsStaged() {
				erase = w.eraseStaged
			}
			if err := erase(d); err != nil {
				return err
			}
		}
	}
	if b.Empty() {
		return b.Close()
	}
	// This batch is not synced. A crash may undo the erasure. Then it also undoes every
	// write that depends on the erasure, because such a write is later in the log. So the
	// caller erases again.
	err = s.db.Apply(b, pebble.NoSync)
	s.iters.changed(0)
	return errors.Join(err, b.Close())
}

// eraseRow removes from one group of a row the change that w.rev made.
func (w *writer) eraseRow(d *delta) error {
	vs, err := w.versions(d.prefix)
	if err != nil {
		return err
	}
	left := 0
	if slices.ContainsFunc(vs, func(v version) bool { return v.marker }) {
		if left, err = w.eraseColumns(d); err != nil {
			return err
		}
	}
	i := slices.IndexFunc(vs, func(v version) bool { return v.rev == w.rev })
	switch {
	case i < 0:
	case vs[i].marker && (left > 0 || i > 0 || len(vs) > 1):
		vs[i].del = false // other revisions of the row need the marker
	default:
		w.key = appendSuffix(append(w.key[:0], d.prefix...), w.rev)
		if err := w.out.Delete(w.key, nil); err != nil {
			return err
		}
		vs = slices.Delete(vs, i, i+1)
	}
	return w.replay(d, vs, w.rev)
}

// eraseColumns deletes the column keys of w.rev, and returns the number of column keys of
// other revisions.
func (w *writer) eraseColumns(d *delta) (left int, err error) {
	from := appendRowPart(nil, d.prefix, termCol)
	for ok := w.it.SeekGE(from); ok && bytes.HasPrefix(w.it.Key(), from); ok = w.it.Next() {
		if revisionOf(w.it.Key()) != w.rev {
			left++
			continue
		}
		if err := w.out.Delete(w.it.Key(), nil); err != nil {
			return 0, err
		}
	}
	return left, w.it.Error()
}

var _ sink = (*pebble.Batch)(nil)

var _ table.Copier = handle{}

// CopyTo implements table.Copier. It rewrites each key and each image by itself, so the images of
// branches keep their form.
func (h handle) CopyTo(ctx context.Context, to table.Table, w table.Rewriter, span table.RevisionSpan) (err error) {
	dst, ok := to.(handle)
	if !ok {
		return fmt.Errorf("table %q is not in an embedded store", to.Name())
	}
	if err := h.s.gate.begin(ctx); err != nil {
		return err
	}
	defer h.s.gate.end()
	if err := dst.s.gate.beginWrite(ctx, false); err != nil {
		return err
	}
	defer dst.s.gate.endWrite()
	defer h.s.caught(&err)
	c := copier{db: dst.s.db, w: w, span: span}
	if c.dst, err = dst.s.tables.table(dst.name); err == nil {
		err = c.run(ctx, h)
	}
	if err == nil { // the compaction flushes first, so that all is durable, and new tables are as small as old ones
		err = c.db.Compact(ctx, appendHead(nil, c.dst.id, 0), appendHead(nil, c.dst.id+1, 0), true)
	}
	dst.s.iters.changed(0)
	return h.s.wrap("copy "+h.name, err)
}

// A copier writes what a table contains to another table.
type copier struct {
	db   *pebble.DB
	dst  *tableInfo
	w    table.Rewriter
	span table.RevisionSpan
	out  *pebble.Batch
	enc  encoder
	key  []byte
}

// copyBytes is the size of the batches that a copier writes.
const copyBytes = 4 << 20

func (c *copier) run(ctx context.Context, from handle) (err error) {
	src, err := from.s.tables.table(from.name)
	if err != nil {
		return err
	}
	it, err := from.s.db.NewIter(&pebble.IterOptions{LowerBound: appendHead(nil, src.id, 0), UpperBound: appendHead(nil, src.id+1, 0)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	c.out = c.db.NewBatch()
	defer func() { err = errors.Join(err, c.out.Close()) }()
	for ok := it.First(); ok; ok = it.Next() {
		v, err := it.ValueAndErr()
		if err == nil {
			err = c.pair(it.Key(), v)
		}
		if err == nil && c.out.Len() >= copyBytes {
			err = c.flush(ctx)
		}
		if err != nil {
			return err
		}
	}
	return errors.Join(it.Error(), c.flush(ctx))
}

func (c *copier) flush(ctx context.Context) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if err := c.db.Apply(c.out, pebble.NoSync); err != nil {
		return err
	}
	c.out.Reset()
	return nil
}

// pair writes the copy of one key and its value.
func (c *copier) pair(key, value []byte) error {
	if r := revisionOf(key); r > 0 && !c.span.Has(r) {
		return nil
	}
	row, term, rest, ok := cutEscaped([]byte{}, key[headLen:])
	if !ok || term != termImage && term != termCol {
		return errKey
	}
	row, err := c.w.Row(row)
	if err != nil || row == nil {
		return err
	}
	g := table.Family(key[headLen-1])
	c.key = appendImage(c.key[:0], c.dst.id, g, row)
	if term == termCol {
		return c.column(rest, value, revisionOf(key))
	}
	if value, err = c.image(revisionOf(key), value); err != nil {
		return err
	}
	return c.out.Set(append(c.key, rest...), value, nil)
}

// column writes the copy of the key of a column. rest is what follows the row in the key.
func (c *copier) column(rest, value []byte, r table.Revision) error {
	if len(rest) == 0 || len(value) == 0 {
		return errKey
	}
	q, _, suffix, ok := cutEscaped([]byte{}, rest[1:])
	if !ok {
		return errKey
	}
	cell := table.Cell{Family: table.Family(rest[0]), Qualifier: q, Value: value[1:], Tombstone: value[0] == columnDead, Revision: r}
	keep, err := c.w.Cell(&cell)
	if err != nil || !keep {
		return err
	}
	key := append(appendColumn(nil, c.key, cell.Family, cell.Qualifier), suffix...)
	return c.out.Set(key, appendColumnValue(nil, &cell), nil)
}

// image returns the copy of an image.
func (c *copier) image(r table.Revision, value []byte) ([]byte, error) {
	m, err := parseImage(r, value)
	if err != nil || m.columns {
		return value, err
	}
	all, err := m.appendAll(nil)
	if err != nil {
		return nil, err
	}
	cells := all[:0]
	for _, x := range all {
		keep, err := c.w.Cell(&x)
		if err != nil {
			return nil, err
		}
		if keep {
			cells = append(cells, x)
		}
	}
	slices.SortFunc(cells, table.Cell.Compare)
	return c.enc.image(r, m.del, cells), nil
}
