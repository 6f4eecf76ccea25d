package hbase

import (
	"bytes"
	"fmt"
	"math"
	"slices"

	"github.com/tsuna/gohbase/filter"
	"github.com/tsuna/gohbase/hrpc"
	"github.com/tsuna/gohbase/pb"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

// A span is the range [from, to) of stored qualifiers. If to is nil, the span has no end.
type span struct{ from, to []byte }

// firstStored is the smallest stored qualifier of a cell. Only the qualifier of row
// tombstones is smaller.
var firstStored = storeQualifier(nil)

func storeSpan(c table.ColumnRange) span {
	s := span{from: storeQualifier(c.From)}
	if len(c.To) > 0 {
		s.to = storeQualifier(c.To)
	}
	return s
}

// exact reports whether the span is a single column, and returns the column.
func (s span) exact() (q []byte, ok bool) {
	n := len(s.from)
	return s.from, len(s.to) == n+1 && s.to[n] == 0 && bytes.Equal(s.to[:n], s.from)
}

func (s span) holds(q []byte) bool {
	return bytes.Compare(q, s.from) >= 0 && (s.to == nil || bytes.Compare(q, s.to) < 0)
}

// seek returns the filter for a selection of one span. The server seeks to the beginning
// of the span. If the span begins at firstStored, the filter has no lower bound and also
// passes the row tombstone.
func (s span) seek() filter.Filter {
	from := s.from
	if bytes.Equal(from, firstStored) {
		from = nil
	}
	return filter.NewColumnRangeFilter(from, s.to, true, false)
}

// test returns the filter for one of several spans. The filter does not seek. If a filter
// in a list of alternatives seeks, a reverse scan of the server misses columns.
func (s span) test() *filter.List {
	all := filter.NewList(filter.MustPassAll)
	if q, ok := s.exact(); ok && !bytes.Equal(q, firstStored) {
		all.AddFilters(qualifierIs(filter.Equal, q))
		return all
	}
	if !bytes.Equal(s.from, firstStored) {
		all.AddFilters(qualifierIs(filter.GreaterOrEqual, s.from))
	}
	if s.to != nil {
		all.AddFilters(qualifierIs(filter.Less, s.to))
	}
	return all
}

func qualifierIs(op filter.CompareType, q []byte) filter.Filter {
	return filter.NewQualifierFilter(filter.NewCompareFilter(op, octets(q)))
}

func octets(b []byte) filter.Comparator {
	return filter.NewBinaryComparator(filter.NewByteArrayComparable(b))
}

// isTombstone returns a filter that passes only the row tombstone.
func isTombstone() filter.Filter { return qualifierIs(filter.Equal, rowTombstone) }

// merge sorts spans and joins adjacent or overlapping ones.
func merge(ss []span) []span {
	slices.SortFunc(ss, func(a, b span) int { return bytes.Compare(a.from, b.from) })
	out := ss[:0]
	for _, s := range ss {
		if n := len(out); n > 0 && (out[n-1].to == nil || bytes.Compare(s.from, out[n-1].to) <= 0) {
			if out[n-1].to != nil && (s.to == nil || bytes.Compare(s.to, out[n-1].to) > 0) {
				out[n-1].to = s.to
			}
			continue
		}
		out = append(out, s)
	}
	return out
}

// A familyPlan is the selected part of one family. If there are no spans, the whole
// family is selected.
type familyPlan struct {
	family table.Family
	spans  []span
}

// exact reports whether the plan consists of single columns.
func (p *familyPlan) exact() bool {
	return len(p.spans) > 0 && !slices.ContainsFunc(p.spans, func(s span) bool { _, ok := s.exact(); return !ok })
}

// A selection is a table.Select expressed in terms of HBase's calls.
type selection struct {
	plan      []familyPlan // sorted by family
	view      table.View
	after     table.Revision // if not 0, read only revisions above this one, without regard to older deletions
	max       int
	versioned bool

	families map[string][]string // nil for all families
	columns  filter.Filter       // filter of the spans, or nil if no filter is needed
	// The field beside is set if the row tombstone is read by a separate call. A single
	// filter could pass both the row tombstone and a span. But in a row with a million
	// columns, HBase would then read all columns before the span instead of seeking to the
	// span.
	beside bool
}

// selectFor converts a Select to a selection. If scan is set, the selection is for scans.
// Otherwise it is for reading rows by key.
func selectFor(h *shape, s *table.Select, scan bool) (*selection, error) {
	sel := &selection{view: s.View, max: s.MaxCells, versioned: !h.unversioned}
	fams := s.Families
	if len(fams) == 0 {
		fams = h.families
	}
	for _, f := range fams {
		if !h.has(f) {
			return nil, fmt.Errorf("hbase: the table has no family %q", familyName(f))
		}
		sel.plan = append(sel.plan, familyPlan{family: f})
	}
	slices.SortFunc(sel.plan, func(a, b familyPlan) int { return int(a.family) - int(b.family) })
	sel.plan = slices.CompactFunc(sel.plan, func(a, b familyPlan) bool { return a.family == b.family })
	for _, c := range s.Columns {
		if p := sel.family(c.Family); p != nil {
			p.spans = append(p.spans, storeSpan(c))
		}
	}
	for i := range sel.plan {
		sel.plan[i].spans = merge(sel.plan[i].spans)
	}
	return sel, sel.build(h, scan)
}

func (sel *selection) family(f table.Family) *familyPlan {
	for i := range sel.plan {
		if sel.plan[i].family == f {
			return &sel.plan[i]
		}
	}
	return nil
}

// build sets the families, the columns filter and beside.
func (sel *selection) build(h *shape, scan bool) error {
	whole, ranged := true, false
	sel.families = make(map[string][]string, len(sel.plan))
	for i := range sel.plan {
		p := &sel.plan[i]
		name := familyName(p.family)
		sel.families[name] = nil
		switch {
		case p.exact():
			sel.families[name] = sel.columnNames(p)
			whole = false
		case len(p.spans) > 0:
			whole, ranged = false, true
		}
	}
	if whole && len(sel.plan) == len(h.families) {
		sel.families = nil
	}
	if !ranged {
		return nil
	}
	if gaps := sel.gaps(); gaps != nil {
		return sel.setColumns(outside(gaps))
	}
	if len(sel.plan) == 1 && len(sel.plan[0].spans) == 1 && !scan {
		s := sel.plan[0].spans[0]
		sel.beside = sel.versioned && !bytes.Equal(s.from, firstStored)
		return sel.setColumns(s.seek())
	}
	return sel.setColumns(sel.spansFilter())
}

func (sel *selection) columnNames(p *familyPlan) []string {
	names := make([]string, 0, len(p.spans)+1)
	if sel.versioned {
		names = append(names, string(rowTombstone))
	}
	for _, s := range p.spans {
		q, _ := s.exact()
		names = append(names, string(q))
	}
	return names
}

// spansFilter returns a filter that passes row tombstones and all columns that the plan
// selects.
func (sel *selection) spansFilter() filter.Filter {
	any := filter.NewList(filter.MustPassOne)
	for i := range sel.plan {
		p := &sel.plan[i]
		if len(p.spans) == 0 || p.exact() {
			any.AddFilters(inFamily(p.family))
			continue
		}
		spans := filter.NewList(filter.MustPassOne, isTombstone())
		for _, s := range p.spans {
			spans.AddFilters(s.test())
		}
		if len(sel.plan) == 1 {
			return spans
		}
		any.AddFilters(filter.NewList(filter.MustPassAll, inFamily(p.family), spans))
	}
	return any
}

// gaps returns the prefixes of the columns that the plan leaves out, if it selects everything else, and leaves the
// same columns out of each family. Otherwise gaps returns nil.
func (sel *selection) gaps() (prefixes [][]byte) {
	spans := sel.plan[0].spans
	for _, p := range sel.plan[1:] {
		if !slices.EqualFunc(p.spans, spans, func(a, b span) bool { return bytes.Equal(a.from, b.from) && bytes.Equal(a.to, b.to) }) {
			return nil
		}
	}
	n := len(spans)
	if n < 2 || !bytes.Equal(spans[0].from, firstStored) || spans[n-1].to != nil {
		return nil
	}
	for i := range n - 1 {
		if !bytes.Equal(table.PrefixEnd(spans[i].to), spans[i+1].from) {
			return nil
		}
		prefixes = append(prefixes, spans[i].to)
	}
	return prefixes
}

// outside returns the filter of all columns that begin with none of the prefixes. The filter of the ranges between them
// took a region server 50 us more a row: it makes the filters anew for each row that is read by its key.
func outside(prefixes [][]byte) filter.Filter {
	all := make([]filter.Filter, len(prefixes))
	for i, p := range prefixes {
		is := filter.NewBinaryPrefixComparator(filter.NewByteArrayComparable(p))
		all[i] = filter.NewQualifierFilter(filter.NewCompareFilter(filter.NotEqual, is))
	}
	f, _ := list(filter.MustPassAll, all)
	return f
}

func inFamily(f table.Family) filter.Filter {
	return filter.NewFamilyFilter(filter.NewCompareFilter(filter.Equal, octets([]byte{byte(f)})))
}

func (sel *selection) setColumns(f filter.Filter) (err error) {
	sel.columns, err = prebuilt(f)
	return err
}

// A builtFilter is a filter that is serialized once and used in many calls.
type builtFilter struct{ *pb.Filter }

func (b builtFilter) ConstructPBFilter() (*pb.Filter, error) { return b.Filter, nil }

func prebuilt(f filter.Filter) (filter.Filter, error) {
	p, err := f.ConstructPBFilter()
	return builtFilter{p}, err
}

// allTime is the option of every Get and Scan that has no other time range. Without it gohbase sends an empty range, in
// which HBase 3 finds nothing.
var allTime = hrpc.TimeRangeUint64(0, math.MaxInt64)

// options returns the options of a Get or Scan. The call returns at most depth versions
// of each column. If limit is not zero, it returns at most limit cells of each family.
func (sel *selection) options(depth, limit int) []func(hrpc.Call) error {
	opts := make([]func(hrpc.Call) error, 0, 7)
	opts = append(opts, hrpc.MaxVersions(uint32(depth)), allTime)
	if sel.families != nil {
		opts = append(opts, hrpc.Families(sel.families))
	}
	begin, end := uint64(0), uint64(math.MaxInt64)
	if sel.view != nil && sel.view.Max() < math.MaxInt64 {
		end = uint64(sel.view.Max()) + 1
	}
	if sel.after > 0 {
		begin = uint64(sel.after) + 1
	}
	if begin > 0 || end < math.MaxInt64 {
		opts = append(opts, hrpc.TimeRangeUint64(begin, end))
	}
	if limit > 0 {
		opts = append(opts, hrpc.MaxResultsPerColumnFamily(uint32(limit)))
	}
	return opts
}

// limit returns the number of cells of each family that one call reads if MaxCells bounds
// a row. The limit is somewhat larger than MaxCells, because some cells may be
// tombstones. The result zero means that there is no limit.
func (sel *selection) limit() int {
	if sel.max == 0 {
		return 0
	}
	return min(sel.max, math.MaxInt32-16) + 8
}

// trim cuts a row's cells to MaxCells. It returns false if the call may have left out one
// of the first MaxCells cells because of its limit. This is possible if a family has at
// least limit versions, and the row has fewer than MaxCells cells up to the end of that
// family.
func (sel *selection) trim(cells []table.Cell, vs []version, limit int) ([]table.Cell, bool) {
	if sel.max == 0 {
		return cells, true
	}
	cut, isCut := cutFamily(vs, limit)
	if isCut {
		n := 0
		for n < len(cells) && cells[n].Family <= cut {
			n++
		}
		if n < sel.max {
			return nil, false
		}
	}
	return cells[:min(len(cells), sel.max)], true
}

// cutFamily returns the first family with at least limit versions, and reports whether
// there is one.
func cutFamily(vs []version, limit int) (table.Family, bool) {
	n := 0
	for i := range vs {
		if i > 0 && vs[i].family != vs[i-1].family {
			n = 0
		}
		if n++; n >= limit {
			return vs[i].family, true
		}
	}
	return 0, false
}
