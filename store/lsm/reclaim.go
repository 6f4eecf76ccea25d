package lsm

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"math"
	"sync"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

var _ table.Reclaimer = (*Store)(nil)

// garbage counts the bytes collected in each table since the store was opened or Reclaim last
// compacted the table.
type garbage struct {
	mu    sync.Mutex
	bytes map[uint16]int64
}

func (g *garbage) add(id uint16, n int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.bytes == nil {
		g.bytes = map[uint16]int64{}
	}
	g.bytes[id] += n
}

// take returns the tables whose garbage is at least 1/part of their size, and resets the
// counts of these tables.
func (g *garbage) take(part int64, size func(id uint16) (uint64, error)) (ids []uint16, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for id, n := range g.bytes {
		all, err := size(id)
		if err != nil {
			return nil, err
		}
		if n >= int64(all)/part {
			ids = append(ids, id)
			delete(g.bytes, id)
		}
	}
	return ids, nil
}

// garbageShare determines when Reclaim compacts a table: at least 1/garbageShare of the
// table must be garbage. Pebble also drops deleted keys gradually in its own compactions.
const garbageShare = 8

// Reclaim implements table.Reclaimer. It rewrites the files of tables with much garbage.
// Commits continue during Reclaim.
func (s *Store) Reclaim(ctx context.Context, now bool) error {
	if err := s.gate.begin(ctx); err != nil {
		return err
	}
	defer s.gate.end()
	share := int64(garbageShare)
	if now {
		share = math.MaxInt64 // any amount of garbage is enough
	}
	ids, err := s.garbage.take(share, func(id uint16) (uint64, error) {
		return s.db.EstimateDiskUsage(tableBounds(id))
	})
	for _, id := range ids {
		from, to := tableBounds(id)
		if err == nil {
			err = s.db.Compact(ctx, from, to, true)
		}
	}
	return s.wrap("reclaim", err)
}

func tableBounds(id uint16) (from, to []byte) {
	return appendHead(nil, id, 0), appendHead(nil, id+1, 0)
}

// Keys implements table.Collector.
func (h handle) Keys(ctx context.Context, r table.Range) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for from := r.Start; ; {
			key, err := h.nextKey(ctx, from, r.End)
			if err != nil {
				yield(nil, h.s.wrap("keys of "+h.name, err))
				return
			}
			if key == nil || !yield(key, nil) {
				return
			}
			from = append(bytes.Clone(key), 0)
		}
	}
}

// nextKey returns the first row in [from, end) that has a stored key in any group.
func (h handle) nextKey(ctx context.Context, from, end []byte) (first []byte, err error) {
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
		head := appendHead(nil, t.id, g.name)
		if !it.SeekGE(appendEscaped(bytes.Clone(head), from)) || !bytes.HasPrefix(it.Key(), head) {
			if err := it.Error(); err != nil {
				return nil, err
			}
			continue
		}
		row, _, _, ok := cutEscaped([]byte{}, it.Key()[headLen:])
		if !ok {
			return nil, fmt.Errorf("table %q: %w", h.name, errKey)
		}
		if (first == nil || bytes.Compare(row, first) < 0) && (len(end) == 0 || bytes.Compare(row, end) < 0) {
			first = row
		}
	}
	return first, nil
}
