package journal

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/seed-4dac0d86/ldapd/store/revision"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// Redact calls the function change with the decided records of a slot up to a revision, so that
// the function can remove parts of their messages, write lists and keys. Redact passes each
// chunk of a long write list separately. The function reports whether it changed its argument.
// It must not remove tables from write lists. Redact returns the number of commits that were
// changed or, if dry is set, would be changed.
func (l *Log) Redact(ctx context.Context, s revision.Slot, upTo table.Revision, dry bool, change func(*Record) bool) (n int, err error) {
	last := table.Revision(0)
	for row, err := range l.journal.Scan(ctx, between(s, 0, upTo), table.Select{}) {
		if err != nil {
			return n, fmt.Errorf("reading the journal: %w", err)
		}
		rec, err := decode(row)
		if err != nil {
			return n, err
		}
		if rec.State == Pending || !change(&rec) {
			continue
		}
		if rec.Revision != last {
			last = rec.Revision
			n++
		}
		if dry {
			continue
		}
		if err := l.rewrite(ctx, row.Clone(), &rec); err != nil {
			return n, fmt.Errorf("journal row of %s: %w", rec.Revision, err)
		}
	}
	return n, nil
}

// rewrite changes a row of a decided record, unless the row was removed in the meantime. The
// swap can be repeated safely. The swap of a record compares the state but does not change it,
// and every attempt writes the same values to the other columns. Every swap of a chunk writes
// the same write list.
func (l *Log) rewrite(ctx context.Context, row table.Row, rec *Record) error {
	guard := row.Find(family, stateColumn)
	if guard == nil { // a chunk of a write list, which has only the column rowsColumn
		old := row.Find(family, rowsColumn)
		if old == nil {
			return nil
		}
		_, _, err := swap(ctx, l.journal, row.Key, family, rowsColumn, old.Value,
			[]table.Cell{{Family: family, Qualifier: rowsColumn, Value: appendRows(nil, rec.Rows)}})
		return err
	}
	now := table.Row{Key: row.Key, Cells: rec.cells(rec.State)}
	slices.SortFunc(now.Cells, table.Cell.Compare)
	var cells []table.Cell
	for _, column := range [][]byte{messageColumn, rowsColumn, keysColumn} {
		if c := now.Find(family, column); c != nil {
			cells = append(cells, *c)
		} else if row.Find(family, column) != nil {
			cells = append(cells, table.Cell{Family: family, Qualifier: column, Tombstone: true})
		}
	}
	for try := 0; ; try++ {
		if try > 0 {
			if err := backOff(ctx, try); err != nil {
				return err
			}
		}
		ok, err := l.journal.Swap(ctx, row.Key, family, stateColumn, guard.Value, cells)
		if ok && err == nil || err != nil && permanent(err) {
			return err
		}
		now, err := read(ctx, l.journal, row.Key, family, stateColumn)
		if err == nil && !bytes.Equal(now, guard.Value) || err != nil && permanent(err) {
			return err
		}
	}
}
