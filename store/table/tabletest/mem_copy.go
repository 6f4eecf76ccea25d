package tabletest

import (
	"context"
	"fmt"
	"slices"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

var _ table.Copier = memHandle{}

// CopyTo implements table.Copier. Others may write between two rows.
func (h memHandle) CopyTo(ctx context.Context, to table.Table, w table.Rewriter, span table.RevisionSpan) error {
	dst, ok := to.(memHandle)
	if !ok {
		return fmt.Errorf("table %q is not in a Mem", to.Name())
	}
	var keys []string
	if err := h.change(ctx, func(t *memTable) { keys = slices.Clone(t.keys) }); err != nil {
		return err
	}
	for _, key := range keys {
		row, unversioned := memRow{}, false
		err := h.change(ctx, func(t *memTable) {
			if unversioned = t.spec.Unversioned; t.rows[key] != nil {
				row.cells, row.deletes = slices.Clone(t.rows[key].cells), slices.Clone(t.rows[key].deletes)
			}
		})
		if err == nil {
			err = dst.copyRow(ctx, []byte(key), &row, w, span, unversioned)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// copyRow writes a row of another table in the form that w gives it.
func (h memHandle) copyRow(ctx context.Context, key []byte, from *memRow, w table.Rewriter, span table.RevisionSpan, unversioned bool) error {
	key, err := w.Row(key)
	if err != nil || key == nil {
		return err
	}
	var cells []table.Cell
	for _, c := range from.cells {
		if !unversioned && !span.Has(c.Revision) {
			continue
		}
		keep, err := w.Cell(&c)
		if err != nil {
			return err
		}
		if keep {
			cells = append(cells, c)
		}
	}
	return h.change(ctx, func(t *memTable) {
		if unversioned {
			t.replace(key, cells)
			return
		}
		row := t.row(key)
		for _, c := range cells {
			row.put(c)
		}
		for _, r := range from.deletes {
			if span.Has(r) && !slices.Contains(row.deletes, r) {
				row.deletes = append(row.deletes, r)
			}
		}
		t.drop(string(key), row)
	})
}
