package table

import (
	"context"
	"iter"
	"slices"
)

// A Redactor is a Table whose past can be changed: values disappear as if their
// revisions had not written them. It is only for what the law requires to be erased,
// since a reader of a past state gets something else afterwards. The versioned tables
// of all engines are Redactors.
type Redactor interface {
	// History streams the rows of r with everything stored of them, whatever revision
	// wrote it and whether or not a view shows it. A row of very many cells comes in
	// pieces, one after another.
	History(ctx context.Context, r Range) iter.Seq2[Past, error]
	// Redact changes what revisions up to upTo wrote into rows. All of these revisions
	// must be decided, and each row is named once. It may be repeated. After an error
	// it may have done any part of its work. What it removes may remain in the store's
	// files until Purge.
	Redact(ctx context.Context, upTo Revision, rs []Redaction) error
}

// A Past is everything stored of a row, or a piece of it: the versions of every column,
// including tombstones, newest first, and the revisions that deleted the row.
type Past struct {
	Key     []byte
	Cells   []Cell
	Deletes []Revision
}

// Revisions returns the revisions that wrote anything, ascending.
func (p *Past) Revisions() []Revision {
	rs := slices.Clone(p.Deletes)
	for i := range p.Cells {
		rs = append(rs, p.Cells[i].Revision)
	}
	slices.Sort(rs)
	return slices.Compact(rs)
}

// SortVersions sorts cells by column, newest first, and keeps the first of several with
// one revision.
func SortVersions(cells []Cell) []Cell {
	slices.SortStableFunc(cells, CompareVersions)
	return slices.CompactFunc(cells, func(a, b Cell) bool { return CompareVersions(a, b) == 0 })
}

// A Redaction is a change of a row's past. Its lists are sorted like those of
// SortVersions.
type Redaction struct {
	Row []byte
	// All removes everything of the row.
	All bool
	// Columns are removed with all their versions, including tombstones. Only family
	// and qualifier matter.
	Columns []Cell
	// Cells are versions, by column and revision, that get another value or become
	// tombstones. Versions that do not exist are ignored.
	Cells []Cell
}

// Change returns the new version of a cell: with another value, or as a tombstone.
// stays is false if the cell is removed.
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
