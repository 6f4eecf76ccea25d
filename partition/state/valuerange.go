package state

import (
	"bytes"
	"context"
	"slices"

	"github.com/seed-4dac0d86/ldapd/master"
	"github.com/seed-4dac0d86/ldapd/partition/cache"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

const (
	stepEvery = 1000
)

// ValueRange reads n values of one description of an entry, which may be wide. The first value that
// it reads has the number start, where 0 is the number of the description's first value.
// ValueRange also reports whether there are more values. It begins to read at the nearest known
// step at or before the value with the number start (see cache.RangeSteps).
func (s *Snapshot) ValueRange(ctx context.Context, id entry.ID, t *schema.AttributeType, options string, start, n int) (values [][]byte, more bool, err error) {
	if i := s.Current(id); i != nil && i.Lacks(t, options) {
		return nil, false, nil
	}
	key := cache.ValuesKey{ID: id, Typ: t, Text: options}
	l := knownSteps(s, key)
	step := min(start/stepEvery, len(l.Starts))
	columns := master.Columns(t, options)
	if step > 0 {
		columns.From = l.Starts[step-1]
	}
	at, last := step*stepEvery, start+n
	grown := slices.Clip(l.Starts)
	for at <= last {
		row, err := s.Reader.Get(ctx, s.Partition.Master, master.Row(id), table.Select{
			Families: []table.Family{columns.Family}, Columns: []table.ColumnRange{columns}, MaxCells: min(stepEvery, last+1-at)})
		if err != nil {
			return nil, false, err
		}
		for i := range row.Cells {
			c := &row.Cells[i]
			if at%stepEvery == 0 && at/stepEvery > len(grown) {
				grown = append(grown, bytes.Clone(c.Qualifier))
			}
			switch {
			case at == last:
				more = true
			case at >= start:
				values = append(values, bytes.Clone(c.Value))
			}
			at++
		}
		if len(row.Cells) == 0 {
			break
		}
		columns.From = append(bytes.Clone(row.Cells[len(row.Cells)-1].Qualifier), 0)
	}
	if len(grown) > len(l.Starts) && s.Cached && l.AsOf != 0 {
		s.Catalog.Cache.RangeSteps.Set(key, &cache.RangeSteps{AsOf: l.AsOf, Starts: grown})
	}
	return values, more, nil
}

// knownSteps returns the cached steps of an attribute. If there are none or they are no longer
// valid, it returns a RangeSteps without steps.
func knownSteps(s *Snapshot, key cache.ValuesKey) *cache.RangeSteps {
	if s.Cached {
		if l, ok := s.Catalog.Cache.RangeSteps.Get(key); ok && s.At.Unchanged(key.ID, l.AsOf) {
			return l
		}
	}
	return &cache.RangeSteps{AsOf: s.At.Ordinal()}
}
