// Package rowindex is the index for attributes that have few different values, each with many
// entries. It writes one row per value and entry: "=" value id. Every stream of candidates is a
// scan. No row is wide.
package rowindex

import (
	"context"
	"iter"

	"github.com/seed-4dac0d86/ldapd/index"
	"github.com/seed-4dac0d86/ldapd/index/existence"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// An Index is a row index in a table.
type Index struct{ existence.Index }

// New returns the index in a table.
func New(t table.Table) index.Index { return Index{existence.Index{In: t}} }

// Selective implements index.Index.
func (Index) Selective() bool { return false }

// Equal scans the rows of one value.
func (x Index) Equal(ctx context.Context, r table.Reader, key, after []byte) index.Candidates {
	return x.scan(ctx, r, key, after, 0)
}

// Head scans the first rows of one value.
func (x Index) Head(ctx context.Context, r table.Reader, key []byte, set *index.Set, n int) (bool, error) {
	err := set.Extend(x.scan(ctx, r, key, set.Last(key), n-set.Len()))
	return set.Len() >= n, err
}

// scan scans the rows of one value behind a position, and no more than most unless that is zero.
func (x Index) scan(ctx context.Context, r table.Reader, key, after []byte, most int) index.Candidates {
	rows := table.Prefix(index.AppendKey(nil, key))
	return func(yield func(index.Candidate, error) bool) {
		for row, err := range r.Scan(ctx, x.In, index.Continue(rows, after), table.Select{MaxRows: most}) {
			c, err := candidate(row, err)
			if !yield(c, err) || err != nil {
				return
			}
		}
	}
}

// Postings scans the rows of one value after another.
func (x Index) Postings(ctx context.Context, r table.Reader, keys [][]byte) (_ []*index.Set, err error) {
	sets := make([]*index.Set, len(keys))
	for i, key := range keys {
		if sets[i], err = index.Collect(x.Equal(ctx, r, key, nil)); err != nil {
			return nil, err
		}
	}
	return sets, nil
}

// Span scans a range of values and tests each row's key.
func (x Index) Span(ctx context.Context, r table.Reader, s index.Span, after []byte) index.Candidates {
	return func(yield func(index.Candidate, error) bool) {
		for row, err := range r.Scan(ctx, x.In, index.Continue(s.Rows(), after), table.Select{Filter: s.Filter(), Expect: s.Expect}) {
			var holds, maybe bool
			if err == nil {
				var key []byte
				var cut bool
				key, cut, _, err = index.CutKey(row.Key)
				holds, maybe = s.Holds(key, cut)
			}
			if err == nil && !holds {
				continue
			}
			c, err := candidate(row, err)
			c.Maybe = maybe
			if !yield(c, err) || err != nil {
				return
			}
		}
	}
}

// InOrder scans all values.
func (x Index) InOrder(ctx context.Context, r table.Reader, reverse bool, after []byte, expect int) index.Candidates {
	return func(yield func(index.Candidate, error) bool) {
		for row, err := range r.Scan(ctx, x.In, index.Values(reverse, after), table.Select{Reverse: reverse, Expect: expect}) {
			c, err := candidate(row, err)
			if !yield(c, err) || err != nil {
				return
			}
		}
	}
}

// Among reads the row of each entry.
func (x Index) Among(ctx context.Context, r table.Reader, key []byte, ids []entry.ID) ([]index.Change, error) {
	prefix := index.AppendKey(nil, key)
	keys := make([][]byte, len(ids))
	for i := range ids {
		keys[i] = append(prefix[:len(prefix):len(prefix)], ids[i][:]...)
	}
	rows, err := r.GetMany(ctx, x.In, keys, table.Select{})
	if err != nil {
		return nil, err
	}
	changes := make([]index.Change, len(ids))
	for i, row := range rows {
		c := &changes[i]
		if c.ID, c.Gone = ids[i], len(row.Cells) == 0; c.Gone {
			continue
		}
		if c.Parent, err = index.ParentOf(&row.Cells[0]); err != nil {
			return nil, err
		}
	}
	return changes, nil
}

// Warm streams nothing, because the values have too many entries to be loaded in advance.
func (Index) Warm(context.Context, table.Reader, int) iter.Seq2[index.Value, error] {
	return func(func(index.Value, error) bool) {}
}

func candidate(row table.Row, err error) (c index.Candidate, _ error) {
	if err != nil {
		return c, err
	}
	if len(row.Key) < len(c.ID) || len(row.Cells) != 1 {
		return c, table.ErrCorrupt
	}
	copy(c.ID[:], row.Key[len(row.Key)-len(c.ID):])
	c.Position = row.Key
	c.Parent, err = index.ParentOf(&row.Cells[0])
	return c, err
}

var dummy = []byte("p")

// Mutation implements index.Index.
func (x Index) Mutation(key []byte, id, parent entry.ID, gone bool) table.Mutation {
	cell := table.Cell{Family: index.Info, Qualifier: dummy, Tombstone: gone}
	if !gone {
		cell.Value = parent[:]
	}
	row := append(index.AppendKey(nil, key), id[:]...)
	return table.Mutation{Row: row, Cells: []table.Cell{cell}}
}
