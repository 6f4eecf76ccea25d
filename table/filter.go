package table

import (
	"bytes"
	"regexp"
)

// A Filter selects rows by their visible cells. It has only what the stock filters of
// HBase can decide soundly: presence of columns, never absence.
type Filter interface {
	// Match tests a row's visible cells, with all families that the filter names.
	Match(Row) bool
}

type (
	// All matches if every part matches. Without parts it matches.
	All []Filter
	// Any matches if at least one part matches. Without parts it does not.
	Any []Filter
	// Has matches if the row has exactly this column.
	Has struct {
		Family    Family
		Qualifier []byte
	}
	// HasRange matches if the row has a column in the range.
	HasRange struct{ ColumnRange }
	// HasMatch matches if the row has a column of the family whose qualifier begins
	// with Prefix and contains Parts one after another behind it. With AtEnd the last
	// part must end the qualifier.
	HasMatch struct {
		Family Family
		Prefix []byte
		Parts  [][]byte
		AtEnd  bool
	}
	// KeyMatch matches if the row's key matches the pattern, a regular expression over
	// bytes read as ISO-8859-1 in which "." is any byte.
	KeyMatch struct{ Pattern *regexp.Regexp }
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
	for _, c := range r.Range(ColumnPrefix(f.Family, f.Prefix)) {
		if Contains(c.Qualifier[len(f.Prefix):], f.Parts, f.AtEnd) {
			return true
		}
	}
	return false
}

func (f KeyMatch) Match(r Row) bool { return f.Pattern.Match(r.Key) }

// Contains reports whether s contains parts one after another, the last one at its end
// if atEnd is set.
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
