package table

import (
	"context"
	"iter"
	"slices"
)

// A Redactor is a Table whose past can be changed: what revisions wrote goes as if
// they had not written it. That is for what the law wants gone, and for nothing
// else: whoever read it before, reads something else after. All engines' versioned
// tables are Redactors.
type Redactor interface {
	// History streams the rows of r with all that is stored of them, whatever
	// revision wrote it and whether a view shows it or not. A row of very many
	// cells comes in pieces, one after the other.
	History(ctx context.Context, r Range) iter.Seq2[Past, error]
	// Redact changes what revisions up to upTo, all of which are decided, wrote
	// into rows, each named once. It may be repeated. After an error any part of it
	// may have been done. What it takes away may be in the store's files until
	// Purge.
	Redact(ctx context.Context, upTo Revision, rs []Redaction) error
}

// A Past is all that is stored of a row, or a piece of it: of every column the
// versions, tombstones too, newest first, and the revisions that deleted the row.
type Past struct {
	Key     []byte
	Cells   []Cell
	Deletes []Revision
}

// Revisions are those that wrote anything, ascending.
func (p *Past) Revisions() []Revision {
	rs := slices.Clone(p.Deletes)
	for i := range p.Cells {
		rs = append(rs, p.Cells[i].Revision)
	}
	slices.Sort(rs)
	return slices.Compact(rs)
}

// SortVersions sorts cells by column, the newest of each first, and leaves of
// several of one revision the first.
func SortVersions(cells []Cell) []Cell {
	slices.SortStableFunc(cells, CompareVersions)
	return slices.CompactFunc(cells, func(a, b Cell) bool { return CompareVersions(a, b) == 0 })
}

// A Redaction is what changes of a row's past. Its lists are sorted as SortVersions
// sorts.
type Redaction struct {
	Row []byte
	// All says that nothing of the row stays.
	All bool
	// Columns are those of which nothing stays, tombstones neither. Only family
	// and qualifier matter.
	Columns []Cell
	// Cells are versions, by column and revision, that get another value, or
	// become tombstones. Versions that are not there are passed over.
	Cells []Cell
}

// Change returns what becomes of a version of a cell: another value, a tombstone,
// or, if it does not stay, nothing.
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
