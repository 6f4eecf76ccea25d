package hbase

import (
	"context"
	"errors"
	"slices"

	"github.com/tsuna/gohbase/filter"
	"github.com/tsuna/gohbase/hrpc"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

const (
	// batchRows is the number of rows that one batch reads.
	batchRows = 512
	// pageCells is the number of cells of a wide row that one call reads.
	pageCells = 4096
)

// Get implements table.Table.
func (t *Table) Get(ctx context.Context, row []byte, s table.Select) (table.Row, error) {
	rows, err := t.GetMany(ctx, [][]byte{row}, s)
	if err != nil {
		return table.Row{}, err
	}
	return rows[0], nil
}

// GetMany implements table.Table.
func (t *Table) GetMany(ctx context.Context, keys [][]byte, s table.Select) ([]table.Row, error) {
	h, err := t.shape(ctx)
	if err != nil {
		return nil, err
	}
	sel, err := selectFor(h, &s, false)
	if err != nil {
		return nil, err
	}
	rows := make([]table.Row, len(keys))
	want := make([]*table.Row, len(keys))
	for i, k := range keys {
		rows[i].Key, want[i] = k, &rows[i]
	}
	return rows, t.fill(ctx, want, sel)
}

// fill reads the cells of rows by their keys. If the view does not show the newest
// version of a column, fill reads the row again with more versions.
func (t *Table) fill(ctx context.Context, rows []*table.Row, sel *selection) error {
	for depth := 1; len(rows) > 0; depth = deeper(depth) {
		var again []*table.Row
		for chunk := range slices.Chunk(rows, batchRows) {
			rest, err := t.fillChunk(ctx, chunk, sel, depth)
			if err != nil {
				return err
			}
			again = append(again, rest...)
		}
		rows = again
	}
	return nil
}

// deeper returns the number of versions to read if depth versions were not enough. Some
// columns have thousands of versions, but few readers need more than the newest ones.
func deeper(depth int) int {
	if depth >= 64 {
		return allVersions
	}
	return 8 * depth
}

// fillChunk reads rows in one batch and returns the rows that must be read again with
// more versions.
func (t *Table) fillChunk(ctx context.Context, rows []*table.Row, sel *selection, depth int) (again []*table.Row, err error) {
	limit := 0
	if depth == 1 {
		limit = sel.limit()
	}
	calls, err := t.read(ctx, rows, sel, depth, limit)
	if err != nil {
		return nil, err
	}
	see := readView{view: sel.view}
	for i, row := range rows {
		main := calls[i]
		vs := main.versions
		if sel.beside {
			vs = append(calls[len(rows)+i].versions, vs...)
		}
		see.opener = t.opener(row.Key)
		cells, more, err := resolve(make([]table.Cell, 0, len(main.versions)), vs, &see, 0, depth)
		if err != nil {
			return nil, err
		}
		if more && sel.max == 0 {
			again = append(again, row)
			continue
		}
		ok := !more
		if ok {
			row.Cells, ok = sel.trim(cells, main.versions, limit)
		}
		if !ok {
			if err := t.page(ctx, row, sel); err != nil {
				return nil, err
			}
		}
	}
	return again, nil
}

// read sends a Get for each row. If sel.beside is set, it sends a second Get for each
// row's tombstone.
func (t *Table) read(ctx context.Context, rows []*table.Row, sel *selection, depth, limit int) (calls []*getCall, err error) {
	err = t.store.conn.repeat(ctx, "read", t.full, func(ctx context.Context, cl *client) error {
		calls = make([]*getCall, 0, 2*len(rows))
		opts := sel.options(depth, limit)
		if sel.columns != nil {
			opts = append(opts, hrpc.Filters(sel.columns))
		}
		for _, r := range rows {
			g, err := hrpc.NewGet(ctx, t.full, r.Key, opts...)
			if err != nil {
				return err
			}
			calls = append(calls, &getCall{Get: g})
		}
		if sel.beside {
			stone := tombstoneOf(sel)
			for _, r := range rows {
				g, err := hrpc.NewGet(ctx, t.full, r.Key, stone.options(depth, 0)...)
				if err != nil {
					return err
				}
				calls = append(calls, &getCall{Get: g})
			}
		}
		return cl.get(ctx, calls)
	})
	return calls, err
}

// tombstoneOf returns the selection of the row tombstone at the view of sel. It selects
// only one family, because the row tombstones are the same in all families.
func tombstoneOf(sel *selection) *selection {
	return &selection{view: sel.view, families: map[string][]string{familyName(sel.plan[0].family): {string(rowTombstone)}}}
}

// get sends Gets. It sends a single Get as one call, and several Gets as a batch.
func (cl *client) get(ctx context.Context, calls []*getCall) error {
	if len(calls) == 0 {
		return nil
	}
	if len(calls) == 1 {
		_, err := cl.send(calls[0])
		return err
	}
	batch := make([]hrpc.Call, len(calls))
	for i, c := range calls {
		batch[i] = c
	}
	err := cl.batch(ctx, batch)
	if err == nil || !isException(err, "MultiActionResultTooLarge") {
		return err
	}
	// The answers together exceed hbase.server.scanner.max.result.size, so get sends each
	// half by itself.
	return errors.Join(cl.get(ctx, calls[:len(calls)/2]), cl.get(ctx, calls[len(calls)/2:]))
}

// batch sends calls together. It returns the error of a result that is too large if there is
// one, and otherwise the first error. gohbase clears the slice that is passed to it.
func (cl *client) batch(ctx context.Context, calls []hrpc.Call) error {
	results, ok := cl.SendBatch(ctx, calls)
	if ok {
		return nil
	}
	var first error
	for _, r := range results {
		if r.Error != nil && (first == nil || isException(r.Error, "MultiActionResultTooLarge")) {
			first = r.Error
		}
	}
	return first
}

// page reads a row in pieces. The row may be too wide for one answer.
func (t *Table) page(ctx context.Context, row *table.Row, sel *selection) error {
	since, err := t.deletedAt(ctx, row.Key, sel)
	if err != nil {
		return err
	}
	row.Cells = nil
	for _, p := range sel.plan {
		spans := p.spans
		if len(spans) == 0 {
			spans = []span{{from: firstStored}}
		}
		for _, s := range spans {
			if err := t.pageSpan(ctx, row, sel, p.family, s, since); err != nil {
				return err
			}
			if sel.max > 0 && len(row.Cells) >= sel.max {
				row.Cells = row.Cells[:sel.max]
				return nil
			}
		}
	}
	return nil
}

// deletedAt returns the revision of the newest row tombstone that the view shows, or zero
// if there is none.
func (t *Table) deletedAt(ctx context.Context, key []byte, sel *selection) (table.Revision, error) {
	if !sel.versioned {
		return 0, nil
	}
	calls, err := t.read(ctx, []*table.Row{{Key: key}}, tombstoneOf(sel), allVersions, 0)
	if err != nil {
		return 0, err
	}
	see := readView{view: sel.view}
	for _, v := range calls[0].versions {
		if see.shows(v.revision) {
			return v.revision, nil
		}
	}
	return 0, nil
}

// pageSpan appends the cells of a span to the row until the span ends or the row has
// MaxCells cells.
func (t *Table) pageSpan(ctx context.Context, row *table.Row, sel *selection, f table.Family, s span, since table.Revision) error {
	size := pageCells
	if sel.max > 0 {
		size = min(size, sel.limit())
	}
	see := readView{view: sel.view, opener: t.opener(row.Key)}
	for sel.max == 0 || len(row.Cells) < sel.max {
		vs, err := t.readSpan(ctx, row.Key, sel.view, f, s, 1, size)
		if err != nil {
			return err
		}
		full := len(vs) >= size
		piece := s
		if full {
			piece.to = append(slices.Clone(vs[len(vs)-1].qualifier), 0)
		}
		var more bool
		if row.Cells, more, err = resolve(row.Cells, vs, &see, since, 1); err != nil {
			return err
		}
		if more {
			if vs, err = t.readSpan(ctx, row.Key, sel.view, f, piece, allVersions, 0); err != nil {
				return err
			}
			if row.Cells, _, err = resolve(row.Cells, vs, &see, since, 0); err != nil {
				return err
			}
		}
		if !full {
			return nil
		}
		s.from = piece.to
	}
	return nil
}

// readSpan reads the versions in one span of one row.
func (t *Table) readSpan(ctx context.Context, key []byte, v table.View, f table.Family, s span, depth, limit int) ([]version, error) {
	one := &selection{
		plan:     []familyPlan{{family: f}},
		view:     v,
		families: map[string][]string{familyName(f): nil},
		// Do not use the filter of span.seek, because it would also pass the row
		// tombstone.
		columns: filter.NewColumnRangeFilter(s.from, s.to, true, false),
	}
	calls, err := t.read(ctx, []*table.Row{{Key: key}}, one, depth, limit)
	if err != nil {
		return nil, err
	}
	return calls[0].versions, nil
}
