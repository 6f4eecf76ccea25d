package tree

import (
	"bytes"
	"iter"
	"slices"

	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// A Source reads an entry from the entry's row in this table. It serves filters that need only
// keys. If the row cannot decide a test, the Source sets Unsure. If Unsure is set after a
// filter was evaluated, the result of the filter is not valid, and the caller must test the
// entry itself.
type Source struct {
	Row    table.Row
	Unsure bool
}

var _ filter.KeySource = (*Source)(nil)

// Has implements filter.Source.
func (s *Source) Has(t *schema.AttributeType, options string) bool {
	if isID(t) {
		return options == ""
	}
	if isElsewhere(t) {
		s.Unsure = true
		return false
	}
	cells := s.Row.Range(Columns(t))
	if options == "" {
		return len(cells) > 0
	}
	for i := range cells {
		if entry.HasOptions(Decode(&cells[i]).Options, options) {
			return true
		}
	}
	return false
}

// Keys implements filter.Source.
func (s *Source) Keys(t *schema.AttributeType, options string) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		s.AnyKey(t, options, func(k []byte) bool { return !yield(k) })
	}
}

// AnyKey implements filter.KeySource.
func (s *Source) AnyKey(t *schema.AttributeType, options string, holds func([]byte) bool) bool {
	if isID(t) {
		key, ok := s.idKey(t, options)
		return ok && holds(key)
	}
	if isElsewhere(t) {
		s.Unsure = true
		return false
	}
	cells := s.Row.Range(Columns(t))
	for i := range cells {
		c := Decode(&cells[i])
		if !entry.HasOptions(c.Options, options) {
			continue
		}
		switch c.Kind {
		case Whole, Single:
			if holds(c.Key) {
				return true
			}
		default:
			s.Unsure = true
		}
	}
	return false
}

// HasKey implements filter.KeySource. If it can, it first looks up the column of the key, and
// reads the other columns only if there is no such column.
func (s *Source) HasKey(t *schema.AttributeType, options string, key []byte) bool {
	if options == "" && !t.SingleValue && !isID(t) && t.Equality != nil &&
		s.Row.Find(NormAttributes, Qualifier(t, "", key)) != nil {
		return true
	}
	return s.AnyKey(t, options, func(k []byte) bool { return bytes.Equal(k, key) })
}

func (s *Source) idKey(t *schema.AttributeType, options string) ([]byte, bool) {
	e, ok := ID(s.Row)
	if !ok || options != "" {
		return nil, false
	}
	key, err := t.Equality.Key([]byte(e.String()))
	return key, err == nil
}

// Values implements filter.Source. A row contains no values, so Values sets Unsure.
func (s *Source) Values(*schema.AttributeType, string) iter.Seq[[]byte] {
	return func(func([]byte) bool) { s.Unsure = true }
}

// NameValues implements filter.Source. The cells of a row contain no names, so NameValues sets
// Unsure.
func (s *Source) NameValues() iter.Seq2[*schema.AttributeType, []byte] {
	return func(func(*schema.AttributeType, []byte) bool) { s.Unsure = true }
}

// IsKeyed reports whether the columns of a row show all keys of a type, or that they do not.
func IsKeyed(t *schema.AttributeType) bool { return !isID(t) && !isElsewhere(t) && !t.Secret() }

// isID reports whether a type is entryUUID. entryUUID has no column in normAttributes.
// Its value is the entry's id, which [ID] reads from the row.
func isID(t *schema.AttributeType) bool { return t.OID == schema.EntryUUIDOID }

// isElsewhere reports whether a type is hasSubordinates or a number of subordinates, or is keyless.
// Entries have attributes of these types, but the values are computed from other rows, or only the
// table master has them.
func isElsewhere(t *schema.AttributeType) bool {
	return t.Keyless() || t.OID == hasSubordinates || t.OID == numSubordinates || t.OID == numAllSubordinates
}

const (
	hasSubordinates = "2.5.18.9"
	numSubordinates = "1.3.6.1.4.1.453.16.2.103"

	numAllSubordinates = "2.25.232774446428415055699410475325880976585"
)

// Hint converts a filter of entries to a filter that a store can evaluate on rows of this
// table. It omits the tests that a store cannot evaluate. So a row that fails the hint never
// matches the filter, and a row that passes the hint may still not match the filter. A nil
// result means that there is no hint.
func Hint(f filter.Resolved) table.Filter {
	switch f := f.(type) {
	case *filter.AndNode:
		if all := hintAnd(f.Parts); len(all) > 0 {
			return all
		}
	case *filter.OrNode:
		var one table.Any
		for _, p := range f.Parts {
			h := Hint(p)
			if h == nil {
				return nil
			}
			one = append(one, h)
		}
		return one
	case *filter.Test:
		return hintTest(f)
	}
	return nil
}

