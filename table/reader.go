package table

import (
	"context"
	"iter"
)

// MarkFamily is the family of master and tree rows (and of table unique) that
// holds conflict marks of transactions. Whoever makes those tables includes it, and
// does not read it: selections on them name their families. Engines that find
// conflicts in memory leave it empty.
const MarkFamily Family = 'm'

// A Reader reads rows at one state: a snapshot, or a transaction that sees its own
// writes too. Select.View is the reader's business: callers leave it nil.
type Reader interface {
	Get(ctx context.Context, t Table, row []byte, s Select) (Row, error)
	GetMany(ctx context.Context, t Table, rows [][]byte, s Select) ([]Row, error)
	Scan(ctx context.Context, t Table, r Range, s Select) iter.Seq2[Row, error]
}
