package filter

import "iter"

// Leaves yields every part of a filter that is not an And, Or or Not, in the order of the
// filter.
func Leaves(f Filter) iter.Seq[Filter] {
	return func(yield func(Filter) bool) { leaves(f, yield) }
}

func leaves(f Filter, yield func(Filter) bool) bool {
	var parts []Filter
	switch f := f.(type) {
	case And:
		parts = f
	case Or:
		parts = f
	case *Not:
		return leaves(f.Filter, yield)
	default:
		return yield(f)
	}
	for _, p := range parts {
		if !leaves(p, yield) {
			return false
		}
	}
	return true
}

// MapLeaves returns a copy of a filter in which change(part) replaces each part that is not
// an And, Or or Not.
func MapLeaves(f Filter, change func(Filter) Filter) Filter {
	mapAll := func(parts []Filter) []Filter {
		out := make([]Filter, len(parts))
		for i, p := range parts {
			out[i] = MapLeaves(p, change)
		}
		return out
	}
	switch f := f.(type) {
	case And:
		return And(mapAll(f))
	case Or:
		return Or(mapAll(f))
	case *Not:
		return &Not{MapLeaves(f.Filter, change)}
	}
	return change(f)
}

// Description returns the attribute description that a leaf of a filter tests, or "" if
// there is none.
func Description(leaf Filter) string {
	switch f := leaf.(type) {
	case *Equal:
		return f.Attribute
	case *GreaterOrEqual:
		return f.Attribute
	case *LessOrEqual:
		return f.Attribute
	case *Approx:
		return f.Attribute
	case *Present:
		return f.Attribute
	case *Substrings:
		return f.Attribute
	case *Extensible:
		return f.Attribute
	}
	return ""
}
