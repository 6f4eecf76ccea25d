package table

import "bytes"

// A Filter selects rows by their keys and visible cells. It can test only conditions that
// the stock filters of HBase decide correctly. For example, it can test that a column is
// present, but not that a column is absent, nor that a value is not one that is given: HBase tests
// all versions of a column, and an older version may pass.
type Filter interface {
	// Match reports whether a row matches. The row must contain the visible cells of all
	// families that the filter names.
	Match(Row) bool
}

type (
	// All matches if every part matches. An All without parts matches every row.
	All []Filter
	// Any matches if at least one part matches. An Any without parts matches no row.
	Any []Filter
	// Has matches if the row has exactly this column.
	Has struct {
		Family    Family
		Qualifier []byte
	}
	// HasRange matches if the row has a column in the range.
	HasRange struct{ ColumnRange }
	// HasMatch matches if the row has a column of the family with a matching qualifier. The
	// qualifier must begin with Prefix. After Prefix it must contain Parts in their order
	// and without overlap. If AtEnd is set, the qualifier must end with the last part.
	HasMatch struct {
		Family Family
		Prefix []byte
		Parts  [][]byte
		AtEnd  bool
	}
	// HasValue matches if the row has exactly this column, and its value is not below From, not
	// above To, and begins with Prefix. A nil bound is no bound. After Prefix the value must
	// contain Parts in their order and without overlap. If AtEnd is set, the value must end with
	// the last part.
	HasValue struct {
		Family    Family
		Qualifier []byte
		From, To  []byte
		Prefix    []byte
		Parts     [][]byte
		AtEnd     bool
	}
	// KeyMatch matches if the row's key begins with Prefix, and after Prefix contains Parts in
	// their order and without overlap.
	KeyMatch struct {
		Prefix []byte
		Parts  [][]byte
	}
)

func (f All) Match(r Row) bool {
	for _, g := range f {
		if !g.Match(r) {
			return false
		}
	}
	return true
}

func (f Any) Match(r Row) bool {
	for _, g := range f {
		if g.Match(r) {
			return true
		}
	}
	return false
}

func (f Has) Match(r Row) bool { return r.Find(f.Family, f.Qualifier) != nil }

func (f HasRange) Match(r Row) bool {
	return len(r.Range(f.ColumnRange)) > 0
}

func (f HasMatch) Match(r Row) bool {
	// Without the end of a range, which would be made for each row.
	for _, c := range r.Cells[r.search(f.Family, f.Prefix):] {
		if c.Family != f.Family || !bytes.HasPrefix(c.Qualifier, f.Prefix) {
			return false
		}
		if Contains(c.Qualifier[len(f.Prefix):], f.Parts, f.AtEnd) {
			return true
		}
	}
	return false
}

func (f HasValue) Match(r Row) bool {
	c := r.Find(f.Family, f.Qualifier)
	return c != nil && bytes.Compare(c.Value, f.From) >= 0 && (f.To == nil || bytes.Compare(c.Value, f.To) <= 0) &&
		bytes.HasPrefix(c.Value, f.Prefix) && Contains(c.Value[len(f.Prefix):], f.Parts, f.AtEnd)
}

func (f KeyMatch) Match(r Row) bool {
	return bytes.HasPrefix(r.Key, f.Prefix) && Contains(r.Key[len(f.Prefix):], f.Parts, false)
}

// Contains reports whether s contains the parts in their order and without overlap. If
// atEnd is set, s must also end with the last part.
func Contains(s []byte, parts [][]byte, atEnd bool) bool {
	if atEnd && len(parts) > 0 {
		last := parts[len(parts)-1]
		if !bytes.HasSuffix(s, last) {
			return false
		}
		s, parts = s[:len(s)-len(last)], parts[:len(parts)-1]
	}
	for _, p := range parts {
		i := bytes.Index(s, p)
		if i < 0 {
			return false
		}
		s = s[i+len(p):]
	}
	return true
}
