package lsm

import (
	"context"
	"sync/atomic"
)

// Metrics counts what a store did since it was opened. Tests count with it
// instead of taking the time.
type Metrics struct {
	KeysRead    int64 // keys looked at to answer reads
	Seeks       int64 // positions sought by key
	KeysWritten int64 // keys put into batches
	Iterators   int64 // iterators opened
	Commits     int64 // batches of Commit and Apply
	DiskBytes   uint64
	CacheHits   int64
	CacheMisses int64
}

type counters struct {
	keys, seeks, written, opened, commits atomic.Int64
}

// add takes over what a reader counted, and clears it.
func (m *counters) add(r *rowReader) {
	m.keys.Add(r.n)
	m.seeks.Add(r.sk)
	r.n, r.sk = 0, 0
}

// Metrics returns the counters of the store.
func (s *Store) Metrics() Metrics {
	m := Metrics{
		KeysRead:    s.m.keys.Load(),
		Seeks:       s.m.seeks.Load(),
		KeysWritten: s.m.written.Load(),
		Iterators:   s.m.opened.Load(),
		Commits:     s.m.commits.Load(),
	}
	if s.begin(context.Background()) != nil {
		return m
	}
	defer s.end()
	p := s.db.Metrics()
	m.DiskBytes = p.DiskSpaceUsage()
	m.CacheHits, m.CacheMisses = p.BlockCache.Hits, p.BlockCache.Misses
	return m
}
