// Package referrers finds the entries that name given entries: for a person, the groups with
// the person as a member.
package referrers

import (
	"context"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/internal/search"
	"github.com/seed-4dac0d86/ldapd/schema"
)

// A Referrer is an entry that names another entry in a value.
type Referrer = search.Referrer

// Of returns the entries that have one of the names as a value of one of the types, sorted by
// ID. An entry occurs once for each of these names and types.
//
// It looks up all names in one read of the index of a type. If types have no index, it
// searches all entries once. That search examines at most most entries, if most is not 0,
// and adds its cost to cost.
func Of(ctx context.Context, s *partition.Snapshot, names []*dn.Name, types []*schema.AttributeType, most int, cost *partition.Cost) ([]Referrer, error) {
	return search.Referrers(ctx, s.State(), names, types, most, cost)
}
