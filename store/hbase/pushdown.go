package hbase

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/tsuna/gohbase/filter"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

// A push is the part of a table.Filter that the server evaluates. Every row that matches the filter
// also passes its push, in every view: the server sees all versions up to the view's Max, and a push
// tests only keys and qualifiers, which are the same in all versions of a column. It does not test
// values, so the server cannot mistake an older version for the one that the view shows. A condition
// that is true for an absent column is never sent.
type push struct {
	never bool          // no row can match
	row   filter.Filter // excludes rows whose keys do not match
	part                // the whole of the filter that columns decide
	// If that is a conjunction, parts has its parts. Each of them alone finds all rows that match.
	parts []part
}

// A part is a filter that some columns decide. If cells is not nil, pages return only these columns.
// The rows whose visible cells in these columns pass test, or whose visible cells a page does not
// show, are then read by their keys.
type part struct {
	cells *selection
	test  table.Filter
}

// pushdown chooses the part of a Select's filter that the server evaluates in a scan of
// sel.
func pushdown(h *shape, sel *selection, s *table.Select) (p push, err error) {
	if s.Filter == nil {
		return p, nil
	}
	switch f, kind := keyFilter(s.Filter); kind {
	case pushNever:
		p.never = true
		return p, nil
	case pushFilter:
		if p.row, err = prebuilt(f); err != nil {
			return p, err
		}
	}
	if h.unversioned {
		return p, nil
	}
	if p.part, err = partOf(h, sel, s.Filter); err != nil {
		return p, err
	}
	all, _ := s.Filter.(table.All)
	for _, f := range all {
		g, err := partOf(h, sel, f)
		if err != nil {
			return p, err
		}
		if g.cells != nil {
			p.parts = append(p.parts, g)
		}
	}
	return p, nil
}

// alternatives returns the parts, or the only part.
func (p *push) alternatives() []part {
	if len(p.parts) > 0 {
		return p.parts
	}
	return []part{p.part}
}

// partOf returns the part for a filter. It has no cells if no columns decide any part of the filter.
func partOf(h *shape, sel *selection, f table.Filter) (p part, err error) {
	fams := map[string][]string{}
	cells, test, ok := cellFilter(h, f, fams)
	if ok {
		p = part{&selection{view: sel.view, versioned: true, families: fams}, test}
		err = p.cells.setColumns(cells)
	}
	return p, err
}

type pushKind int

const (
	pushNone   pushKind = iota // the filter cannot be sent
	pushFilter                 // a filter can be sent; it may also pass rows that do not match
	pushNever                  // the filter matches no row
)

// keyFilter translates the conditions on keys into a filter of whole rows.
func keyFilter(f table.Filter) (filter.Filter, pushKind) {
	switch f := f.(type) {
	case table.All:
		return allKeys(f)
	case table.Any:
		return anyKey(f)
	case table.KeyMatch:
		pattern := regex(writePattern(f.Prefix, f.Parts, false))
		return filter.NewRowFilter(filter.NewCompareFilter(filter.Equal, pattern)), pushFilter
	}
	return nil, pushNone
}

// allKeys translates the parts of a conjunction that can be sent.
func allKeys(fs table.All) (filter.Filter, pushKind) {
	var parts []filter.Filter
	for _, f := range fs {
		switch g, kind := keyFilter(f); kind {
		case pushNever:
			return nil, pushNever
		case pushFilter:
			parts = append(parts, g)
		}
	}
	return list(filter.MustPassAll, parts)
}

// anyKey translates the parts of a disjunction, except parts that match no row. If one part cannot
// be sent, no part is sent.
func anyKey(fs table.Any) (filter.Filter, pushKind) {
	var parts []filter.Filter
	for _, f := range fs {
		switch g, kind := keyFilter(f); kind {
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

// javaDotAll is the value of java.util.regex.Pattern.DOTALL.
const javaDotAll = 32

func regex(pattern string) *filter.RegexStringComparator {
	return filter.NewRegexStringComparator(pattern, javaDotAll, "ISO-8859-1", "JAVA")
}

// cellFilter translates a filter into a filter of columns, which passes the columns that can make a
// row match, and adds the families of these columns to fams. It also returns the part of the filter
// that these columns decide. The result ok is false if no columns decide any part.
func cellFilter(h *shape, f table.Filter, fams map[string][]string) (cells filter.Filter, test table.Filter, ok bool) {
	switch g := f.(type) {
	case table.Any:
		return cellsOfAny(h, g, fams)
	case table.All:
		return cellsOfAll(h, g, fams)
	case table.Has:
		cells, ok = spanCells(h, table.Column(g.Family, g.Qualifier), fams)
	case table.HasRange:
		cells, ok = spanCells(h, g.ColumnRange, fams)
	case table.HasMatch:
		cells, ok = matchCells(h, g, fams)
	}
	return cells, f, ok
}

// cellsOfAll passes the columns of all parts that can be translated. HBase cannot test that a row has
// a column of each part, so the test does.
func cellsOfAll(h *shape, fs table.All, fams map[string][]string) (filter.Filter, table.Filter, bool) {
	cells := filter.NewList(filter.MustPassOne)
	var test table.All
	for _, f := range fs {
		if c, t, ok := cellFilter(h, f, fams); ok {
			cells.AddFilters(c)
			test = append(test, t)
		}
	}
	return cells, test, len(test) > 0
}

func cellsOfAny(h *shape, fs table.Any, fams map[string][]string) (filter.Filter, table.Filter, bool) {
	cells := filter.NewList(filter.MustPassOne)
	var test table.Any
	for _, f := range fs {
		c, t, ok := cellFilter(h, f, fams)
		if !ok {
			return nil, nil, false
		}
		cells.AddFilters(c)
		test = append(test, t)
	}
	return cells, test, len(test) > 0
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
	prefix := f.Prefix
	if len(prefix) > 0 { // without a prefix, a stored qualifier may begin with 00 01
		prefix = storeQualifier(prefix)
	}
	return writePattern(prefix, f.Parts, f.AtEnd)
}

// writePattern returns the regular expression for strings that begin with a prefix and then contain
// parts, see table.Contains. Each part matches where it occurs first: with atomic groups, Java does not
// try other places, of which there may be very many.
func writePattern(prefix []byte, parts [][]byte, atEnd bool) string {
	var b strings.Builder
	b.WriteString(`\A`)
	writeBytes(&b, prefix)
	for i, p := range parts {
		if atEnd && i == len(parts)-1 {
			b.WriteString(`.*`)
			writeBytes(&b, p)
			b.WriteString(`\z`)
			break
		}
		b.WriteString(`(?>.*?`)
		writeBytes(&b, p)
		b.WriteByte(')')
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
