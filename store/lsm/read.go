package lsm

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

// A handle is a table identified by its name. The table may be dropped or created while
// the handle exists.
type handle struct {
	s    *Store
	name string
}

// Name implements table.Table.
func (h handle) Name() string { return h.name }

// Table implements table.Store.
func (s *Store) Table(name string) table.Table { return handle{s, name} }

func (c *tableCatalog) table(name string) (*tableInfo, error) {
	if t := (*c.now.Load())[name]; t != nil {
		return t, nil
	}
	return nil, fmt.Errorf("no table %q", name)
}

// A getter is the scratch memory of a point read.
type getter struct {
	rowReader
	sel    selection
	st     state
	cells  []table.Cell
	prefix []byte
}

var getters = sync.Pool{New: func() any { return new(getter) }}

// Get implements table.Table.
func (h handle) Get(ctx context.Context, row []byte, s table.Select) (table.Row, error) {
	var out [1]table.Row
	err := h.get(ctx, [][]byte{row}, &s, out[:])
	return out[0], err
}

// GetMany implements table.Table.
func (h handle) GetMany(ctx context.Context, rows [][]byte, s table.Select) ([]table.Row, error) {
	out := make([]table.Row, len(rows))
	if err := h.get(ctx, rows, &s, out); err != nil {
		return nil, err
	}
	return out, nil
}

// get reads rows with one iterator. It reads them in the order of their keys, which makes
// the seeks cheapest.
func (h handle) get(ctx context.Context, rows [][]byte, s *table.Select, out []table.Row) error {
	if err := h.s.gate.begin(ctx); err != nil {
		return err
	}
	defer h.s.gate.end()
	t, err := h.s.tables.table(h.name)
	if err != nil {
		return h.s.wrap("get", err)
	}
	g := getters.Get().(*getter)
	defer getters.Put(g)
	g.readView = newReadView(s.View)
	if err := g.sel.set(t, s); err != nil {
		return h.s.wrap("get", err)
	}
	if g.it, err = h.s.iters.get(g.poolMax()); err != nil {
		return h.s.wrap("get", err)
	}
	defer func() {
		h.s.iters.put(g.it)
		h.s.m.add(&g.rowReader)
		g.it, g.view, g.mem = nil, nil, nil
	}()
	if len(rows) == 1 {
		out[0], err = g.tryRow(t, rows[0], s.MaxCells)
		return h.s.wrap("get from "+h.name, err)
	}
	order := make([]int, len(rows))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return slices.Compare(rows[i], rows[j]) })
	for _, i := range order {
		if err = context.Cause(ctx); err == nil {
			out[i], err = g.tryRow(t, rows[i], s.MaxCells)
		}
		if err != nil {
			return h.s.wrap("get from "+h.name, err)
		}
	}
	return nil
}

func (g *getter) tryRow(t *tableInfo, key []byte, max int) (row table.Row, err error) {
	defer damaged(&err)
	return g.row(t, key, max)
}

// row reads one row into newly allocated memory.
func (g *getter) row(t *tableInfo, key []byte, max int) (table.Row, error) {
	g.cells, g.mem = g.cells[:0], nil
	for i := range g.sel {
		if err := g.group(t, &g.sel[i], key, max); err != nil {
			return table.Row{}, err
		}
	}
	cells := inOrder(g.cells, len(g.sel), max)
	row := table.Row{Key: slices.Clone(key)}
	if len(cells) > 0 {
		row.Cells = append(make([]table.Cell, 0, len(cells)), cells...)
	}
	return row, nil
}

// group reads one group of the row. It copies the bytes of an image, because their memory
// belongs to the iterator.
func (g *getter) group(t *tableInfo, sel *groupSel, key []byte, max int) (err error) {
	g.prefix = appendImage(g.prefix[:0], t.id, sel.group.name, key)
	if t.spec.Unversioned {
		g.st = state{exists: true, columns: true, prefix: g.prefix}
	} else if err := g.locate(&g.st, g.prefix); err != nil {
		return err
	}
	inImage := g.st.exists && !g.st.columns && !g.st.pieced
	all := sel.whole && max == 0
	if inImage && all {
		g.st.image = g.st.image.clone()
	}
	n := len(g.cells)
	if g.cells, err = g.rowReader.cells(g.cells, &g.st, sel, max); err != nil {
		return err
	}
	if inImage && !all {
		g.mem = detach(g.cells[n:], g.mem)
	}
	return nil
}

// detach copies the bytes of cells to mem and makes the cells refer to the copies.
func detach(cells []table.Cell, mem []byte) []byte {
	n := 0
	for i := range cells {
		n += len(cells[i].Qualifier) + len(cells[i].Value)
	}
	mem = slices.Grow(mem, n)
	for i := range cells {
		c := &cells[i]
		at := len(mem)
		mem = append(append(mem, c.Qualifier...), c.Value...)
		mid, end := at+len(c.Qualifier), len(mem)
		c.Qualifier, c.Value = mem[at:mid:mid], mem[mid:end:end]
	}
	return mem
}

// inOrder sorts cells of several groups, because the families of groups may interleave.
// It returns at most max cells if max is not zero.
func inOrder(cells []table.Cell, groups, max int) []table.Cell {
	if groups > 1 && !slices.IsSortedFunc(cells, table.Cell.Compare) {
		slices.SortFunc(cells, table.Cell.Compare)
	}
	if max > 0 && len(cells) > max {
		return cells[:max]
	}
	return cells
}
