package tabletest

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"slices"
	"sort"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

var _ table.Collector = memHandle{}

// Collect implements table.Collector.
func (h memHandle) Collect(ctx context.Context, rows [][]byte, k *table.Keep) (sum table.Collected, err error) {
	err = h.change(ctx, func(t *memTable) {
		for _, key := range rows {
			if r := t.rows[string(key)]; r != nil && !t.spec.Unversioned {
				sum.Add(r.collect(k))
				t.drop(string(key), r)
			}
		}
	})
	return sum, err
}

// change calls the function do with the table while holding the lock. It returns an error if
// ctx has ended, the store is closed, or the table does not exist.
func (h memHandle) change(ctx context.Context, do func(*memTable)) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	h.m.mu.Lock()
	defer h.m.mu.Unlock()
	t, err := h.m.table(h.name)
	if err == nil {
		do(t)
	}
	return err
}

func (r *memRow) collect(k *table.Keep) (gone table.Collected) {
	cells, deletes := k.Row(r.cells, r.deletes)
	var left memRow
	for i, c := range r.cells {
		if cells[i] {
			left.cells = append(left.cells, c)
			continue
		}
		gone.Add(table.Collected{Cells: 1, Bytes: int64(len(c.Qualifier) + len(c.Value))})
	}
	for i, d := range r.deletes {
		if deletes[i] {
			left.deletes = append(left.deletes, d)
			continue
		}
		gone.Cells++
	}
	if !k.Dry {
		*r = left
	}
	return gone
}

// Forget implements table.Collector.
func (h memHandle) Forget(ctx context.Context, rows [][]byte) (sum table.Collected, err error) {
	versioned := false
	err = h.change(ctx, func(t *memTable) {
		if versioned = !t.spec.Unversioned; versioned {
			return
		}
		for _, key := range rows {
			if r := t.rows[string(key)]; r != nil {
				sum.Cells += int64(len(r.cells))
				r.cells = nil
				t.drop(string(key), r)
			}
		}
	})
	if versioned {
		err = fmt.Errorf("mem: table %q is versioned", h.name)
	}
	return sum, err
}

// Keys implements table.Collector.
func (h memHandle) Keys(ctx context.Context, r table.Range) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for from := string(r.Start); ; {
			key, ok, err := h.nextKey(ctx, from)
			if err != nil {
				yield(nil, err)
				return
			}
			if !ok || len(r.End) > 0 && bytes.Compare(key, r.End) >= 0 || !yield(key, nil) {
				return
			}
			from = string(key) + "\x00"
		}
	}
}

func (h memHandle) nextKey(ctx context.Context, from string) ([]byte, bool, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, false, err
	}
	h.m.mu.RLock()
	defer h.m.mu.RUnlock()
	t, err := h.m.table(h.name)
	if err != nil {
		return nil, false, err
	}
	i := sort.SearchStrings(t.keys, from)
	if i == len(t.keys) {
		return nil, false, nil
	}
	return slices.Clone([]byte(t.keys[i])), true, nil
}
