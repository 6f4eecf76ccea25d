package write

import (
	"bytes"
	"context"

	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/txn"
)

// The cursor of a directory that follows another server is a cell in the table of the
// settings. It is not one of the settings, because every copied change writes the cursor,
// and each change of a setting makes a new catalog.
var (
	cursorRow    = []byte("cursor")
	cursorColumn = []byte("cursor")
)

// SetFollowing replaces the setting Following.
func (tx *Tx) SetFollowing(f *catalog.Following) error {
	h := *tx.Catalog.Header
	h.Following = f
	next, err := tx.Catalog.With(&h)
	if err != nil {
		return err
	}
	if err := tx.Configure(&h); err != nil {
		return err
	}
	tx.Message = append(tx.Message, "\nconfigure"...)
	tx.Catalog = next
	return nil
}

// SetCursor stores a cursor, which says how far the changes of another server have been copied.
func (tx *Tx) SetCursor(value []byte) {
	// If two processes copy changes at the same time, the mark makes their transactions
	// conflict.
	tx.Txn.Mark(tx.Partition.SettingsTable, cursorRow, txn.Mark{Kind: txn.MarkExclusive})
	cell := table.Cell{Family: catalog.HeaderFamily, Qualifier: cursorColumn, Value: bytes.Clone(value)}
	tx.Write(tx.Partition.SettingsTable, table.Mutation{Row: cursorRow, Cells: []table.Cell{cell}})
}

// Cursor returns the cursor in a state. It returns nil if no cursor was stored.
func Cursor(ctx context.Context, s *state.Snapshot) ([]byte, error) {
	row, err := s.Reader.Get(ctx, s.Partition.SettingsTable, cursorRow, table.Select{Families: []table.Family{catalog.HeaderFamily}})
	if err != nil {
		return nil, err
	}
	if c := row.Find(catalog.HeaderFamily, cursorColumn); c != nil {
		return bytes.Clone(c.Value), nil
	}
	return nil, nil
}
