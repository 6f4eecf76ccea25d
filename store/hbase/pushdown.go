package hbase

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/tsuna/gohbase/filter"
	"google.golang.org/protobuf/proto"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

// A push is the part of a table.Filter that the server evaluates. Every row that matches the filter
// also passes its push, in every view: the server sees all versions up to the view's Max, and passes
// each version that could make the row match if the view showed it. Of the versions that pass, it
// returns the newest of each column. If the view does not show that version, the row is read again. If
// the view shows it, then either the view shows no newer one, or the row does not match by this column.
// So a condition must be true of a version by itself. A condition that is true for an absent column, or
// for a value that differs from another, is never sent.
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
		if p.row, err = sendable(f); err != nil {
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
	if p.cells == nil && len(p.parts) > 0 { // together they are too large
		p.part, p.parts = p.parts[0], nil
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

// maxFilter bounds the size of a filter, which is about 1 kB for each equality test. A larger filter is not
// sent, because the server tests cells more slowly than this package: 50 alternatives took it 0.7 s for 3,000
// rows, and reading these rows takes 0.2 s.
const maxFilter = 32 << 10

// sendable returns the serialized filter, or nil if it is too large.
func sendable(f filter.Filter) (filter.Filter, error) {
	p, err := f.ConstructPBFilter()
	if err != nil || proto.Size(p) > maxFilter {
		return nil, err
	}
	return builtFilter{p}, nil
}

// partOf returns the part for a filter. It has no cells if no columns decide any part of the filter, or
// if the filter is too large.
func partOf(h *shape, sel *selection, f table.Filter) (p part, err error) {
	test := columnTest(h, f)
	if test == nil {
		return p, nil
	}
	sent := cellTests{}
	sent.add(test)
	cells, err := sendable(sent.build())
	if err == nil && cells != nil {
		p = part{&selection{view: sel.view, versioned: true, families: map[string][]string{}, columns: cells}, test}
		for f := range sent {
			p.cells.families[familyName(f)] = nil
		}
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

// columnTest returns the part of a filter that columns decide, or nil if there is none.
func columnTest(h *shape, f table.Filter) table.Filter {
	switch f := f.(type) {
	case table.Any:
		var one table.Any
		for _, g := range f {
			t := columnTest(h, g)
			if t == nil {
				return nil
			}
			one = append(one, t)
		}
		if len(one) > 0 {
			return one
		}
	case table.All:
		var all table.All
		for _, g := range f {
			if t := columnTest(h, g); t != nil {
				all = append(all, t)
			}
		}
		if len(all) > 0 {
			return all
		}
	case table.Has:
		return known(h, f.Family, f)
	case table.HasRange:
		return known(h, f.Family, f)
	case table.HasMatch:
		return known(h, f.Family, f)
	case table.HasValue:
		return known(h, f.Family, f)
	}
	return nil
}

func known(h *shape, fam table.Family, f table.Filter) table.Filter {
	if !h.has(fam) {
		return nil
	}
	return f
}

// cellTests are the tests of cells, in any version, that can make a row match a filter. HBase cannot test
// that a row has cells for each part of a conjunction, so the cells of all parts pass, and the caller
// tests the rows.
type cellTests map[table.Family][]cellTest

// A cellTest passes cells in a span. A nil filter passes all of them.
type cellTest struct {
	span
	filter filter.Filter
}

func (c cellTests) add(f table.Filter) {
	switch f := f.(type) {
	case table.Any:
		for _, g := range f {
			c.add(g)
		}
	case table.All:
		for _, g := range f {
			c.add(g)
		}
	case table.Has:
		c[f.Family] = append(c[f.Family], cellTest{span: storeSpan(table.Column(f.Family, f.Qualifier))})
	case table.HasRange:
		c[f.Family] = append(c[f.Family], cellTest{span: storeSpan(f.ColumnRange)})
	case table.HasMatch:
		pattern := filter.NewQualifierFilter(filter.NewCompareFilter(filter.Equal, regex(matchPattern(f))))
		c[f.Family] = append(c[f.Family], cellTest{storeSpan(table.ColumnPrefix(f.Family, f.Prefix)), pattern})
	case table.HasValue:
		c[f.Family] = append(c[f.Family], cellTest{storeSpan(table.Column(f.Family, f.Qualifier)), values(f)})
	}
}

// values returns the filter of the values that a HasValue tests.
func values(f table.HasValue) filter.Filter {
	all := filter.NewList(filter.MustPassAll)
	is := func(op filter.CompareType, c filter.Comparator) {
		all.AddFilters(filter.NewValueFilter(filter.NewCompareFilter(op, c)))
	}
	if f.From != nil {
		is(filter.GreaterOrEqual, octets(storePlain(f.From)))
	}
	if f.To != nil {
		is(filter.LessOrEqual, octets(storePlain(f.To)))
	}
	if len(f.Prefix)+len(f.Parts) > 0 {
		is(filter.Equal, regex(writePattern(storePlain(f.Prefix), f.Parts, f.AtEnd)))
	}
	return all
}

func (c cellTests) build() filter.Filter {
	any := filter.NewList(filter.MustPassOne)
	for f, tests := range c {
		one := nested(mergeTests(tests))
		if len(c) == 1 { // the scan selects the family
			return one
		}
		any.AddFilters(filter.NewList(filter.MustPassAll, inFamily(f), one))
	}
	return any
}

// mergeTests joins the spans of tests without a filter, and sorts the tests.
func mergeTests(tests []cellTest) (out []cellTest) {
	var spans []span
	for _, t := range tests {
		if t.filter != nil {
			out = append(out, t)
			continue
		}
		spans = append(spans, t.span)
	}
	for _, s := range merge(spans) {
		out = append(out, cellTest{span: s})
	}
	slices.SortStableFunc(out, func(a, b cellTest) int { return bytes.Compare(a.from, b.from) })
	return out
}

// branches is the number of filters in each list that nested makes.
const branches = 4

// nested returns the filter that passes what one of the tests passes. It is a tree, so that HBase
// compares a cell that is outside of a branch's span only with that span. To test a cell with each
// element of a long list takes it milliseconds a row.
func nested(tests []cellTest) filter.Filter {
	hull := tests[0].span
	for _, t := range tests[1:] {
		if hull.to != nil && (t.to == nil || bytes.Compare(t.to, hull.to) > 0) {
			hull.to = t.to
		}
	}
	all := hull.test()
	if len(tests) > 1 {
		one := filter.NewList(filter.MustPassOne)
		for part := range slices.Chunk(tests, (len(tests)+branches-1)/branches) {
			one.AddFilters(nested(part))
		}
		all.AddFilters(one)
	} else if f := tests[0].filter; f != nil {
		all.AddFilters(f)
	}
	return all
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
