package lsm

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

const (
	// Keys reads at most keysAtOnce keys at once. It reads no more when the keys of a group have
	// keyBytes.
	keysAtOnce = 512
	keyBytes   = 64 << 10
	// fewColumns is the number of columns of a row that are passed one by one. The rest of a wide
	// row is passed by a seek, which costs as much as a few columns.
	fewColumns = 8
)

// Keys implements table.Collector. It keeps no iterator while the caller works, so a key that it
// returns may have been removed since it was read.
func (h handle) Keys(ctx context.Context, r table.Range) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for from := r.Start; ; {
			keys, err := h.nextKeys(ctx, from, r.End)
			if err != nil {
				yield(nil, h.s.wrap("keys of "+h.name, err))
				return
			}
			for _, key := range keys {
				if !yield(key, nil) {
					return
				}
			}
			if len(keys) == 0 {
				return
			}
			from = append(bytes.Clone(keys[len(keys)-1]), 0)
		}
	}
}

// nextKeys returns the first rows in [from, end) that have a stored key in any group. If there
// are none, the result is empty.
func (h handle) nextKeys(ctx context.Context, from, end []byte) (keys [][]byte, err error) {
	s := h.s
	if err := s.gate.begin(ctx); err != nil {
		return nil, err
	}
	defer s.gate.end()
	defer damaged(&err)
	t, err := s.tables.table(h.name)
	if err != nil {
		return nil, err
	}
	it, err := s.iters.get(0)
	if err != nil {
		return nil, err
	}
	defer s.iters.put(it)
	for _, g := range t.groups {
		rows, more, err := groupKeys(it, appendHead(nil, t.id, g.name), from, end)
		if err != nil {
			return nil, fmt.Errorf("table %q: %w", h.name, err)
		}
		if more { // no group says which rows follow
			end = append(bytes.Clone(rows[len(rows)-1]), 0)
			keys = slices.DeleteFunc(keys, func(k []byte) bool { return bytes.Compare(k, end) >= 0 })
		}
		keys = append(keys, rows...)
	}
	slices.SortFunc(keys, bytes.Compare)
	return slices.CompactFunc(keys, bytes.Equal), nil
}

// groupKeys returns the first rows in [from, end) that have a key in the group with the given
// head. more is set if it stopped early.
func groupKeys(it *iterator, head, from, end []byte) (rows [][]byte, more bool, err error) {
	var past []byte // a bound behind all keys of the last row
	size := 0
	for ok := it.SeekGE(appendEscaped(bytes.Clone(head), from)); ok && bytes.HasPrefix(it.Key(), head); {
		row, _, rest, sound := cutEscaped([]byte{}, it.Key()[headLen:])
		if !sound {
			return nil, false, errKey
		}
		if len(end) > 0 && bytes.Compare(row, end) >= 0 {
			break
		}
		if rows, size = append(rows, row), size+len(row); len(rows) == keysAtOnce || size >= keyBytes {
			return rows, true, nil
		}
		past = append(past[:0], it.Key()[:len(it.Key())-len(rest)]...)
		past[len(past)-1] = termRow
		for n := 0; ok && bytes.Compare(it.Key(), past) < 0; n++ {
			if n < fewColumns {
				ok = it.NextPrefix()
			} else {
				ok = it.SeekGE(past)
			}
		}
	}
	return rows, false, it.Error()
}
