package account

import (
	"cmp"
	"slices"
	"strings"
)

// A Holding is a policy that applies to an entry because of the entry's place.
type Holding struct {
	Policy *Policy
	Depth  int // number of RDNs in the name of the subtree's base
}

// Pick returns the holding that takes precedence: the lowest priority, then the nearest,
// then the first by name. It returns nil if there is none.
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
