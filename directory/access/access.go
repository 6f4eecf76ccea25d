// Package access prepares the access rules of a directory: it reads the rules and the
// groups of identities from snapshots, and compiles them into programs of package acl.
package access

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/bounded"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// Rules caches the access rules in force, compiled with the schema in force. It also
// caches identities.
type Rules struct {
	inForce atomic.Pointer[inForce]
	askers  bounded.Cache[entry.ID, *Who] // the keys are the ids of the identities' entries
	nobody  Who                           // the anonymous identity, if the rules do not depend on its connection
	past    bounded.Cache[pastKey, *pastWords]
	dynamic atomic.Pointer[DynamicGroups]

	lastPast atomic.Pointer[pastWords]
}

// maxAskers is the maximum number of identities that Rules caches.
const maxAskers = 1 << 14

// NewRules returns an empty cache.
func NewRules() *Rules {
	return &Rules{
		askers: bounded.New[entry.ID, *Who](maxAskers, nil),
		past:   bounded.New[pastKey, *pastWords](maxPast, nil),
	}
}

// Who returns the identity with the given name and entry. It caches identities because
// many of them bind again and again.
func (r *Rules) Who(name *dn.Name, id entry.ID) *Who {
	if id == entry.Root {
		return &Who{Name: name}
	}
	if w, ok := r.askers.Get(id); ok {
		return w
	}
	w := &Who{Name: name, ID: id}
	r.askers.Set(id, w)
	return w
}

// inForce is a set of compiled rules, with the data that decide whether the set is valid
// for a state.
type inForce struct {
	access *partition.Access
	// asOf is the ordinal of a state. The field set was compiled from this state, and its rules
	// contain the names that the entries in the field places had in this state.
	asOf    uint64
	places  []entry.ID // the places of the rules, and the entries that the rules name
	set     *acl.Set
	checked checked
}

// checked contains the ordinal of the last state for which a cached value was found to be
// valid. The check is expensive: it looks at each entry that rules name, or at each group of
// an identity. So the result is kept, and requests on the same state do not repeat the check.
type checked struct{ ordinal atomic.Uint64 }

// holds reports whether the cached value is valid in the state s. It calls the function valid,
// unless the value was last found to be valid in the same state. A state of a transaction or of
// the past has no ordinal, so for such a state holds always calls the function.
func (c *checked) holds(s *partition.Snapshot, valid func() bool) bool {
	o := s.Ordinal()
	if o != 0 && c.ordinal.Load() == o {
		return true
	}
	if !valid() {
		return false
	}
	if o != 0 {
		c.ordinal.Store(o)
	}
	return true
}

// The method "of" reports whether f holds the rules of the state s.
func (f *inForce) of(s *partition.Snapshot) bool {
	if f == nil || f.access != s.Catalog.Access {
		return false
	}
	return len(f.places) == 0 || f.checked.holds(s, func() bool {
		return s.SameNames(f.asOf) && !slices.ContainsFunc(f.places, func(id entry.ID) bool { return !s.Unchanged(id, f.asOf) })
	})
}

// Set returns the rules in force in s. The state s must be the newest state or a
// transaction's state. If the directory has never had rules, Set returns the rules of the
// profile "open".
func (r *Rules) Set(ctx context.Context, s *partition.Snapshot) (*acl.Set, error) {
	f := r.inForce.Load()
	if f.of(s) {
		return f.set, nil
	}
	f = &inForce{access: s.Catalog.Access, asOf: s.Ordinal()}
	placed, err := Placed(ctx, s)
	if err != nil {
		return nil, err
	}
	f.places = entriesOf(f.access.Rules)
	if f.set, err = acl.NewSet(s.Schema(), s.Catalog.ContextNames(), placed); err != nil {
		return nil, fmt.Errorf("access rules: %w", err)
	}
	if f.asOf != 0 {
		r.inForce.Store(f)
	}
	return f.set, nil
}

// MemberTypes returns the attributes by which static groups name their members.
func MemberTypes(s *schema.Schema) (types []*schema.AttributeType) {
	for _, name := range acl.GroupTypes {
		if t := s.Attribute(name); t != nil && t.Equality != nil {
			types = append(types, t)
		}
	}
	return types
}
