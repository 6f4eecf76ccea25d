// Package referrers finds the entries that name given entries: for a person, the groups with
// the person as a member.
package referrers

import (
	"context"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/internal/search"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// A Referrer is an entry that names another entry in a value.
type Referrer = search.Referrer

// Names remembers the names of referrers, for many calls of Of about one state. The zero Names
// remembers nothing yet.
type Names = search.Names

// Of returns the entries that have one of the names as a value of one of the types, sorted by
// ID. If an entry has several of the names as values, or one name under several types, the
// result contains a Referrer for each combination of name and type.
//
// Of looks up the names in the indexes of the types. If there are types without an index, Of
// makes one search of all entries for these types. If most is not 0, that search examines at
// most this many entries. The cost of the search is added to the argument cost.
//
// If known is not nil, the result is valid until the next call with it.
func Of(ctx context.Context, s *partition.Snapshot, names []*dn.Name, types []*schema.AttributeType, most int, cost *partition.Cost, known *Names) ([]Referrer, error) {
	return search.Referrers(ctx, s.State(), names, types, most, cost, known)
}

// Ahead reads together what calls of Of about each of the names need from the indexes of the types,
// and remembers it in known until the next call of Ahead. On HBase, this saves round trips.
func Ahead(ctx context.Context, s *partition.Snapshot, names []*dn.Name, types []*schema.AttributeType, known *Names) error {
	return search.Ahead(ctx, s.State(), names, types, known)
}

// NamedUnder returns those of the types under which an entry has a name as a value, under any
// options. It returns no types if the entry does not exist.
//
// Callers should set fill, unless they look up many names once. NamedUnder then keeps what it reads
// from the indexes of the types, so that the name is found faster the next time, in this entry and
// in others.
func NamedUnder(ctx context.Context, s *partition.Snapshot, id entry.ID, types []*schema.AttributeType, name *dn.Name, fill bool) ([]*schema.AttributeType, error) {
	return search.NamedUnder(ctx, s.State(), id, types, name, fill)
}
