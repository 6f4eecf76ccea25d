package state

import (
	"bytes"
	"context"
	"slices"

	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/master"
	"github.com/seed-4dac0d86/ldapd/partition/internal/cache"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/table"
)

const (
	rungEvery = 1000
)

// ValueRange reads n values of one description of a wide entry, the first of them
// being number from (0 is the first), and says whether others follow. It reads
// no value before the nearest rung.
func (s *Snapshot) ValueRange(ctx context.Context, id entry.ID, t *schema.AttributeType, options string, from, n int) (values [][]byte, more bool, err error) {
	key := cache.LadderKey{ID: id, Typ: t, Options: options}
	l := s.ladder(key)
	rung := min(from/rungEvery, len(l.Rungs))
	columns := master.Columns(t, options)
	if rung > 0 {
		columns.From = l.Rungs[rung-1]
	}
	at, last := rung*rungEvery, from+n
	grown := slices.Clip(l.Rungs)
	for at <= last {
		row, err := s.Reader.Get(ctx, s.Keeper.Master, master.Row(id), table.Select{
			Families: []table.Family{columns.Family}, Columns: []table.ColumnRange{columns}, MaxCells: min(rungEvery, last+1-at)})
		if err != nil {
			return nil, false, err
		}
		for i := range row.Cells {
			c := &row.Cells[i]
			if at%rungEvery == 0 && at/rungEvery > len(grown) {
				grown = append(grown, bytes.Clone(c.Qualifier))
			}
			switch {
			case at == last:
				more = true
			case at >= from:
				values = append(values, bytes.Clone(c.Value))
			}
			at++
		}
		if len(row.Cells) == 0 {
			break
		}
		columns.From = append(bytes.Clone(row.Cells[len(row.Cells)-1].Qualifier), 0)
	}
	if len(grown) > len(l.Rungs) && s.Cached && l.AsOf != 0 {
		s.Catalog.Cache.Ladders.Set(key, &cache.Ladder{AsOf: l.AsOf, Rungs: grown})
	}
	return values, more, nil
}

// ladder returns what is known of an attribute's columns.
func (s *Snapshot) ladder(key cache.LadderKey) *cache.Ladder {
	if s.Cached {
		if l, ok := s.Catalog.Cache.Ladders.GetIfPresent(key); ok && s.At.Unchanged(key.ID, l.AsOf) {
			return l
		}
	}
	return &cache.Ladder{AsOf: s.At.Ordinal()}
}
