package table

import (
	"context"
	"iter"
)

// MarkFamily is the family of master and tree rows (and of table unique) that holds
// transactions' marks for conflicts. Whoever creates those tables must include it, and
// must not read it: selections on these tables name their families. Engines that find
// conflicts in memory leave it empty.
const MarkFamily Family = 'm'

// A Reader reads rows at one state. It is a snapshot, or a transaction that also sees
// its own writes. The reader sets Select.View: callers leave it nil.
type Reader interface {
	Get(ctx context.Context, t Table, row []byte, s Select) (Row, error)
	GetMany(ctx context.Context, t Table, rows [][]byte, s Select) ([]Row, error)
	Scan(ctx context.Context, t Table, r Range, s Select) iter.Seq2[Row, error]
}
