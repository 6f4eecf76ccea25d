package search

import (
	"context"

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
func Warm(ctx context.Context, p *catalog.Partition) (n int, err error) {
	s := state.Newest(p)
	defer s.Close()
	if n, err = warmEntries(ctx, s); err != nil {
		return n, err
	}
	for _, x := range s.Catalog.Ordered {
		if err := x.Preload(ctx, s.Reader, s.At.Ordinal()); err != nil {
			return n, err
		}
	}
	return n, nil
}

func warmEntries(ctx context.Context, s *state.Snapshot) (n int, err error) {
	p := s.Partition
	enough := s.Catalog.Cache.Entries.Maximum() / 100 * 98
	sel := table.Select{Families: state.WithSecrets, MaxCells: state.MaxColumnsWithSecrets}
	for row, err := range s.Reader.Scan(ctx, p.Master, table.Range{}, sel) {
		if err != nil || len(row.Key) != len(entry.ID{}) {
			return n, err
		}
		id := entry.ID(row.Key)
		i, _, err := state.DecodeWithSecrets(ctx, s, id, nil, row, nil)
		if err != nil {
			return n, err
		}
		if i == nil {
			continue
		}
		s.Catalog.Cache.Children.Set(cache.HintOf(i.Node.Parent, i.Node.NormRDN), id)
		if n++; n%1024 == 0 && s.Catalog.Cache.Entries.Weight() > enough {
			break
		}
	}
	return n, nil
}
