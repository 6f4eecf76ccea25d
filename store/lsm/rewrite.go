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
			if err := w.putRow(d, v.rev, v.del, cells, nil); err != nil {
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
