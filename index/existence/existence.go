// Package existence is the part of an index that records which entries have an attribute
// at all. It writes the rows "*" id in the attribute's index table. The packages that
// implement a kind of index embed its Index.
package existence

import (
	"context"

	"github.com/seed-4dac0d86/ldapd/index"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// An Index is an existence index in a table.
type Index struct{ In table.Table }

// Table returns the table.
func (x Index) Table() table.Table { return x.In }

var dummy = []byte("p")

// Present streams the entries that have the attribute.
func (x Index) Present(ctx context.Context, r table.Reader, after []byte, expect int) index.Candidates {
	rows := index.Continue(table.Prefix([]byte{'*'}), after)
	return func(yield func(index.Candidate, error) bool) {
		for row, err := range r.Scan(ctx, x.In, rows, table.Select{Expect: expect}) {
			var c index.Candidate
			if err == nil && (len(row.Cells) != 1 || copy(c.ID[:], row.Key[1:]) != len(c.ID)) {
				err = table.ErrCorrupt
			}
			if err == nil {
				c.Position = row.Key
				c.Parent, err = index.ParentOf(&row.Cells[0])
			}
			if !yield(c, err) || err != nil {
				return
			}
		}
	}
}

// Presence implements index.Index.
func (x Index) Presence(id, parent entry.ID, gone bool) table.Mutation {
	cell := table.Cell{Family: index.Info, Qualifier: dummy, Tombstone: gone}
	if !gone {
		cell.Value = parent[:]
	}
	return table.Mutation{Row: index.PresenceRow(id), Cells: []table.Cell{cell}}
}
