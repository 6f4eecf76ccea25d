package table

import (
	"context"
	"iter"
)

// MarkFamily is the family of the marks by which transactions find conflicts. The tables
// master, tree, config and unique have it. The creator of these tables must include this
// family. Readers must not read it, so every Select on these tables must list the families to
// read. On a store that only one server writes, the family is empty, because conflicts are
// found in memory.
const MarkFamily Family = 'm'

// A Reader reads rows at one state. A Reader is a snapshot or a transaction. A
// transaction also sees its own writes. The reader sets Select.View: callers leave it
// nil.
type Reader interface {
	Get(ctx context.Context, t Table, row []byte, s Select) (Row, error)
	GetMany(ctx context.Context, t Table, rows [][]byte, s Select) ([]Row, error)
	Scan(ctx context.Context, t Table, r Range, s Select) iter.Seq2[Row, error]
}
