package filter

import (
	"slices"

	"github.com/seed-4dac0d86/ldapd/schema"
)

// HasUndefined reports whether a part of f is Undefined for every entry.
func HasUndefined(f Resolved) bool {
	switch f := f.(type) {
	case Const:
		return Tri(f) == Undefined
	case *NotNode:
		return HasUndefined(f.Part)
	case *AndNode:
		return slices.ContainsFunc(f.Parts, HasUndefined)
	case *OrNode:
		return slices.ContainsFunc(f.Parts, HasUndefined)
	}
	return false
}

// Unmatchable returns the type that a leaf of a filter tests, and the keyword of the matching
// rule that the test needs, if the definition of the type lacks this rule, so that the test is
// Undefined for every value. Otherwise it returns nil.
func Unmatchable(leaf Filter, s *schema.Schema) (t *schema.AttributeType, keyword string) {
	if t, _ = s.Describe(Description(leaf)); t == nil || t.Secret() {
		return nil, ""
	}
	rule := t.Equality
	switch f := leaf.(type) {
	case *Equal, *Approx:
		keyword = "EQUALITY"
	case *GreaterOrEqual, *LessOrEqual:
		rule, keyword = t.Ordering, "ORDERING"
	case *Substrings:
		rule, keyword = t.Substr, "SUBSTR"
	case *Extensible:
		if keyword = "EQUALITY"; f.Rule != "" {
			return nil, ""
		}
	default:
		return nil, ""
	}
	if rule != nil {
		return nil, ""
	}
	return t, keyword
}