// hintAnd returns conditions for the parts of a conjunction. Parts that bound the value of a
// SINGLE-VALUE type from both sides get one condition, because many rows may be on one side.
func hintAnd(parts []filter.Resolved) (all table.All) {
	bounds := map[*schema.AttributeType]table.HasValue{}
	for _, p := range parts {
		if at, keys, ok := boundOf(p); ok {
			b := bounds[at]
			if keys.From != nil && bytes.Compare(keys.From, b.From) >= 0 {
				b.From = keys.From
			}
			if keys.To != nil && (b.To == nil || bytes.Compare(keys.To, b.To) < 0) {
				b.To = keys.To
			}
			bounds[at] = b
		}
	}
	for at, b := range bounds {
		if b.From == nil || b.To == nil {
			delete(bounds, at)
			continue
		}
		// An entry may have several values of the other kinds, and each may fulfil another part.
		all = append(all, append(hintCells(at, b), prefix(at, Whole), prefix(at, Cut)))
	}
	for _, p := range parts {
		at, _, ok := boundOf(p)
		if _, done := bounds[at]; ok && done {
			continue
		}
		if h := Hint(p); h != nil {
			all = append(all, h)
		}
	}
	return all
}

// boundOf returns the bound of a test that bounds the value of a SINGLE-VALUE type from one side.
func boundOf(f filter.Resolved) (at *schema.AttributeType, keys table.HasValue, ok bool) {
	t, ok := f.(*filter.Test)
	if !ok || len(t.Types) != 1 || !t.Types[0].SingleValue || t.Options != "" || hintTest(t) == nil {
		return nil, keys, false
	}
	keys, ok = keysOf(t, t.Types[0])
	return t.Types[0], keys, ok && (keys.From == nil) != (keys.To == nil)
}

func hintTest(t *filter.Test) table.Filter {
	if t.DNAttrs || t.IsComputed() || len(t.Types) > 16 {
		return nil
	}
	var one table.Any
	for _, at := range t.Types {
		if isID(at) || isElsewhere(at) || at.Secret() {
			return nil
		}
		one = append(one, hintType(t, at)...)
	}
	return one
}

// hintType returns conditions for one type. A row that may have a matching value of the type
// fulfils at least one of the conditions.
func hintType(t *filter.Test, at *schema.AttributeType) []table.Filter {
	if t.Options != "" {
		return []table.Filter{prefix(at, ';')}
	}
	keys, ok := keysOf(t, at)
	if !ok {
		return []table.Filter{table.HasRange{ColumnRange: Columns(at)}}
	}
	all := hintCells(at, keys)
	if keys.From != nil && keys.To != nil { // they are equal
		return append(all, table.Has{Family: NormAttributes, Qualifier: Qualifier(at, "", keys.From)})
	}
	// The columns are those of keys that begin like a key between the bounds.
	span := func(kind rune) table.Filter {
		of := at.InKeys() + string(kind)
		c := table.ColumnPrefix(NormAttributes, []byte(of+cut(keys.To)+cut(keys.Prefix)))
		c.From = []byte(of + cut(keys.From) + cut(keys.Prefix))
		return table.HasRange{ColumnRange: c}
	}
	if len(keys.Parts) == 0 {
		return append(all, span(Whole), span(Cut))
	}
	return append(all, span(Cut), table.HasMatch{
		Family: NormAttributes, Prefix: []byte(at.InKeys() + string(Whole) + string(keys.Prefix)), Parts: keys.Parts, AtEnd: keys.AtEnd,
	})
}

// hintCells returns the conditions for values that have no key in a qualifier. The keys of values with
// options and of values in the table master are not tested.
func hintCells(at *schema.AttributeType, keys table.HasValue) table.Any {
	keys.Family, keys.Qualifier = NormAttributes, Plain(at, "", Single)
	return table.Any{prefix(at, ';'), prefix(at, Many), keys}
}

// prefix returns the condition that a row has a column of a type that goes on with the character c.
func prefix(at *schema.AttributeType, c rune) table.Filter {
	return table.HasRange{ColumnRange: table.ColumnPrefix(NormAttributes, []byte(at.InKeys()+string(c)))}
}

// cut returns the part of a key that a column of the kind Cut has.
func cut(key []byte) string { return string(key[:min(len(key), maxKey)]) }

// keysOf returns the conditions that the keys of matching values fulfil. Either it sets the bounds
// or the other conditions. It returns false if the stored keys decide nothing.
func keysOf(t *filter.Test, at *schema.AttributeType) (v table.HasValue, ok bool) {
	if t.Op == filter.TestPresent || at.Equality == nil || at.Equality.Form != t.Rule.Form {
		return v, false
	}
	switch {
	case t.Op == filter.TestSubstrings:
		v.Prefix, v.Parts, v.AtEnd = t.Initial, t.Any, t.Final != nil
		if v.AtEnd {
			v.Parts = append(slices.Clip(t.Any), t.Final)
		}
	case t.Op == filter.TestGreaterOrEqual:
		v.From = t.Key
	case t.Op == filter.TestLessOrEqual, t.Rule.Use == schema.Ordering: // an extensible match with an ordering rule is "less"
		v.To = t.Key
	case t.Rule.Use == schema.Equality:
		v.From, v.To = t.Key, t.Key
	case t.Rule.Use == schema.Substrings:
		for kind, piece := range schema.Pieces(t.Key) {
			if kind == schema.Initial {
				v.Prefix = piece
				continue
			}
			v.Parts, v.AtEnd = append(v.Parts, piece), kind == schema.Final
		}
	default:
		return v, false
	}
	return v, true
}
