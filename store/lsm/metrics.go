package lsm

import (
	"context"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics contains counts of a store's operations since it was opened, and sizes. Tests use the
// counts instead of measuring time.
type Metrics struct {
	KeysRead    int64 // keys examined during reads
	Seeks       int64 // seeks by key
	KeysWritten int64 // keys put into batches and loads
	Iterators   int64 // iterators opened
	Commits     int64 // batches that Commit, Apply and Swap wrote
	DiskBytes   uint64
	CacheHits   int64
	CacheMisses int64
	CacheBytes  int64

	LogBytes            uint64 // size of the write-ahead log
	CompactionDebt      uint64 // bytes that compactions still have to write
	ReadAmplification   int    // number of tables that a read may have to examine
	Stalls              int64  // number of times that writes waited for compactions
	DiskTotal, DiskFree uint64 // zero if unknown
	// Syncs contains the durations of the log's syncs, in seconds.
	Syncs prometheus.Metric
}

type counters struct {
	keys, seeks, written, opened, commits, stalls atomic.Int64
}

// add adds a reader's counts to m and clears them in the reader.
func (m *counters) add(r *rowReader) {
	m.keys.Add(r.n)
	m.seeks.Add(r.sk)
	r.n, r.sk = 0, 0
}

// Metrics returns the current metrics of the store.
func (s *Store) Metrics() Metrics {
	m := Metrics{
		KeysRead:    s.m.keys.Load(),
		Seeks:       s.m.seeks.Load(),
		KeysWritten: s.m.written.Load(),
		Iterators:   s.m.opened.Load(),
		Commits:     s.m.commits.Load(),
	}
	if s.gate.begin(context.Background()) != nil {
		return m
	}
	defer s.gate.end()
	p := s.db.Metrics()
	m.DiskBytes = p.DiskSpaceUsage()
	m.CacheHits, m.CacheMisses, m.CacheBytes = p.BlockCache.Hits, p.BlockCache.Misses, p.BlockCache.Size
	m.LogBytes, m.CompactionDebt = p.WAL.PhysicalSize, p.Compact.EstimatedDebt
	m.ReadAmplification, m.Stalls = p.ReadAmp(), s.m.stalls.Load()
	if u, err := s.o.FS.GetDiskUsage(s.o.Path); err == nil {
		m.DiskTotal, m.DiskFree = u.TotalBytes, u.AvailBytes
	}
	if p.LogWriter.FsyncLatency != nil {
		m.Syncs = p.LogWriter.FsyncLatency
	}
	return m
}

// Failed returns an error if a write has failed for good, so that the store accepts no writes
// until it is opened again. Otherwise it returns nil.
func (s *Store) Failed() error { return s.disk.failed() }
