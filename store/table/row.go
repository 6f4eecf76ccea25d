package table

import (
	"bytes"
	"slices"
	"sort"
)

// Compare orders cells by family, then qualifier.
func (c Cell) Compare(d Cell) int {
	if c.Family != d.Family {
		return int(c.Family) - int(d.Family)
	}
	return bytes.Compare(c.Qualifier, d.Qualifier)
}

// CompareVersions orders cells by column, and the cells of a column from newest to
// oldest.
func CompareVersions(a, b Cell) int {
	if d := a.Compare(b); d != 0 {
		return d
	}
	return b.Revision.Compare(a.Revision)
}

// LastOfEach sorts cells and keeps the last cell of each column. It may reorder the
// argument and use its memory.
func LastOfEach(cells []Cell) []Cell {
	sorted := true
	for i := 1; i < len(cells) && sorted; i++ {
		sorted = cells[i-1].Compare(cells[i]) < 0
	}
	if sorted {
		return cells
	}
	slices.Reverse(cells)
	slices.SortStableFunc(cells, Cell.Compare)
	return slices.CompactFunc(cells, func(a, b Cell) bool { return a.Compare(b) == 0 })
}

// Find returns the row's cell in one column, or nil if there is none.
func (r Row) Find(f Family, q []byte) *Cell {
	i := r.search(f, q)
	if i < len(r.Cells) && r.Cells[i].Family == f && bytes.Equal(r.Cells[i].Qualifier, q) {
		return &r.Cells[i]
	}
	return nil
}

// Range returns the row's cells in a range of columns.
func (r Row) Range(c ColumnRange) []Cell {
	i := r.search(c.Family, c.From)
	j := i
	for j < len(r.Cells) && r.Cells[j].Family == c.Family &&
		(len(c.To) == 0 || bytes.Compare(r.Cells[j].Qualifier, c.To) < 0) {
		j++
	}
	return r.Cells[i:j]
}

// Family returns the row's cells of one family.
func (r Row) Family(f Family) []Cell { return r.Range(ColumnRange{Family: f}) }

func (r Row) search(f Family, q []byte) int {
	return sort.Search(len(r.Cells), func(i int) bool {
		c := &r.Cells[i]
		return c.Family > f || c.Family == f && bytes.Compare(c.Qualifier, q) >= 0
	})
}

// Newest returns the largest revision among the row's cells.
func (r Row) Newest() Revision {
	var n Revision
	for i := range r.Cells {
		n = max(n, r.Cells[i].Revision)
	}
	return n
}

// Clone returns a copy of the row. All copied bytes share one allocation, and all cells
// share another.
func (r Row) Clone() Row {
	n := len(r.Key)
	for i := range r.Cells {
		n += len(r.Cells[i].Qualifier) + len(r.Cells[i].Value)
	}
	buf := make([]byte, 0, n)
	keep := func(b []byte) []byte {
		at := len(buf)
		buf = append(buf, b...)
		return buf[at:len(buf):len(buf)]
	}
	c := Row{Key: keep(r.Key), Cells: make([]Cell, len(r.Cells))}
	for i, x := range r.Cells {
		x.Qualifier, x.Value = keep(x.Qualifier), keep(x.Value)
		c.Cells[i] = x
	}
	return c
}
