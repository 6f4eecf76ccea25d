package partition

import (
	"bytes"
	"context"
	"slices"

	"github.com/maypok86/otter/v2"

	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/master"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/table"
)

// A ladder knows where in an attribute with very many values every so-manieth
// one is, as far as it was read: columns have no numbers, so that a value is found
// by counting from a rung below it. It is right as long as the entry does not
// change. Who reads the values range by range counts none twice.
type ladder struct {
	asOf  uint64
	rungs [][]byte // qualifiers; the first is that of value rungEvery
}

type ladderKey struct {
	id      entry.ID
	typ     *schema.AttributeType
	options string
}

const (
	rungEvery    = 1000
	ladderMemory = 16 << 20 // bytes, of all ladders
)

func newLadders() *otter.Cache[ladderKey, *ladder] {
	return otter.Must(&otter.Options[ladderKey, *ladder]{
		MaximumWeight: ladderMemory,
		Weigher:       func(_ ladderKey, l *ladder) uint32 { return uint32(128 + 64*len(l.rungs)) },
	})
}

// ValueRange reads n values of one description of a wide entry, the first of them
// being number from (0 is the first), and says whether others follow. It reads
// no value before the nearest rung.
func (s *Snapshot) ValueRange(ctx context.Context, id entry.ID, t *schema.AttributeType, options string, from, n int) (values [][]byte, more bool, err error) {
	key := ladderKey{id, t, options}
	l := s.ladder(key)
	rung := min(from/rungEvery, len(l.rungs))
	columns := master.Columns(t, options)
	if rung > 0 {
		columns.From = l.rungs[rung-1]
	}
	at, last := rung*rungEvery, from+n
	grown := slices.Clip(l.rungs)
	for at <= last {
		row, err := s.r.Get(ctx, s.p.master, master.Row(id), table.Select{
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
	if len(grown) > len(l.rungs) && s.cached && l.asOf != 0 {
		s.catalog.cache.ladders.Set(key, &ladder{l.asOf, grown})
	}
	return values, more, nil
}

// ladder gives what is known of an attribute's columns.
func (s *Snapshot) ladder(key ladderKey) *ladder {
	if s.cached {
		if l, ok := s.catalog.cache.ladders.GetIfPresent(key); ok && s.at.Unchanged(key.id, l.asOf) {
			return l
		}
	}
	return &ladder{asOf: s.at.Ordinal()}
}
