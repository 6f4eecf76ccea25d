// Package usage reads hot attributes of all entries: secret attributes that record how an entry is
// used, such as the times of failed binds.
package usage

import (
	"bytes"
	"context"
	"iter"

	"github.com/seed-4dac0d86/ldapd/master"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// A Use is a hot attribute of an entry.
type Use struct {
	ID, Parent entry.ID // the Parent is zero in the results of All
	Attribute  entry.Attribute
}

// All streams a hot attribute of all entries that have it. It reads only this attribute, in one
// scan.
func All(ctx context.Context, s *state.Snapshot, t *schema.AttributeType) iter.Seq2[Use, error] {
	st := s
	sel := table.Select{Families: []table.Family{master.Secrets}, Columns: []table.ColumnRange{master.Columns(t, "")}}
	return func(yield func(Use, error) bool) {
		if t == nil {
			return
		}
		for row, err := range st.Reader.Scan(ctx, st.Partition.Master, table.Range{}, sel) {
			if err != nil {
				yield(Use{}, err)
				return
			}
			u := Use{Attribute: entry.Attribute{Type: t}}
			copy(u.ID[:], row.Key)
			for i := range row.Cells {
				u.Attribute.Values = append(u.Attribute.Values, bytes.Clone(row.Cells[i].Value))
			}
			if len(u.Attribute.Values) > 0 && !yield(u, nil) {
				return
			}
		}
	}
}

// together is the number of entries whose parents Located reads in one call.
const together = 512

// Located adds the parents.
func Located(ctx context.Context, s *state.Snapshot, all iter.Seq2[Use, error]) iter.Seq2[Use, error] {
	return func(yield func(Use, error) bool) {
		var batch []Use
		for u, err := range all {
			if err != nil {
				yield(u, err)
				return
			}
			if batch = append(batch, u); len(batch) == together {
				if !locate(ctx, s, batch, yield) {
					return
				}
				batch = batch[:0]
			}
		}
		locate(ctx, s, batch, yield)
	}
}

func locate(ctx context.Context, s *state.Snapshot, batch []Use, yield func(Use, error) bool) bool {
	if len(batch) == 0 {
		return true
	}
	keys := make([][]byte, len(batch))
	for i := range batch {
		keys[i] = master.Row(batch[i].ID)
	}
	st := s
	rows, err := st.Reader.GetMany(ctx, st.Partition.Master, keys, table.Select{Families: []table.Family{master.TreeInfo}})
	if err != nil {
		return yield(Use{}, err) && false
	}
	for i, row := range rows {
		node, ok := master.DecodeNode(row)
		if !ok {
			continue
		}
		batch[i].Parent = node.Parent
		if !yield(batch[i], nil) {
			return false
		}
	}
	return true
}
