package catalog

import "slices"

// A PolicyAttribute is an attribute of the default password policy: the name of its type
// and its values. This package does not interpret the values.
type PolicyAttribute struct {
	Name   string   `json:"name"`
	Values []string `json:"values"`
}

// DefaultPolicy is the password policy of entries that no other policy applies to.
type DefaultPolicy struct {
	Attributes []PolicyAttribute
}

// SamePolicy reports whether two default policies have the same attributes and values in
// the same order.
func SamePolicy(a, b []PolicyAttribute) bool {
	return slices.EqualFunc(a, b, func(x, y PolicyAttribute) bool {
		return x.Name == y.Name && slices.Equal(x.Values, y.Values)
	})
}
