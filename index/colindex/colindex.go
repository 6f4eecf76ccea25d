// Package colindex is the index for attributes that have many different values, each with
// few entries. It writes one row per value and one column per id. One Get returns all
// candidates of a value with fewer than 1000 entries, and thus their number.
package colindex

import (
	"bytes"
	"context"
	"iter"

	"github.com/seed-4dac0d86/ldapd/index"
	"github.com/seed-4dac0d86/ldapd/index/existence"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// An Index is a column index in a table.
type Index struct{ existence.Index }

// New returns the index in a table.
func New(t table.Table) index.Index { return Index{existence.Index{In: t}} }

// Selective implements index.Index.
func (Index) Selective() bool { return true }

// page is the largest number of columns of a row that one call in Equal, Postings, Span or
// InOrder reads, except in wholeRow. Most values have fewer entries.
const page = 1000

// Equal reads the row of one value. It reads a row of page or more columns in several calls.
func (x Index) Equal(ctx context.Context, r table.Reader, key, after []byte) index.Candidates {
	return func(yield func(index.Candidate, error) bool) {
		row := index.AppendKey(nil, key)
		if len(after) >= len(entry.ID{}) {
			after = after[len(after)-len(entry.ID{}):]
		}
		x.columns(ctx, r, row, false, after, yield)
	}
}

// Head reads the first columns of the row of one value in one call.
func (x Index) Head(ctx context.Context, r table.Reader, key []byte, set *index.Set, n int) (bool, error) {
	from := table.ColumnRange{Family: index.Info}
	if last := set.Last(nil); last != nil {
		from.From = append(last[len(last)-len(entry.ID{}):], 0)
	}
	row, err := r.Get(ctx, x.In, index.AppendKey(nil, key), table.Select{Columns: []table.ColumnRange{from}, MaxCells: n - set.Len()})
	if err != nil {
		return false, err
	}
	return set.Len()+len(row.Cells) >= n, take(set, row)
}

// take appends the candidates of a row to a set.
func take(set *index.Set, row table.Row) error {
	for i := range row.Cells {
		c, err := candidate(nil, &row.Cells[i])
		if err != nil {
			return err
		}
		set.Append(c.ID, c.Parent)
	}
	return nil
}

// Postings first makes one call for all rows, which reads at most page columns of each row.
// Then it reads the remaining columns of longer rows.
func (x Index) Postings(ctx context.Context, r table.Reader, keys [][]byte) ([]*index.Set, error) {
	rows := make([][]byte, len(keys))
	for i, key := range keys {
		rows[i] = index.AppendKey(nil, key)
	}
	got, err := r.GetMany(ctx, x.In, rows, table.Select{MaxCells: page})
	if err != nil {
		return nil, err
	}
	sets := make([]*index.Set, len(keys))
	for i, row := range got {
		sets[i], err = index.Collect(func(yield func(index.Candidate, error) bool) { x.row(ctx, r, row, false, yield) })
		if err != nil {
			return nil, err
		}
	}
	return sets, nil
}

// Span scans a range of values and tests each row's key.
func (x Index) Span(ctx context.Context, r table.Reader, s index.Span, after []byte) index.Candidates {
	return func(yield func(index.Candidate, error) bool) {
		rows := s.Rows()
		if n := len(after) - len(entry.ID{}); n > 0 {
			// The position may be inside a row. Read the rest of that row first.
			_, cut, _, err := index.CutKey(after[:n])
			if err != nil {
				yield(index.Candidate{}, err)
				return
			}
			if !x.columns(ctx, r, after[:n], cut, after[n:], yield) {
				return
			}
			rows = index.Continue(rows, after[:n])
		}
		for row, err := range r.Scan(ctx, x.In, rows, table.Select{MaxCells: page, Filter: s.Filter(), Expect: s.Expect}) {
			if err != nil {
				yield(index.Candidate{}, err)
				return
			}
			key, cut, _, err := index.CutKey(row.Key)
			if err != nil {
				yield(index.Candidate{}, err)
				return
			}
			if holds, maybe := s.Holds(key, cut); holds && !x.row(ctx, r, row, maybe, yield) {
				return
			}
		}
	}
}

// InOrder scans all values and yields the ids in the row of each value.
func (x Index) InOrder(ctx context.Context, r table.Reader, reverse bool, after []byte, expect int) index.Candidates {
	if reverse {
		return x.backwards(ctx, r, after, expect)
	}
	return x.Span(ctx, r, index.Span{Expect: expect}, after)
}

// backwards scans from the last value to the first.
func (x Index) backwards(ctx context.Context, r table.Reader, after []byte, expect int) index.Candidates {
	return func(yield func(index.Candidate, error) bool) {
		if n := len(after) - len(entry.ID{}); n > 0 {
			if !x.wholeRow(ctx, r, after[:n], after[n:], yield) {
				return
			}
			after = after[:n]
		}
		sel := table.Select{Reverse: true, MaxCells: page, Expect: expect}
		for row, err := range r.Scan(ctx, x.In, index.Values(true, after), sel) {
			switch {
			case err != nil:
				yield(index.Candidate{}, err)
				return
			case len(row.Cells) == page:
				if !x.wholeRow(ctx, r, row.Key, nil, yield) {
					return
				}
			case !rowBackwards(row, yield):
				return
			}
		}
	}
}

// wholeRow reads those ids of a row that are less than limit, or all ids if limit is nil. It
// yields them in reverse order. It reads all of them in one call, because a row cannot be read
// in reverse order.
func (x Index) wholeRow(ctx context.Context, r table.Reader, row, limit []byte, yield func(index.Candidate, error) bool) bool {
	within := table.ColumnRange{Family: index.Info, To: limit}
	got, err := r.Get(ctx, x.In, row, table.Select{Columns: []table.ColumnRange{within}})
	if err != nil {
		return yield(index.Candidate{}, err) && false
	}
	return rowBackwards(got, yield)
}

func rowBackwards(row table.Row, yield func(index.Candidate, error) bool) bool {
	position := append([]byte(nil), row.Key...)
	for i := len(row.Cells) - 1; i >= 0; i-- {
		c, err := candidate(position[:len(row.Key)], &row.Cells[i])
		position = c.Position
		if !yield(c, err) || err != nil {
			return false
		}
	}
	return true
}

// candidate decodes a cell of a row. The candidate's position consists of the row and the
// id.
func candidate(row []byte, cell *table.Cell) (c index.Candidate, err error) {
	if copy(c.ID[:], cell.Qualifier) != len(c.ID) {
		return c, table.ErrCorrupt
	}
	c.Parent, err = index.ParentOf(cell)
	c.Position = append(row, c.ID[:]...)
	return c, err
}

// columns yields those candidates of a row whose ids are greater than the argument after. It
// returns false if the caller must stop.
func (x Index) columns(ctx context.Context, r table.Reader, row []byte, maybe bool, after []byte, yield func(index.Candidate, error) bool) bool {
	from := table.ColumnRange{Family: index.Info}
	if len(after) > 0 {
		from.From = append(append([]byte(nil), after...), 0)
	}
	got, err := r.Get(ctx, x.In, row, table.Select{Columns: []table.ColumnRange{from}, MaxCells: page})
	if err != nil {
		return yield(index.Candidate{}, err) && false
	}
	return x.row(ctx, r, got, maybe, yield)
}

// row yields the candidates of a row whose first page has been read. It reads the
// following pages of the row.
func (x Index) row(ctx context.Context, r table.Reader, row table.Row, maybe bool, yield func(index.Candidate, error) bool) bool {
	position := append([]byte(nil), row.Key...)
	for i := range row.Cells {
		c, err := candidate(position[:len(row.Key)], &row.Cells[i])
		c.Maybe, position = maybe, c.Position
		if !yield(c, err) || err != nil {
			return false
		}
	}
	if len(row.Cells) < page {
		return true
	}
	return x.columns(ctx, r, position[:len(row.Key):len(row.Key)], maybe, position[len(row.Key):], yield)
}

// Among reads the entries' columns in the row of the value.
func (x Index) Among(ctx context.Context, r table.Reader, key []byte, ids []entry.ID) ([]index.Change, error) {
	columns := make([]table.ColumnRange, len(ids))
	for i, id := range ids {
		columns[i] = table.Column(index.Info, id[:])
	}
	row, err := r.Get(ctx, x.In, index.AppendKey(nil, key), table.Select{Columns: columns})
	if err != nil {
		return nil, err
	}
	changes := make([]index.Change, len(ids))
	for i, id := range ids {
		changes[i] = index.Change{ID: id, Gone: true}
		for k := range row.Cells {
			if !bytes.Equal(row.Cells[k].Qualifier, id[:]) {
				continue
			}
			changes[i].Gone = false
			if changes[i].Parent, err = index.ParentOf(&row.Cells[k]); err != nil {
				return nil, err
			}
		}
	}
	return changes, nil
}

// Warm streams the rows that have at most limit columns and contain the whole key.
func (x Index) Warm(ctx context.Context, r table.Reader, limit int) iter.Seq2[index.Value, error] {
	return func(yield func(index.Value, error) bool) {
		for row, err := range r.Scan(ctx, x.In, index.Values(false, nil), table.Select{MaxCells: limit + 1}) {
			if err == nil && len(row.Cells) > limit {
				continue
			}
			v, cut, err := value(row, err)
			if !cut && !yield(v, err) || err != nil {
				return
			}
		}
	}
}

// value decodes a row. If cut is set, the row contains only the beginning of the key, and
// v has no entries.
func value(row table.Row, err error) (v index.Value, cut bool, _ error) {
	if err != nil {
		return v, false, err
	}
	if v.Key, cut, _, err = index.CutKey(row.Key); err != nil || cut {
		return v, cut, err
	}
	v.Set = &index.Set{}
	if err := take(v.Set, row); err != nil {
		return v, false, err
	}
	v.Set.Clip()
	return v, false, nil
}

// Mutation implements index.Index.
func (x Index) Mutation(key []byte, id, parent entry.ID, gone bool) table.Mutation {
	cell := table.Cell{Family: index.Info, Qualifier: id[:], Tombstone: gone}
	if !gone {
		cell.Value = parent[:]
	}
	return table.Mutation{Row: index.AppendKey(nil, key), Cells: []table.Cell{cell}}
}
