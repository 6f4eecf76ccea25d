package write

import (
	"context"
	"slices"
	"time"

	"github.com/seed-4dac0d86/ldapd/master"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/txn"
)

// A Tally is the recent uses of something that need not have an entry, such as the address of a
// client. All servers of a store share it. A use is a cell in the table of the settings. Records of
// uses commute, notify nobody and appear in no changelog. It implements account.Uses.
type Tally struct {
	Partition *catalog.Partition
	// Key says what is used. It is a digest, because the past contains it as long as it is kept.
	Key [16]byte
	// Within is how long a use counts. All tallies of a store have the same: recording a use removes
	// uses of other keys too.
	Within time.Duration
}

// tallyRows is the number of rows with uses. One row would have the uses of all keys, and one row
// for each key would stay after its last use.
const tallyRows = 64

func (y *Tally) row() []byte { return append([]byte("uses "), y.Key[0]%tallyRows) }

func (y *Tally) counts(c *table.Cell) bool { return time.Since(c.Revision.Time()) < y.Within }

// Record publishes a use.
func (y *Tally) Record(ctx context.Context) error {
	y.Partition.Changing.RLock()
	defer y.Partition.Changing.RUnlock()
	t := y.Partition.SettingsTable
	_, err := y.Partition.DB.Update(ctx, func(tx *txn.Tx) error {
		row, err := tx.Get(ctx, t, y.row(), table.Select{Families: []table.Family{catalog.HeaderFamily}})
		if err != nil {
			return err
		}
		use := slices.Concat(y.Key[:], master.NewPosition(tx.Stamp(), 0))
		m := table.Mutation{Row: y.row(), Cells: []table.Cell{{Family: catalog.HeaderFamily, Qualifier: use, Value: []byte{1}}}}
		for i := range row.Cells {
			if c := &row.Cells[i]; !y.counts(c) {
				m.Cells = append(m.Cells, table.Cell{Family: catalog.HeaderFamily, Qualifier: slices.Clone(c.Qualifier), Tombstone: true})
			}
		}
		tx.Write(t, m)
		return nil
	})
	return err
}

// Refresh reads all uses that any server has published.
func (y *Tally) Refresh(ctx context.Context) error { return y.Partition.CatchUp(ctx) }

// Recorded returns the times of the uses that this server has read and that still count.
func (y *Tally) Recorded(ctx context.Context) (times []time.Time, err error) {
	if y.Partition.SettingsTable == nil {
		return nil, txn.ErrReadOnly // an old store that this server only reads
	}
	s := state.Newest(y.Partition)
	defer s.Close()
	row, err := s.Reader.Get(ctx, y.Partition.SettingsTable, y.row(), table.Select{Columns: []table.ColumnRange{table.ColumnPrefix(catalog.HeaderFamily, y.Key[:])}})
	for i := range row.Cells {
		if c := &row.Cells[i]; y.counts(c) {
			times = append(times, c.Revision.Time())
		}
	}
	return times, err
}
