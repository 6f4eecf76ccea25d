package txn

import (
	"bytes"
	"context"
	"iter"
	"slices"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

// Get implements Reader.
func (tx *Tx) Get(ctx context.Context, t table.Table, row []byte, sel table.Select) (table.Row, error) {
	w := tx.written(t, row)
	if w == nil {
		return tx.get(ctx, t, row, sel)
	}
	base, top := table.Row{Key: row}, w.selected(&sel)
	if !w.deleted {
		var err error
		if base, err = tx.snapshot.Get(ctx, t, row, below(sel, top)); err != nil {
			return base, err
		}
	}
	return over(base, top, sel.MaxCells), nil
}

// GetMany implements Reader.
func (tx *Tx) GetMany(ctx context.Context, t table.Table, rows [][]byte, sel table.Select) ([]table.Row, error) {
	if len(rows) == 1 {
		row, err := tx.Get(ctx, t, rows[0], sel)
		return []table.Row{row}, err
	}
	if tx.writes[t.Name()] == nil {
		return tx.snapshot.GetMany(ctx, t, rows, sel)
	}
	out := make([]table.Row, len(rows))
	var rest [][]byte
	var at []int
	for i, row := range rows {
		if tx.written(t, row) == nil {
			rest, at = append(rest, row), append(at, i)
			continue
		}
		var err error
		if out[i], err = tx.Get(ctx, t, row, sel); err != nil {
			return nil, err
		}
	}
	if len(rest) == 0 {
		return out, nil
	}
	found, err := tx.snapshot.GetMany(ctx, t, rest, sel)
	if err != nil {
		return nil, err
	}
	for i, r := range found {
		out[at[i]] = r
	}
	return out, nil
}

// Scan implements Reader. The scan sees the rows that the transaction wrote before Scan
// was called.
func (tx *Tx) Scan(ctx context.Context, t table.Table, r table.Range, sel table.Select) iter.Seq2[table.Row, error] {
	keys := tx.between(t, r)
	if len(keys) == 0 {
		return tx.scan(ctx, t, r, sel)
	}
	if sel.Reverse {
		slices.Reverse(keys)
	}
	return func(yield func(table.Row, error) bool) { tx.merge(ctx, t, r, sel, keys, yield) }
}

// merge yields, in the order of the scan, the rows of the snapshot together with the rows
// that the transaction wrote. keys has the keys of the written rows. merge yields each
// written row as the transaction sees it. It reads the written rows one by one, because the
// scan at the store applies its filter without the transaction's writes.
func (tx *Tx) merge(ctx context.Context, t table.Table, r table.Range, sel table.Select, keys []string, yield func(table.Row, error) bool) {
	left := sel.MaxRows // rows left to yield; zero at the start means no bound
	emit := func(row table.Row, err error) bool {
		if err == nil && len(row.Cells) == 0 {
			return true
		}
		left--
		return yield(row, err) && err == nil && left != 0
	}
	// The function "own" yields the written rows whose keys are before a key, or all written
	// rows that remain.
	own := func(before []byte, all bool) bool {
		for len(keys) > 0 && (all || comesFirst(keys[0], before, sel.Reverse)) {
			row, err := tx.Get(ctx, t, []byte(keys[0]), sel)
			keys = keys[1:]
			if !emit(row, err) {
				return false
			}
		}
		return true
	}
	below := sel
	if sel.MaxRows > 0 {
		below.MaxRows += len(keys)
	}
	for row, err := range tx.snapshot.Scan(ctx, t, r, below) {
		if err == nil && !own(row.Key, false) {
			return
		}
		if err == nil && len(keys) > 0 && keys[0] == string(row.Key) {
			continue // the next call of own yields this row
		}
		if !emit(row, err) {
			return
		}
	}
	own(nil, true)
}

func comesFirst(k string, before []byte, reverse bool) bool {
	c := bytes.Compare([]byte(k), before)
	return c < 0 && !reverse || c > 0 && reverse
}

// written returns what the transaction wrote into a row, or nil.
func (tx *Tx) written(t table.Table, row []byte) *rowWrite {
	if o := tx.writes[t.Name()]; o != nil {
		return o.rows[string(row)]
	}
	return nil
}

// between returns a copy of the keys of the written rows in a range.
func (tx *Tx) between(t table.Table, r table.Range) []string {
	o := tx.writes[t.Name()]
	if o == nil {
		return nil
	}
	return o.between(r)
}

// The function "below" returns the selection with which to read the snapshot's version of a written
// row. The selection has no filter, and MaxCells is raised by the number of tombstones that may
// hide cells.
func below(sel table.Select, top []table.Cell) table.Select {
	sel.Filter = nil
	if sel.MaxCells > 0 {
		for i := range top {
			if top[i].Tombstone {
				sel.MaxCells++
			}
		}
	}
	return sel
}

// The function "over" returns the snapshot's row overlaid with the written cells. The result has at most "most"
// cells; zero means no bound.
func over(base table.Row, top []table.Cell, most int) table.Row {
	old := base.Cells
	out := table.Row{Key: base.Key, Cells: make([]table.Cell, 0, len(old)+len(top))}
	for len(old)+len(top) > 0 {
		if most > 0 && len(out.Cells) == most {
			break
		}
		order := 1
		if len(top) == 0 {
			order = -1
		} else if len(old) > 0 {
			order = old[0].Compare(top[0])
		}
		if order < 0 {
			out.Cells = append(out.Cells, old[0])
			old = old[1:]
			continue
		}
		if order == 0 {
			old = old[1:]
		}
		if !top[0].Tombstone {
			out.Cells = append(out.Cells, top[0])
		}
		top = top[1:]
	}
	return out
}
