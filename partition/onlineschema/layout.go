package onlineschema

import (
	"context"
	"hash/maphash"

	"github.com/seed-4dac0d86/ldapd/master"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/tree"
)

// A Survey describes how entries share the values of an attribute.
type Survey struct {
	Values  int64 // different values
	Entries int64 // entries of all values together; an entry with two values counts twice
	Largest int64 // entries that share the most frequent value
}

// A column index reads the entries of a value with one Get, but keeps them in one row, which HBase
// cannot split. So it suits values that few entries share, on average and at most.
const (
	columnMean    = 16
	columnLargest = 4096
)

// Layout returns the layout that suits the values. Without values it is RowLayout, which any values
// may have.
func (v Survey) Layout() catalog.Layout {
	if v.Values == 0 || v.Entries > columnMean*v.Values || v.Largest > columnLargest {
		return catalog.RowLayout
	}
	return catalog.ColumnLayout
}

// SurveyIndex counts the values of an index.
func SurveyIndex(ctx context.Context, s *state.Snapshot, x *catalog.Indexed) (v Survey, err error) {
	var value []byte
	n := int64(0)
	for c, err := range x.InOrder(ctx, s.Reader, false, nil, 0) {
		if err != nil {
			return v, err
		}
		row := c.Position[:len(c.Position)-len(entry.ID{})]
		if n == 0 || string(row) != string(value) {
			value, n = append(value[:0], row...), 0
			v.Values++
		}
		n++
		v.Entries++
		v.Largest = max(v.Largest, n)
	}
	return v, nil
}

// maxSurveyed is the number of different values at which a survey of entries ends.
const maxSurveyed = 1 << 20

// surveyEntries counts the values of a type that has no index.
func surveyEntries(ctx context.Context, s *state.Snapshot, t *schema.AttributeType) (v Survey, err error) {
	seed, counts := maphash.MakeSeed(), map[uint64]int64{}
	in, sel := s.Partition.Tree, table.Select{Families: []table.Family{tree.NormAttributes}, Columns: []table.ColumnRange{tree.Columns(t)}}
	keyOf := func(c *table.Cell) []byte { return tree.Decode(c).Key }
	if t.Keyless() {
		in, sel = s.Partition.Master, table.Select{Families: []table.Family{master.UpAttributes}, Columns: master.AnyOptions(t)}
		keyOf = func(c *table.Cell) []byte { return c.Value } // different keys have different values
	}
	for row, err := range s.Reader.Scan(ctx, in, table.Range{}, sel) {
		if err != nil {
			return v, err
		}
		for i := range row.Cells {
			if key := keyOf(&row.Cells[i]); len(key) > 0 {
				h := maphash.Bytes(seed, key)
				counts[h]++
				v.Entries++
				v.Largest = max(v.Largest, counts[h])
			}
		}
		if len(counts) >= maxSurveyed {
			break
		}
	}
	v.Values = int64(len(counts))
	return v, nil
}

// chooseLayouts sets the layouts that are not given.
func chooseLayouts(ctx context.Context, p *catalog.Partition, indexes []catalog.Index) error {
	s := state.Newest(p)
	defer s.Close()
	for i := range indexes {
		x := &indexes[i]
		t, err := s.Catalog.Indexable(x.Attribute)
		if err != nil {
			return err
		}
		if x.Layout != "" {
			continue
		}
		var v Survey
		if has := s.Catalog.Indexes[t]; has != nil && has.Ready {
			v, err = SurveyIndex(ctx, s, has)
		} else {
			v, err = surveyEntries(ctx, s, t)
		}
		if err != nil {
			return err
		}
		x.Layout = v.Layout()
	}
	return nil
}
