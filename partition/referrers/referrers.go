// Package referrers finds the entries that name given entries: for a person, the groups with
// the person as a member.
package referrers

import (
	"context"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/internal/search"
	"github.com/seed-4dac0d86/ldapd/schema"
)

// A Referrer is an entry that names another entry in a value.
type Referrer = search.Referrer

// Of returns the entries that have one of the names as a value of one of the types, sorted by
// ID. If an entry has several of the names as values, or one name under several types, the
// result contains a Referrer for each combination of name and type.
//
// Of looks up the names in the indexes of the types. If there are types without an index, Of
// makes one search of all entries for these types. If most is not 0, that search examines at
// most this many entries. The cost of the search is added to the argument cost.
func Of(ctx context.Context, s *partition.Snapshot, names []*dn.Name, types []*schema.AttributeType, most int, cost *partition.Cost) ([]Referrer, error) {
	return search.Referrers(ctx, s.State(), names, types, most, cost)
}

// Holds reports whether an entry has a name as a value of a type, under any options. Unlike
// [partition.Snapshot.Compare], Holds returns no error if the entry or the attribute does not
// exist.
func Holds(ctx context.Context, s *partition.Snapshot, id entry.ID, t *schema.AttributeType, name *dn.Name) (bool, error) {
	return s.State().Holds(ctx, id, t, name)
}
