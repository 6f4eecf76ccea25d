package search

import (
	"context"
	"runtime"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/seed-4dac0d86/ldapd/partition/cache"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// Warm reads entries into the cache until the cache contains all entries or is nearly
// full. Then it loads postings with few entries from the indexes. It returns
// the number of entries that it has read. Reading a large directory costs four times as
// much with an empty cache as with a full cache. Warm reads the entries in the order of
// their rows, and costs only a tenth of what reading the directory with an empty cache
// costs.
//
// Warm works on several ranges of rows and several indexes at once, but leaves one CPU to requests.
func Warm(ctx context.Context, p *catalog.Partition) (n int, err error) {
	s := state.Newest(p)
	defer s.Close()
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(max(1, runtime.GOMAXPROCS(0)-1))
	var entries atomic.Int64
	for first := 0; first < 256; first += warmRange {
		rows := table.Range{Start: []byte{byte(first)}, End: table.PrefixEnd([]byte{byte(first + warmRange - 1)})}
		g.Go(func() error { return warmEntries(ctx, s, rows, &entries) })
	}
	for _, x := range s.Catalog.Ordered {
		g.Go(func() error { return x.Preload(ctx, s.Reader, s.At.Ordinal()) })
	}
	err = g.Wait()
	return int(entries.Load()), err
}

// warmRange is the number of first bytes of the ids in a range, and warmCheck how many entries are read before
// the size of the cache is looked at.
const (
	warmRange = 8
	warmCheck = 64
)

// warmEntries reads the entries of some rows and counts them in n.
func warmEntries(ctx context.Context, s *state.Snapshot, rows table.Range, n *atomic.Int64) error {
	p := s.Partition
	enough := s.Catalog.Cache.Entries.Maximum() / 100 * 98
	sel := table.Select{Families: state.WithSecrets, MaxCells: state.MaxColumnsWithSecrets}
	read := 0
	for row, err := range s.Reader.Scan(ctx, p.Master, rows, sel) {
		if err != nil || len(row.Key) != len(entry.ID{}) {
			return err
		}
		id := entry.ID(row.Key)
		i, _, err := state.DecodeWithSecrets(ctx, s, id, nil, row, nil)
		if err != nil {
			return err
		}
		if i == nil {
			continue
		}
		s.Catalog.Cache.Children.Set(cache.HintOf(i.Node.Parent, i.Node.NormRDN), id)
		n.Add(1)
		if read++; read%warmCheck == 0 && s.Catalog.Cache.Entries.Weight() > enough {
			break
		}
	}
	return nil
}
