package hbase

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

const (
	// parallelScans is the largest number of regions that one scan reads at once. For each of them, up
	// to two pages wait in memory. A page has at most 2 MiB.
	parallelScans = 8
	// cutsAge is the time after which the regions of a table are looked up again.
	cutsAge = time.Minute
)

// A cuts records where the regions of a table began at a time. Regions may have been split, merged or
// moved since: a part of a range is then in several regions, or several parts are in one.
type cuts struct {
	at   time.Time
	keys [][]byte // sorted
}

// divide divides a range at the borders of regions, as far as they are known.
func (t *Table) divide(ctx context.Context, r table.Range) (rs []table.Range) {
	for _, k := range t.cuts(ctx) {
		if bytes.Compare(k, r.Start) > 0 && (len(r.End) == 0 || bytes.Compare(k, r.End) < 0) {
			rs = append(rs, table.Range{Start: r.Start, End: k})
			r.Start = k
		}
	}
	return append(rs, r)
}

// cuts returns the keys at which regions of the table begin. It returns nil if they cannot be looked
// up: a scan then reads one region after the other.
func (t *Table) cuts(ctx context.Context) [][]byte {
	s := t.store
	s.mu.Lock()
	c, ok := s.cuts[t.name]
	s.mu.Unlock()
	if ok && time.Since(c.at) < cutsAge {
		return c.keys
	}
	all, err := s.places(ctx, t.name)
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		s.conn.log.Debug("the regions of a table cannot be looked up", "table", string(t.full), "error", err)
	}
	c = cuts{at: time.Now()}
	for _, p := range all {
		if k := p.region.StartKey(); len(k) > 0 {
			c.keys = append(c.keys, k)
		}
	}
	slices.SortFunc(c.keys, bytes.Compare)
	s.mu.Lock()
	s.cuts[t.name] = c
	s.mu.Unlock()
	return c.keys
}

// parallel is pages for a range that is divided into rs: several scanners read these at once. It yields
// the pages in the order of the rows.
func (sc *scanner) parallel(ctx context.Context, rs []table.Range, yield func([]table.Row, error) bool) {
	type page struct {
		rows []table.Row
		err  error
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	read := make([]chan page, len(rs))
	start := func(i int) {
		read[i] = make(chan page, 1)
		part := *sc
		part.push.parts = slices.Clone(sc.push.parts)
		part.begin(rs[i])
		wg.Go(func() {
			defer close(read[i])
			part.pages(ctx, func(rows []table.Row, err error) bool {
				select {
				case read[i] <- page{rows, err}:
					return true
				case <-ctx.Done():
					return false
				}
			})
		})
	}
	started := 0
	for i := range rs {
		for ; started < min(len(rs), i+parallelScans); started++ {
			start(started)
		}
		for p := range read[i] {
			if !yield(p.rows, p.err) || p.err != nil {
				return
			}
		}
	}
}
