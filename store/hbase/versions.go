package hbase

import (
	"context"
	"slices"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

var _ table.Versioner = (*Table)(nil)

// Versions implements table.Versioner. It is used only for rows of marks, which are
// narrow enough that each row fits into one answer.
func (t *Table) Versions(ctx context.Context, keys [][]byte, f table.Family, after table.Revision) ([]table.Row, error) {
	sel := versionsOf(f, after)
	rows := make([]table.Row, len(keys))
	want := make([]*table.Row, len(keys))
	for i, k := range keys {
		rows[i].Key, want[i] = k, &rows[i]
	}
	for chunk := range slices.Chunk(want, batchRows) {
		calls, err := t.read(ctx, chunk, sel, allVersions, 0)
		if err != nil {
			return nil, err
		}
		for i, row := range chunk {
			if row.Cells, err = allCells(calls[i].versions, t.opener(row.Key)); err != nil {
				return nil, err
			}
		}
	}
	return rows, nil
}

// versionsOf selects the cells of a family with revisions larger than the argument after.
func versionsOf(f table.Family, after table.Revision) *selection {
	return &selection{families: map[string][]string{familyName(f): nil}, after: after}
}

// allCells returns all versions as cells, except row tombstones.
func allCells(vs []version, o opener) (cells []table.Cell, err error) {
	for i := range vs {
		v := &vs[i]
		switch {
		case v.isRowTombstone():
		case len(v.value) == 1 && v.value[0] == markTombstone:
			cells = append(cells, table.Cell{Family: v.family, Qualifier: loadQualifier(v.qualifier), Tombstone: true, Revision: v.revision})
		default:
			if cells, err = appendCell(cells, v, o); err != nil {
				return nil, err
			}
		}
	}
	return cells, nil
}
