package lsm

import (
	"context"
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
