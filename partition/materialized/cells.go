package materialized

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// tableName is the name of the table that records up to which revision each view is kept. It
// has a row for each definition. Its cells are JSON and are changed by compare-and-swap, or, on
// an embedded store, in one batch with the rows of a step. Each change increases the sequence
// number in the cell, so that a cell never contains the same bytes again.
const tableName = "views"

var viewsSpec = table.Spec{Name: tableName, Unversioned: true, Families: []table.FamilySpec{{Name: family}}}

// IsTable reports whether a table of a store contains records of views, or the revisions up to
// which the views are kept. Everything in these tables can be computed again from the entries.
func IsTable(name string) bool {
	return name == tableName || strings.HasPrefix(name, catalog.DerivedTables)
}

// A generation identifies the table in which the records of a definition are kept. A
// change of the definition begins a new generation with a new table.
type generation struct {
	Sequence uint64 `json:"sequence"`
	Key      string `json:"key"`   // Definition.key
	Table    string `json:"table"` // a name that was never used before
	// Failed is the reason why the records are not kept, or empty if they are kept.
	Failed string `json:"failed,omitempty"`

	raw []byte
}

// A cursor records up to which revision the records of one lane of a generation are kept.
type cursor struct {
	Sequence uint64         `json:"sequence"`
	Table    string         `json:"table"`
	W        table.Revision `json:"w"`    // the end of the last step; 0: there was none
	Next     table.Revision `json:"next"` // the end of the announced step, or 0

	raw       []byte
	announced table.Revision // value of Next when the cell was read
}

var generationColumn = []byte("generation")

func (l lane) cursorColumn() []byte { return fmt.Appendf(nil, "lane %d", l.number) }

// newTable returns the name of the table of a new generation.
func newTable(random func() uint64) string {
	return fmt.Sprintf("%s%016x", catalog.DerivedTables, random())
}

// specOf returns the spec of a generation's table.
func specOf(name string) table.Spec {
	return table.Spec{Name: name, Families: []table.FamilySpec{{Name: family}}}
}

// cells contains the decoded cells of one definition's row in the table of cells.
type cells struct {
	generation generation
	cursors    []cursor // by lane
}

// begun reports whether every lane has finished its first step, and the view has not failed.
func (c *cells) begun() bool {
	return c.generation.Table != "" && c.generation.Failed == "" &&
		!slices.ContainsFunc(c.cursors, func(x cursor) bool { return x.W == 0 })
}

// hasCells reports whether the table of cells exists.
func hasCells(ctx context.Context, k *catalog.Partition) (bool, error) {
	if k.HasViews.Load() {
		return true, nil
	}
	names, err := k.Store.Names(ctx)
	if err != nil {
		return false, err
	}
	k.HasViews.Store(slices.Contains(names, tableName))
	return k.HasViews.Load(), nil
}

// readCells reads the cells of a definition. If a lane's cursor belongs to an earlier
// generation, readCells returns the cursor as if the lane had not begun.
func readCells(ctx context.Context, k *catalog.Partition, id entry.ID, ls []lane) (*cells, error) {
	c := &cells{cursors: make([]cursor, len(ls))}
	row, err := k.DB.Table(tableName).Get(ctx, id[:], table.Select{})
	if err != nil {
		return nil, err
	}
	if x := row.Find(family, generationColumn); x != nil {
		c.generation.raw = bytes.Clone(x.Value)
		if err := json.Unmarshal(x.Value, &c.generation); err != nil {
			return nil, fmt.Errorf("generation of view %s: %w: %w", id, table.ErrCorrupt, err)
		}
	}
	for i, l := range ls {
		x := row.Find(family, l.cursorColumn())
		if x == nil {
			c.cursors[i].Table = c.generation.Table
			continue
		}
		cur := &c.cursors[i]
		if err := json.Unmarshal(x.Value, cur); err != nil {
			return nil, fmt.Errorf("%s of view %s: %w: %w", l.cursorColumn(), id, table.ErrCorrupt, err)
		}
		cur.raw = bytes.Clone(x.Value)
		if cur.Table != c.generation.Table {
			cur.Table, cur.W, cur.Next = c.generation.Table, 0, 0
		}
		cur.announced = cur.Next
	}
	return c, nil
}

