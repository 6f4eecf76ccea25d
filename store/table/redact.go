package table

import (
	"context"
	"iter"
	"slices"
)

// A Redactor is a Table whose past can be changed: values disappear as if their revisions
// had not written them. A redaction is only for data that must be erased by law:
// afterwards, a reader of a past state reads something else than before. The versioned
// tables of all engines are Redactors.
type Redactor interface {
	// History streams, for each row of r, everything that is stored: all versions,
	// whether or not a view shows them. A row with very many cells is streamed in several
	// pieces, one after another.
	History(ctx context.Context, r Range) iter.Seq2[Past, error]
	// Redact changes cells and deletions that revisions up to upTo wrote into rows. Callers
	// must make sure that all of these revisions are decided, and that rs contains each row
	// only once. Callers may repeat Redact. If Redact returns an error, it may have made
	// some of the changes. The removed data may remain in the store's files until Purge.
	Redact(ctx context.Context, upTo Revision, rs []Redaction) error
}

// A Past is everything stored for a row, or for a piece of a wide row. It contains the
// versions of every column, including tombstones, newest first, and the revisions that
// deleted the row.
type Past struct {
	Key     []byte
	Cells   []Cell
	Deletes []Revision
}

// Revisions returns the revisions of all cells and deletions, in ascending order.
func (p *Past) Revisions() []Revision {
	rs := slices.Clone(p.Deletes)
	for i := range p.Cells {
		rs = append(rs, p.Cells[i].Revision)
	}
	slices.Sort(rs)
	return slices.Compact(rs)
}

// SortVersions sorts cells by column, newest first. Of several cells with the same column
// and revision it keeps the first.
func SortVersions(cells []Cell) []Cell {
	slices.SortStableFunc(cells, CompareVersions)
	return slices.CompactFunc(cells, func(a, b Cell) bool { return CompareVersions(a, b) == 0 })
}

// A Redaction is a change to a row's past. Its lists must be sorted as SortVersions
// sorts.
type Redaction struct {
	Row []byte
	// All removes everything stored for the row.
	All bool
	// Columns lists columns that are removed with all their versions, including
	// tombstones. Only the family and the qualifier of these cells matter.
	Columns []Cell
	// Cells lists new versions of cells. Each of these cells replaces the stored version of
	// the same column and revision. If there is no such version, the cell is ignored.
	Cells []Cell
}

// Change returns the new version of a cell, which may have another value or be a
// tombstone. stays is false if the cell is removed.
func (x *Redaction) Change(c *Cell, upTo Revision) (to Cell, stays bool) {
	if c.Revision > upTo {
		return *c, true
	}
	if _, goes := slices.BinarySearchFunc(x.Columns, *c, Cell.Compare); goes || x.All {
		return Cell{}, false
	}
	if i, changes := slices.BinarySearchFunc(x.Cells, *c, CompareVersions); changes {
		return x.Cells[i], true
	}
	return *c, true
}
