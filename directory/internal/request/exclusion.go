package request

import (
	"github.com/seed-4dac0d86/ldapd/ldap/control"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
)

// exclusions are the pairs of controls that exclude each other, besides those that are refused
// with a result of their own: paged results with a view (checkVLV), a transaction with other
// identities (package write), and what the session of a branch excludes too (Enter). A pair is
// refused even if none of its controls is critical. All other pairs are served.
var exclusions = makeExclusions([][]string{
	{control.OIDSyncRequest, control.OIDPagedResults, control.OIDSortRequest, control.OIDVLVRequest, control.OIDAt, control.OIDEffectiveRights, control.OIDExplain, control.OIDPersistentSearch},
	{control.OIDPersistentSearch, control.OIDPagedResults, control.OIDSortRequest, control.OIDVLVRequest, control.OIDAt, control.OIDEffectiveRights, control.OIDExplain},
	{control.OIDAt, control.OIDEffectiveRights, control.OIDAccountUsable},
	{control.OIDNoOp, control.OIDToken},
	{control.OIDNoOp12, control.OIDToken},
})

// makeExclusions returns the pairs of the first control of each list with the others.
func makeExclusions(lists [][]string) (all []controlSet) {
	for _, list := range lists {
		for _, b := range list[1:] {
			all = append(all, controlOf(list[0]).set()|controlOf(b).set())
		}
	}
	return all
}

// check returns an error if two controls of the set exclude each other.
func (s controlSet) check() error {
	if s&(s-1) == 0 {
		return nil // there are no two controls
	}
	for _, pair := range exclusions {
		if s&pair == pair {
			return pair.refusal()
		}
	}
	return nil
}

// refusal returns the error for a pair of controls that exclude each other.
func (s controlSet) refusal() error {
	var names []any
	for i := range supported {
		if s&(1<<i) != 0 {
			names = append(names, ControlText(supported[i].oid))
		}
	}
	return op.Errorf(op.UnwillingToPerform, "controls %s and %s exclude each other", names...)
}
