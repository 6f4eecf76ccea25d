package hbase

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/tsuna/gohbase/filter"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

// A push is the part of a table.Filter that the server evaluates. Every row that matches
// the filter also passes its push.
//
// HBase's filters see every version in the time range before one version is chosen, and
// do not interpret row tombstones. So a condition on a column is sent only if the view
// shows everything up to Max. The condition then tests that the newest version is not a
// tombstone. A condition that is true for an absent column is never sent.
type push struct {
	never bool          // no row can match
	row   filter.Filter // excludes rows that do not match
	// If cells is not nil, pages return only the columns that the filter needs. The rows
	// that have one of these columns are then read by their keys.
	cells *selection
}

// pushdown chooses the part of a Select's filter that the server evaluates in a scan of
// sel.
func pushdown(h *shape, sel *selection, s *table.Select) (p push, err error) {
	if s.Filter == nil {
		return p, nil
	}
	decided := s.View != nil && s.View.Low() == s.View.Max()
	row := rowPush{h, sel, decided}
	f, kind := row.of(s.Filter)
	switch {
	case kind == pushNever:
		p.never = true
	case kind == pushFilter:
		p.row, err = prebuilt(f)
	case decided && !h.unversioned:
		p.cells, err = cellSelection(h, sel, s.Filter)
	}
	return p, err
}

type pushKind int

const (
	pushNone   pushKind = iota // the filter cannot be sent
	pushFilter                 // a filter can be sent; it may also pass rows that do not match
	pushNever                  // the filter matches no row
)

// rowPush translates filters of package table into HBase's filters of whole rows.
type rowPush struct {
	h       *shape
	sel     *selection
	decided bool
}

func (p rowPush) of(f table.Filter) (filter.Filter, pushKind) {
	switch f := f.(type) {
	case table.All:
		return p.all(f)
	case table.Any:
		return p.any(f)
	case table.Has:
		return p.has(f)
	case table.KeyMatch:
		return keyMatch(f)
	}
	return nil, pushNone
}

// The method "all" translates the parts of a conjunction that can be sent.
func (p rowPush) all(fs table.All) (filter.Filter, pushKind) {
	var parts []filter.Filter
	for _, f := range fs {
		switch g, kind := p.of(f); kind {
		case pushNever:
			return nil, pushNever
		case pushFilter:
			parts = append(parts, g)
		}
	}
	return list(filter.MustPassAll, parts)
}

// The method "any" translates the parts of a disjunction, except parts that match no row. If one
// part cannot be sent, no part is sent.
func (p rowPush) any(fs table.Any) (filter.Filter, pushKind) {
	var parts []filter.Filter
	for _, f := range fs {
		switch g, kind := p.of(f); kind {
		case pushNone:
			return nil, pushNone
		case pushFilter:
			parts = append(parts, g)
		}
	}
	if len(parts) == 0 {
		return nil, pushNever
	}
	return list(filter.MustPassOne, parts)
}

func list(op filter.ListOperator, parts []filter.Filter) (filter.Filter, pushKind) {
	switch len(parts) {
	case 0:
		return nil, pushNone
	case 1:
		return parts[0], pushFilter
	}
	return filter.NewList(op, parts...), pushFilter
}

// The method "has" translates a test of one column. The server sees the column only if the scan
// reads it and MaxCells does not cut it off.
func (p rowPush) has(f table.Has) (filter.Filter, pushKind) {
	q := storeQualifier(f.Qualifier)
	plan := p.sel.family(f.Family)
	if !p.decided || p.h.unversioned || p.sel.max > 0 || plan == nil || !plan.holds(q) {
		return nil, pushNone
	}
	const ifMissing, newestOnly = true, true
	return filter.NewSingleColumnValueFilter([]byte{byte(f.Family)}, q, filter.NotEqual,
		filter.NewBinaryComparator(filter.NewByteArrayComparable(tombstone)), ifMissing, newestOnly), pushFilter
}