// marshal encodes a generation or a cursor as the value of a cell.
func marshal(cell any) []byte {
	b, err := json.Marshal(cell)
	if err != nil {
		panic(err) // the types of cells can always be encoded
	}
	return b
}

// swap replaces the content of a cell by value, if the content is equal to old. It reports
// whether the cell then contains value. If the store returns false or an error, swap reads the
// cell, because the write may have taken effect nevertheless.
func swap(ctx context.Context, k *catalog.Partition, id entry.ID, column, old, value []byte) (bool, error) {
	t := k.DB.Table(tableName)
	c := table.Cell{Family: family, Qualifier: column, Value: value}
	done, err := t.Swap(ctx, id[:], family, column, old, []table.Cell{c})
	if done && err == nil {
		return true, nil
	}
	row, rerr := t.Get(ctx, id[:], table.Select{})
	if rerr != nil {
		return false, rerr
	}
	if x := row.Find(family, column); x != nil && bytes.Equal(x.Value, value) {
		return true, nil
	}
	return false, err
}

// swapGeneration replaces a generation. It returns false if another server has replaced it
// first.
func swapGeneration(ctx context.Context, k *catalog.Partition, id entry.ID, g *generation) (bool, error) {
	old := g.raw
	g.Sequence++
	g.raw = marshal(g)
	return swap(ctx, k, id, generationColumn, old, g.raw)
}

// swapCursor replaces a lane's cursor. It returns false if another server has replaced it
// first.
func (l lane) swapCursor(ctx context.Context, k *catalog.Partition, id entry.ID, c *cursor) (bool, error) {
	old := c.raw
	c.Sequence++
	c.raw = marshal(c)
	return swap(ctx, k, id, l.cursorColumn(), old, c.raw)
}

// The function "ended" returns the generations of the definitions that are not in defs any more
// but still have cells. The map's keys are the ids of the definitions.
func ended(ctx context.Context, k *catalog.Partition, defs []*Definition) (map[entry.ID]generation, error) {
	gone := map[entry.ID]generation{}
	for row, err := range k.DB.Table(tableName).Scan(ctx, table.Range{}, table.Select{}) {
		if err != nil {
			return nil, err
		}
		if len(row.Key) != len(entry.ID{}) {
			return nil, fmt.Errorf("row %s of table %s: %w", hex.EncodeToString(row.Key), tableName, table.ErrCorrupt)
		}
		id := entry.ID(row.Key)
		if slices.ContainsFunc(defs, func(d *Definition) bool { return d.ID == id }) {
			continue
		}
		var g generation
		if x := row.Find(family, generationColumn); x != nil {
			if err := json.Unmarshal(x.Value, &g); err != nil {
				return nil, fmt.Errorf("generation of view %s: %w: %w", id, table.ErrCorrupt, err)
			}
			g.raw = bytes.Clone(x.Value)
		}
		gone[id] = g
	}
	return gone, nil
}

// forget removes the cells of a definition, if the generation is still g.
func forget(ctx context.Context, k *catalog.Partition, id entry.ID, g *generation, ls []lane) error {
	tombstones := []table.Cell{{Family: family, Qualifier: generationColumn, Tombstone: true}}
	for _, l := range ls {
		tombstones = append(tombstones, table.Cell{Family: family, Qualifier: l.cursorColumn(), Tombstone: true})
	}
	slices.SortFunc(tombstones, table.Cell.Compare)
	_, err := k.DB.Table(tableName).Swap(ctx, id[:], family, generationColumn, g.raw, tombstones)
	return err
}
