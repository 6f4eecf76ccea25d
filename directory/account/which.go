package account

import (
	"cmp"
	"slices"
	"strings"
)

// A Holding is a policy that applies to an entry because the entry is in a subtree.
type Holding struct {
	Policy *Policy
	Depth  int // number of RDNs in the DN of the subtree's base
}

// Pick returns the holding whose policy takes precedence: the policy with the lowest
// priority. If several policies have this priority, the holding with the nearest base
// takes precedence, and then the policy whose name sorts first. Pick returns nil if there
// are no holdings.
func Pick(all []Holding) *Holding {
	if len(all) == 0 {
		return nil
	}
	h := slices.MinFunc(all, func(a, b Holding) int {
		return cmp.Or(cmp.Compare(a.Policy.Priority, b.Policy.Priority), cmp.Compare(b.Depth, a.Depth),
			strings.Compare(strings.ToLower(a.Policy.Name), strings.ToLower(b.Policy.Name)))
	})
	return &h
}