func keyMatch(f table.KeyMatch) (filter.Filter, pushKind) {
	if f.Pattern == nil {
		return nil, pushNone
	}
	pattern, ok := javaPattern(f.Pattern.String())
	if !ok {
		return nil, pushNone
	}
	return filter.NewRowFilter(filter.NewCompareFilter(filter.Equal, regex(pattern))), pushFilter
}

// javaDotAll is the value of java.util.regex.Pattern.DOTALL.
const javaDotAll = 32

func regex(pattern string) *filter.RegexStringComparator {
	return filter.NewRegexStringComparator(pattern, javaDotAll, "ISO-8859-1", "JAVA")
}

// cellSelection selects the columns that a filter needs. It returns nil if these columns
// cannot be determined.
func cellSelection(h *shape, sel *selection, f table.Filter) (*selection, error) {
	fams := map[string][]string{}
	g, ok := cellFilter(h, f, fams)
	if !ok {
		return nil, nil
	}
	c := &selection{view: sel.view, versioned: true, families: fams}
	return c, c.setColumns(g)
}

// cellFilter translates a filter into a filter of columns, which passes the columns that
// can make a row match. It adds the families of these columns to fams.
func cellFilter(h *shape, f table.Filter, fams map[string][]string) (filter.Filter, bool) {
	switch f := f.(type) {
	case table.Any:
		return anyCells(h, f, fams)
	case table.All:
		// Each row that matches the conjunction also matches its first part that can be
		// translated. So the columns of this part are enough to find all matching rows.
		for _, g := range f {
			if c, ok := cellFilter(h, g, fams); ok {
				return c, true
			}
		}
	case table.Has:
		return spanCells(h, table.Column(f.Family, f.Qualifier), fams)
	case table.HasRange:
		return spanCells(h, f.ColumnRange, fams)
	case table.HasMatch:
		return matchCells(h, f, fams)
	}
	return nil, false
}

func anyCells(h *shape, fs table.Any, fams map[string][]string) (filter.Filter, bool) {
	any := filter.NewList(filter.MustPassOne)
	for _, f := range fs {
		g, ok := cellFilter(h, f, fams)
		if !ok {
			return nil, false
		}
		any.AddFilters(g)
	}
	return any, len(fs) > 0
}

func spanCells(h *shape, c table.ColumnRange, fams map[string][]string) (filter.Filter, bool) {
	if !h.has(c.Family) {
		return nil, false
	}
	fams[familyName(c.Family)] = nil
	return filter.NewList(filter.MustPassAll, inFamily(c.Family), storeSpan(c).test()), true
}

func matchCells(h *shape, f table.HasMatch, fams map[string][]string) (filter.Filter, bool) {
	span, ok := spanCells(h, table.ColumnPrefix(f.Family, f.Prefix), fams)
	if !ok {
		return nil, false
	}
	q := filter.NewQualifierFilter(filter.NewCompareFilter(filter.Equal, regex(matchPattern(f))))
	return filter.NewList(filter.MustPassAll, span, q), true
}

// matchPattern returns a HasMatch as a regular expression over stored qualifiers.
func matchPattern(f table.HasMatch) string {
	var b strings.Builder
	b.WriteString(`\A`)
	if len(f.Prefix) > 0 { // without a prefix, a stored qualifier may begin with 00 01
		writeBytes(&b, storeQualifier(f.Prefix))
	}
	for _, p := range f.Parts {
		b.WriteString(`.*`)
		writeBytes(&b, p)
	}
	if f.AtEnd && len(f.Parts) > 0 {
		b.WriteString(`\z`)
	}
	return b.String()
}

func writeBytes(b *strings.Builder, s []byte) {
	for _, c := range s {
		if c < 0x80 && (bytes.IndexByte([]byte("=;-:, "), c) >= 0 || isAlnum(c)) {
			b.WriteByte(c)
			continue
		}
		fmt.Fprintf(b, `\x%02x`, c)
	}
}

func isAlnum(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}
