package access

import (
	"context"
	"sync/atomic"

	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// Who is an identity that makes requests. The zero Who is the anonymous identity.
type Who struct {
	Name *dn.Name
	ID   entry.ID // entry.Root: the identity has no entry

	last atomic.Pointer[answer]
}

// An answer is the program of an identity, with everything from which the program was made.
type answer struct {
	program    *acl.Program
	set        *acl.Set
	asOf       uint64
	groups     *closure
	dynamic    *DynamicGroups // nil: the rules depend on no groups
	connection acl.Connection // the properties of the connection that the rules test
	checked    checked
}

// Program returns the program of an identity on a connection: the rules in force in s,
// compiled for the identity. The state s must be the newest state or a transaction's
// state.
func (r *Rules) Program(ctx context.Context, s *partition.Snapshot, w *Who, c acl.Connection) (*acl.Program, error) {
	set, err := r.Set(ctx, s)
	if err != nil {
		return nil, err
	}
	c = set.Asked(c)
	if w.Name == nil && w.ID == entry.Root && c == (acl.Connection{}) {
		w = &r.nobody // one program for all anonymous clients
	}
	if a := w.last.Load(); a != nil && a.set == set && a.connection == c && w.same(s, a) {
		return a.program, nil
	}
	a := &answer{set: set, asOf: s.Ordinal(), connection: c}
	if set.AsksGroups() {
		if a.dynamic, err = r.Dynamic(ctx, s); err != nil {
			return nil, err
		}
	}
	id, err := w.identity(ctx, s, a)
	if err != nil {
		return nil, err
	}
	if a.program, err = set.Program(id); err != nil {
		return nil, err
	}
	if a.asOf != 0 {
		w.last.Store(a)
	}
	return a.program, nil
}

// At returns the rules that were in force in a past state s, compiled for an identity. The
// entry, name and groups of the identity are those of the state s.
func (r *Rules) At(ctx context.Context, s *partition.Snapshot, w *Who, c acl.Connection) (*acl.Program, error) {
	placed, err := PlacedAt(ctx, s)
	if err != nil {
		return nil, err
	}
	set, err := acl.NewSet(s.Schema(), s.Catalog.ContextNames(), placed)
	if err != nil {
		return nil, err
	}
	id, err := w.identity(ctx, s, &answer{set: set, connection: set.Asked(c)})
	if err != nil {
		return nil, err
	}
	return set.Program(id)
}

// The method "same" reports whether the answer a is valid in the state s: the identity's entry,
// name and groups have not changed since the answer was made.
func (w *Who) same(s *partition.Snapshot, a *answer) bool {
	if w.ID == entry.Root && len(a.groups.asked) == 0 {
		return true
	}
	return a.checked.holds(s, func() bool {
		return (w.ID == entry.Root || s.Unchanged(w.ID, a.asOf)) && s.SameNames(a.asOf) && a.groups.same(s, a.asOf) &&
			(a.dynamic == nil || a.dynamic.isOf(s))
	})
}

// identity reads the properties of an identity that rules test: its name, its entry and
// its groups.
func (w *Who) identity(ctx context.Context, s *partition.Snapshot, a *answer) (*acl.Identity, error) {
	id := &acl.Identity{Connection: a.connection}
	a.groups = &closure{}
	name := w.Name
	if w.ID != entry.Root {
		e, err := s.Entry(ctx, w.ID, false)
		if err != nil {
			return nil, err
		}
		if e == nil { // the entry was deleted after the bind: the identity is anonymous
			return id, nil
		}
		id.Entry = e
		if name, err = s.Name(ctx, w.ID); err != nil {
			return nil, err
		}
	}
	var err error
	if id.Name, err = name.DN(); err != nil {
		return nil, err
	}
	if name != nil && a.set.AsksGroups() {
		if a.groups, err = a.groupsOf(ctx, s, name, id); err != nil {
			return nil, err
		}
	}
	id.Groups = a.groups.groups
	return id, nil
}

// groupsOf finds the groups of an identity, static and dynamic ones.
func (a *answer) groupsOf(ctx context.Context, s *partition.Snapshot, name *dn.Name, id *acl.Identity) (_ *closure, err error) {
	if a.dynamic == nil {
		if a.dynamic, err = readDynamic(ctx, s); err != nil {
			return nil, err
		}
	}
	var dynamic []partition.Located
	if id.Entry != nil {
		if dynamic, err = a.dynamic.with(id.Name, id.Entry); err != nil {
			return nil, err
		}
	}
	return groupsOf(ctx, s, name, dynamic)
}
