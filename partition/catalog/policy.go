package catalog

import (
	"slices"
	"strings"
)

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

// PolicyValues returns the values of an attribute of a policy.
func PolicyValues(policy []PolicyAttribute, attribute string) []string {
	for _, a := range policy {
		if strings.EqualFold(a.Name, attribute) {
			return a.Values
		}
	}
	return nil
}

// AddPolicyValue adds a value of an attribute to a policy, as append does to a slice.
func AddPolicyValue(policy []PolicyAttribute, attribute, value string) []PolicyAttribute {
	i := slices.IndexFunc(policy, func(a PolicyAttribute) bool { return a.Name == attribute })
	if i < 0 {
		i = len(policy)
		policy = append(policy, PolicyAttribute{Name: attribute})
	}
	policy[i].Values = append(policy[i].Values, value)
	return policy
}
