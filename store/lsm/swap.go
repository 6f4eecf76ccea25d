package lsm

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

var errEmpty = errors.New("empty value for an unversioned table")

// replace writes mutations to an unversioned table.
func (w *writer) replace(t *tableInfo, ms []table.Mutation) error {
	for i := range ms {
		m := &ms[i]
		prefix := appendImage(nil, t.id, 0, m.Row)
		if m.DeleteRow {
			if err := w.removeRow(t, m.Row); err != nil {
				return err
			}
		}
		if err := w.replaceCells(t, prefix, m.Cells); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) replaceCells(t *tableInfo, prefix []byte, cells []table.Cell) error {
	if err := checkCells(t, cells); err != nil {
		return err
	}
	for i := range cells {
		c := &cells[i]
		prefix[headLen-1] = byte(t.byFamily[c.Family].name)
		w.key = appendColumn(w.key[:0], prefix, c.Family, c.Qualifier)
		w.n++
		var err error
		if c.Tombstone {
			err = w.out.Delete(w.key, nil)
		} else if len(c.Value) == 0 {
			err = errEmpty
		} else {
			w.val = appendColumnValue(w.val[:0], c)
			err = w.out.Set(w.key, w.val, nil)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// removeRow deletes the existing keys of a row of an unversioned table.
func (w *writer) removeRow(t *tableInfo, row []byte) error {
	for _, g := range t.groups {
		if err := w.removeGroup(appendImage(nil, t.id, g.name, row)); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) removeGroup(prefix []byte) error {
	end := appendRowPart(nil, prefix, termRow)
	for ok := w.it.SeekGE(prefix); ok && bytes.Compare(w.it.Key(), end) < 0; ok = w.it.NextPrefix() {
		if err := w.out.Delete(w.it.Key(), nil); err != nil {
			return err
		}
	}
	return w.it.Error()
}

// Swap implements table.Table.
func (h handle) Swap(ctx context.Context, row []byte, f table.Family, q, old []byte, cells []table.Cell) (bool, error) {
	s := h.s
	if err := s.gate.beginWrite(ctx, true); err != nil {
		return false, err
	}
	wait, ok, err := h.swap(row, f, q, old, cells)
	s.gate.endWrite()
	if err != nil || !ok {
		return false, s.wrap("swap in "+h.name, err)
	}
	if err := wait(); err != nil {
		return false, err
	}
	return true, nil
}

func (h handle) swap(row []byte, f table.Family, q, old []byte, cells []table.Cell) (wait func() error, ok bool, err error) {
	s := h.s
	t, err := s.tables.table(h.name)
	if err != nil {
		return nil, false, err
	}
	if !t.spec.Unversioned {
		return nil, false, fmt.Errorf("table %q is versioned: use Apply", h.name)
	}
	if t.byFamily[f] == nil {
		return nil, false, fmt.Errorf("table %q has no family %q", h.name, string(rune(f)))
	}
	for i := range cells {
		if len(cells[i].Value) == 0 && !cells[i].Tombstone {
			return nil, false, errEmpty
		}
	}
	if err := checkCells(t, cells); err != nil {
		return nil, false, err
	}
	now, err := h.value(appendColumn(nil, appendImage(nil, t.id, t.byFamily[f].name, row), f, q))
	if err != nil || !bytes.Equal(now, old) {
		return nil, false, err
	}
	wait, err = s.commits.commit(table.Batch{Writes: []table.Write{{Table: h.name, Mutations: []table.Mutation{{Row: row, Cells: cells}}}}})
	return wait, err == nil, err
}

// value returns the value of a cell of an unversioned table, or nil if the cell does not
// exist.
func (h handle) value(key []byte) ([]byte, error) {
	v, c, err := h.s.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if len(v) < 2 || v[0] != columnLive {
		return nil, errColumn
	}
	return bytes.Clone(v[1:]), nil
}
