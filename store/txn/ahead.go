package txn

import (
	"context"
	"encoding/binary"
	"iter"
	"sync"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

// A Read is a Get of Row or, if Row is nil, a Scan of Range that finds few rows.
type Read struct {
	Table  table.Table
	Row    []byte
	Range  table.Range
	Select table.Select
}

// ReadsAhead reports whether ReadAhead can save time. On the embedded engine a read has no round trip.
func (tx *Tx) ReadsAhead() bool { return tx.db.Shared() && len(tx.writes) == 0 }

// ReadAhead makes several reads at once. The same reads, which follow one after the other, then find their
// rows in memory. A read that fails is made again when its row is needed.
func (tx *Tx) ReadAhead(ctx context.Context, reads ...Read) {
	if len(reads) < 2 || !tx.ReadsAhead() {
		return
	}
	rows := make([][]table.Row, len(reads))
	var wg sync.WaitGroup
	for i, r := range reads {
		wg.Go(func() { rows[i] = r.rows(ctx, tx.snapshot) })
	}
	wg.Wait()
	if tx.ahead == nil {
		tx.ahead = map[string][]table.Row{}
	}
	for i, r := range reads {
		if rows[i] != nil {
			tx.ahead[r.key()] = rows[i]
		}
	}
}

// rows makes the read. It returns nil if the read fails.
func (r *Read) rows(ctx context.Context, s *Snapshot) []table.Row {
	if r.Row != nil {
		row, err := s.Get(ctx, r.Table, r.Row, r.Select)
		if err != nil {
			return nil
		}
		return []table.Row{row}
	}
	rows := []table.Row{}
	for row, err := range s.Scan(ctx, r.Table, r.Range, r.Select) {
		if err != nil {
			return nil
		}
		rows = append(rows, row.Clone())
	}
	return rows
}

// key returns a string that two reads share only if they return the same rows.
func (r *Read) key() string {
	b := make([]byte, 0, 256)
	add := func(k []byte) { b = append(binary.AppendUvarint(b, uint64(len(k))), k...) }
	add([]byte(r.Table.Name()))
	add(r.Row)
	add(r.Range.Start)
	add(r.Range.End)
	b = binary.AppendUvarint(b, uint64(len(r.Select.Families)))
	for _, f := range r.Select.Families {
		b = append(b, byte(f))
	}
	for _, c := range r.Select.Columns {
		b = append(b, byte(c.Family))
		add(c.From)
		add(c.To)
	}
	return string(binary.AppendUvarint(binary.AppendUvarint(b, uint64(r.Select.MaxCells)), uint64(r.Select.MaxRows)))
}

// found returns what ReadAhead has read.
func (tx *Tx) found(r Read) ([]table.Row, bool) {
	if tx.ahead == nil || r.Select.Filter != nil || r.Select.Reverse {
		return nil, false
	}
	rows, ok := tx.ahead[r.key()]
	return rows, ok
}

// get reads a row of the snapshot.
func (tx *Tx) get(ctx context.Context, t table.Table, row []byte, sel table.Select) (table.Row, error) {
	if rows, ok := tx.found(Read{Table: t, Row: row, Select: sel}); ok {
		return rows[0], nil
	}
	return tx.snapshot.Get(ctx, t, row, sel)
}

// scan scans the snapshot.
func (tx *Tx) scan(ctx context.Context, t table.Table, r table.Range, sel table.Select) iter.Seq2[table.Row, error] {
	if rows, ok := tx.found(Read{Table: t, Range: r, Select: sel}); ok {
		return func(yield func(table.Row, error) bool) {
			for _, row := range rows {
				if !yield(row, nil) {
					return
				}
			}
		}
	}
	return tx.snapshot.Scan(ctx, t, r, sel)
}
