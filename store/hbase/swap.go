package hbase

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/tsuna/gohbase/hrpc"
	"github.com/tsuna/gohbase/pb"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

// Swap implements table.Table with HBase's check-and-put. No stored value is empty, so
// the condition "absent" cannot match a column with an empty value. A deleted column
// contains a tombstone. So if old is nil, Swap first tries the condition "absent" and then
// the condition "tombstone". Each of the two checks is atomic, and the check that succeeds
// executes the swap.
func (t *Table) Swap(ctx context.Context, row []byte, f table.Family, q, old []byte, cells []table.Cell) (bool, error) {
	h, err := t.shape(ctx)
	if err != nil {
		return false, err
	}
	cols, err := swapColumns(t, h, row, f, old, cells)
	if err != nil {
		return false, err
	}
	if s := t.store.seal; s != nil && s.covers(t.name, f, q) && old != nil {
		v, value, err := t.raw(ctx, row, f, q)
		if err != nil || v == nil || !bytes.Equal(value, old) {
			return false, err
		}
		return t.swap(ctx, row, f, q, v.value, cols)
	}
	if old != nil {
		return t.swap(ctx, row, f, q, storePlain(old), cols)
	}
	if ok, err := t.swap(ctx, row, f, q, nil, cols); ok || err != nil {
		return ok, err
	}
	return t.swap(ctx, row, f, q, tombstone, cols)
}

func swapColumns(t *Table, h *shape, row []byte, f table.Family, old []byte, cells []table.Cell) (columns, error) {
	switch {
	case !h.unversioned:
		return nil, fmt.Errorf("hbase: table %s is versioned and written by Apply", t.full)
	case len(cells) == 0:
		return nil, errors.New("hbase: a swap that writes nothing")
	case old != nil && len(old) == 0:
		return nil, errors.New("hbase: a swap expects an empty value, which none has")
	case !h.has(f):
		return nil, fmt.Errorf("hbase: table %s has no family %q", t.full, familyName(f))
	}
	if err := checkRow(row); err != nil {
		return nil, err
	}
	cols := columns{}
	for i := range cells {
		c := &cells[i]
		if err := checkCell(h, c); err != nil {
			return nil, err
		}
		if len(c.Value) == 0 && !c.Tombstone {
			return nil, fmt.Errorf("hbase: empty value in a swap of table %s", t.full)
		}
		cols.set(c.Family, storeQualifier(c.Qualifier), t.storeIn(row, c))
	}
	return cols, nil
}

func (t *Table) checkAndPut(ctx context.Context, row []byte, f table.Family, q, want []byte, cols columns) (*hrpc.CheckAndPut, error) {
	p, err := hrpc.NewPut(ctx, t.full, row, cols)
	if err != nil {
		return nil, err
	}
	return hrpc.NewCheckAndPutWithCompareType(p, familyName(f), string(storeQualifier(q)), want, pb.CompareType_EQUAL)
}

// swap writes cols if the column contains the stored value want. If want is nil, the
// column must be absent.
func (t *Table) swap(ctx context.Context, row []byte, f table.Family, q, want []byte, cols columns) (ok bool, err error) {
	err = t.store.conn.do(ctx, "swap", t.full, func(ctx context.Context, cl *client) error {
		c, err := t.checkAndPut(ctx, row, f, q, want, cols)
		if err != nil {
			return err
		}
		m, err := cl.send(&swapCall{CheckAndPut: c})
		if r, is := m.(*pb.MutateResponse); is {
			ok = r.GetProcessed()
		} else if err == nil {
			err = fmt.Errorf("answer to a CheckAndPut is a %T", m)
		}
		return err
	})
	return ok, err
}
