package lsm

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

// A famSel is the selected part of one family: the whole family, or sorted and disjoint
// ranges of columns.
type famSel struct {
	family table.Family
	whole  bool
	ranges []table.ColumnRange
}

// A groupSel is the selected part of the rows of one group.
type groupSel struct {
	group *group
	fams  []famSel // sorted by family
	whole bool     // every family of the group is selected whole
}

func (g *groupSel) family(f table.Family) *famSel {
	for i := range g.fams {
		if g.fams[i].family == f {
			return &g.fams[i]
		}
	}
	return nil
}

// wants reports whether a cell is selected.
func (g *groupSel) wants(c *table.Cell) bool {
	f := g.family(c.Family)
	if f == nil || f.whole {
		return f != nil
	}
	for i := range f.ranges {
		if string(c.Qualifier) >= string(f.ranges[i].From) && !behind(c.Qualifier, f.ranges[i].To) {
			return true
		}
	}
	return false
}

// A selection is a table.Select prepared for one table. It is sorted by group, and its
// slices are reused.
type selection []groupSel

// add selects a family and returns its famSel, to which the caller may add ranges.
func (s *selection) add(t *tableInfo, f table.Family) (*famSel, error) {
	g := t.byFamily[f]
	if g == nil {
		return nil, fmt.Errorf("table %q has no family %q", t.spec.Name, string(rune(f)))
	}
	i := slices.IndexFunc(*s, func(x groupSel) bool { return x.group == g })
	if i < 0 {
		i = len(*s)
		*s = slices.Grow(*s, 1)[:i+1] // keeps the memory of the old element
		(*s)[i] = groupSel{group: g, fams: (*s)[i].fams[:0]}
	}
	gs := &(*s)[i]
	if x := gs.family(f); x != nil {
		return x, nil
	}
	k := len(gs.fams)
	for k > 0 && gs.fams[k-1].family > f {
		k--
	}
	gs.fams = slices.Insert(gs.fams, k, famSel{family: f})
	return &gs.fams[k], nil
}

// set prepares the selection for a Select.
func (s *selection) set(t *tableInfo, sel *table.Select) error {
	*s = (*s)[:0]
	if len(sel.Families) == 0 {
		for i := range t.spec.Families {
			if _, err := s.add(t, t.spec.Families[i].Name); err != nil {
				return err
			}
		}
	}
	for _, f := range sel.Families {
		if _, err := s.add(t, f); err != nil {
			return err
		}
	}
	for _, c := range sel.Columns {
		if len(sel.Families) > 0 && !slices.Contains(sel.Families, c.Family) {
			continue
		}
		f, err := s.add(t, c.Family)
		if err != nil {
			return err
		}
		f.ranges = append(f.ranges, c)
	}
	s.finish()
	return nil
}

// finish merges ranges, sorts the groups, and records which groups are selected whole.
func (s selection) finish() {
	for i := range s {
		g := &s[i]
		g.whole = len(g.fams) == len(g.group.families)
		for j := range g.fams {
			f := &g.fams[j]
			f.whole = len(f.ranges) == 0
			g.whole = g.whole && f.whole
			f.ranges = mergeRanges(f.ranges)
		}
	}
	if len(s) > 1 {
		slices.SortFunc(s, func(a, b groupSel) int { return int(a.group.name) - int(b.group.name) })
	}
}

// mergeRanges sorts ranges of one family and joins adjacent or overlapping ones.
func mergeRanges(rs []table.ColumnRange) []table.ColumnRange {
	if len(rs) < 2 {
		return rs
	}
	rs = slices.Clone(rs)
	slices.SortFunc(rs, func(a, b table.ColumnRange) int { return bytes.Compare(a.From, b.From) })
	out := rs[:1]
	for _, r := range rs[1:] {
		last := &out[len(out)-1]
		switch {
		case len(last.To) == 0:
			return out
		case bytes.Compare(r.From, last.To) > 0:
			out = append(out, r)
		case len(r.To) == 0 || bytes.Compare(r.To, last.To) > 0:
			last.To = r.To
		}
	}
	return out
}

// single reports whether a range is a single column.
func single(r *table.ColumnRange) bool {
	n := len(r.From)
	return len(r.To) == n+1 && r.To[n] == 0 && string(r.To[:n]) == string(r.From)
}

// filterColumns returns the columns that a filter needs, and reports whether the filter
// needs keys. The result ok is false if the engine cannot evaluate the filter, for
// example because the table lacks a family that the filter uses. In this case all rows
// are returned, because a filter is only a hint.
func filterColumns(t *tableInfo, f table.Filter, dst []table.ColumnRange) (cols []table.ColumnRange, byKey, ok bool) {
	var c table.ColumnRange
	switch f := f.(type) {
	case table.All:
		return filterList(t, f, dst)
	case table.Any:
		return filterList(t, f, dst)
	case table.KeyMatch:
		return dst, true, true
	case table.Has:
		c = table.Column(f.Family, f.Qualifier)
	case table.HasRange:
		c = f.ColumnRange
	case table.HasValue:
		c = table.Column(f.Family, f.Qualifier)
	case table.HasMatch:
		c = table.ColumnPrefix(f.Family, f.Prefix)
	default:
		return dst, false, false
	}
	return append(dst, c), false, t.byFamily[c.Family] != nil
}

func filterList(t *tableInfo, fs []table.Filter, dst []table.ColumnRange) (cols []table.ColumnRange, byKey, ok bool) {
	for _, g := range fs {
		var k bool
		if dst, k, ok = filterColumns(t, g, dst); !ok {
			return dst, false, false
		}
		byKey = byKey || k
	}
	return dst, byKey, true
}
