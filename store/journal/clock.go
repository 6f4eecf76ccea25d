package journal

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/seed-4dac0d86/ldapd/store/revision"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

var (
	clockRow    = []byte("clock")
	clockColumn = []byte{'a'}
)

// Time returns the time of the store's own clock, or the zero Time if the store has no clock.
// That clock also stamps unversioned cells. Every call, on any server, must pass a different
// token.
func (l *Log) Time(ctx context.Context, token uint64) (time.Time, error) {
	old, err := read(ctx, l.cluster, clockRow, clusterFamily, clockColumn)
	if err == nil {
		cell := table.Cell{Family: clusterFamily, Qualifier: clockColumn, Value: binary.BigEndian.AppendUint64(nil, token)}
		// If another caller's swap came first, the Get below reads the cell of that caller,
		// whose timestamp comes from the same clock.
		_, _, err = swap(ctx, l.cluster, clockRow, clusterFamily, clockColumn, old, []table.Cell{cell})
	}
	var row table.Row
	if err == nil {
		row, err = l.cluster.Get(ctx, clockRow, table.Select{Columns: []table.ColumnRange{table.Column(clusterFamily, clockColumn)}})
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("asking for the store's time: %w", err)
	}
	return written(row.Find(clusterFamily, clockColumn)), nil
}

// Written returns the time at which the store wrote a slot's cell, by the store's clock.
// It returns the zero Time if the store has no clock.
func (h *Heads) Written(s revision.Slot) time.Time { return h.written[s] }

// written returns the timestamp of an unversioned cell.
func written(c *table.Cell) time.Time {
	if c == nil || c.Revision == 0 {
		return time.Time{}
	}
	return time.UnixMilli(int64(c.Revision))
}
