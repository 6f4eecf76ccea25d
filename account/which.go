package account

import (
	"cmp"
	"slices"
	"strings"
)

// A Holding is a policy that holds for an entry because of where the entry stands.
type Holding struct {
	Policy *Policy
	Depth  int // how many RDNs the name of the subtree's base has
}

// Pick returns the holding that counts: that of the lowest priority, then the nearest,
// then the first by name. Nil: there is none.
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
