package hbase

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/tsuna/gohbase/hrpc"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

const (
	// batchWrites and batchBytes bound one batch of writes. The cells of one row are
	// always in the same batch.
	batchWrites = 1000
	batchBytes  = 4 << 20
	// maxRow is the length of the longest row key that HBase accepts.
	maxRow = math.MaxInt16
	// maxRevision is the largest timestamp that HBase does not treat as "now".
	maxRevision = math.MaxInt64 - 1
)

// columns contains values by family and stored qualifier, in gohbase's form.
type columns map[string]map[string][]byte

func (c columns) set(f table.Family, q, v []byte) {
	name := familyName(f)
	m := c[name]
	if m == nil {
		m = make(map[string][]byte)
		c[name] = m
	}
	m[string(q)] = v
}

// A put contains the columns that a revision writes into one row.
type put struct {
	row  []byte
	cols columns
	size int
	at   table.Revision // 0: the region server sets the timestamp
}

// add adds a mutation's cells to the put. The new cells replace earlier cells of the same
// columns.
func (p *put) add(t *Table, h *shape, m *table.Mutation) error {
	if m.DeleteRow {
		for _, f := range h.families {
			p.cols.set(f, rowTombstone, tombstone)
		}
	}
	for i := range m.Cells {
		c := &m.Cells[i]
		if err := checkCell(h, c); err != nil {
			return err
		}
		p.set(t, c)
	}
	return nil
}

func (p *put) set(t *Table, c *table.Cell) {
	p.cols.set(c.Family, storeQualifier(c.Qualifier), t.storeIn(p.row, c))
	p.size += len(c.Qualifier) + len(c.Value) + len(p.row) + 32
}

func checkCell(h *shape, c *table.Cell) error {
	if !h.has(c.Family) {
		return fmt.Errorf("hbase: the table has no family %q", familyName(c.Family))
	}
	if len(c.Value) > table.MaxValue {
		return fmt.Errorf("hbase: %w: %d bytes, %d are the limit", table.ErrTooLarge, len(c.Value), table.MaxValue)
	}
	return nil
}

func checkRow(row []byte) error {
	switch {
	case len(row) == 0:
		return errors.New("hbase: empty row key")
	case len(row) > maxRow:
		return fmt.Errorf("hbase: %w: row key of %d bytes, %d are the limit", table.ErrTooLarge, len(row), maxRow)
	}
	return nil
}

func (p *put) call(ctx context.Context, t *Table) (hrpc.Call, error) {
	if p.at == 0 {
		return hrpc.NewPut(ctx, t.full, p.row, p.cols)
	}
	return hrpc.NewPut(ctx, t.full, p.row, p.cols, hrpc.TimestampUint64(uint64(p.at)))
}

// puts gathers mutations by row, in order. So each row is written by one Put, which is
// atomic even if several mutations name the row.
func puts(t *Table, h *shape, r table.Revision, ms []table.Mutation) ([]*put, error) {
	list := make([]*put, 0, len(ms))
	at := make(map[string]*put, len(ms))
	for i := range ms {
		m := &ms[i]
		p := at[string(m.Row)]
		if p == nil {
			if err := checkRow(m.Row); err != nil {
				return nil, err
			}
			p = &put{row: m.Row, cols: columns{}, at: r}
			at[string(m.Row)] = p
			list = append(list, p)
		}
		if err := p.add(t, h, m); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// Apply implements table.Table.
func (t *Table) Apply(ctx context.Context, r table.Revision, ms []table.Mutation) error {
	h, err := t.writable(ctx, r)
	if err != nil {
		return err
	}
	list, err := puts(t, h, r, ms)
	if err != nil {
		return err
	}
	return writePuts(ctx, t, "write", list)
}

// writePuts sends puts in batches.
func writePuts(ctx context.Context, t *Table, op string, list []*put) error {
	for len(list) > 0 {
		n := batchEnd(list)
		err := t.write(ctx, op, n, func(ctx context.Context, i int) (hrpc.Call, error) {
			return list[i].call(ctx, t)
		})
		if err != nil {
			return err
		}
		list = list[n:]
	}
	return nil
}

func batchEnd(list []*put) int {
	n, size := 0, 0
	for n < len(list) && n < batchWrites && (n == 0 || size+list[n].size <= batchBytes) {
		size += list[n].size
		n++
	}
	return n
}

// writable returns the shape of a table. It returns an error if the table is not
// versioned or r is not a valid revision.
func (t *Table) writable(ctx context.Context, r table.Revision) (*shape, error) {
	h, err := t.shape(ctx)
	switch {
	case err != nil:
		return nil, err
	case h.unversioned:
		return nil, fmt.Errorf("hbase: table %s is unversioned and written by Swap alone", t.full)
	case r == 0 || r > maxRevision:
		return nil, fmt.Errorf("hbase: %d is no revision", r)
	}
	return h, nil
}

// write sends n writes. It sends a single write as one call, and several writes as a
// batch.
func (t *Table) write(ctx context.Context, op string, n int, make func(context.Context, int) (hrpc.Call, error)) error {
	return t.store.conn.repeat(ctx, op, t.full, func(ctx context.Context, cl *client) error {
		var calls []hrpc.Call
		for i := range n {
			c, err := make(ctx, i)
			if err != nil {
				return err
			}
			calls = append(calls, c)
		}
		if n == 1 {
			if m, ok := calls[0].(*hrpc.Mutate); ok {
				calls[0] = &mutateCall{Mutate: m}
			}
			_, err := cl.send(calls[0])
			return err
		}
		return cl.batch(ctx, calls)
	})
}

// Erase implements table.Table. Until the next major compaction, the delete markers that
// Erase writes also mask cells of r that arrive later.
func (t *Table) Erase(ctx context.Context, r table.Revision, rows [][]byte) error {
	h, err := t.writable(ctx, r)
	if err != nil {
		return err
	}
	all := make([]erased, len(rows))
	for i, row := range rows {
		all[i] = erased{row, r}
	}
	return t.erase(ctx, "erase", h, all)
}

// erased identifies the cells that one revision has written in one row.
type erased struct {
	row []byte
	at  table.Revision
}

// erase writes one delete marker per row and family, for exactly the revision.
func (t *Table) erase(ctx context.Context, op string, h *shape, all []erased) error {
	families := make(columns, len(h.families))
	for _, f := range h.families {
		families[familyName(f)] = nil
	}
	for part := range slices.Chunk(all, batchWrites) {
		err := t.write(ctx, op, len(part), func(ctx context.Context, i int) (hrpc.Call, error) {
			return hrpc.NewDel(ctx, t.full, part[i].row, families, hrpc.TimestampUint64(uint64(part[i].at)), hrpc.DeleteOneVersion())
		})
		if err != nil {
			return err
		}
	}
	return nil
}
