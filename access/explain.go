package access

import (
	"context"
	"fmt"

	"github.com/seed-4dac0d86/ldapd/acl"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/partition"
)

// Entry returns an entry of a state as an acl.Entry. If other entries on which a decision
// depends cannot be read, fail is called with the error.
func Entry(ctx context.Context, s *partition.Snapshot, name dn.DN, e *entry.Entry, src filter.Source, fail func(error)) *acl.Entry {
	x := &struct {
		acl.Entry
		others
	}{acl.Entry{Name: name, Entry: e, Source: src}, others{ctx, s, name, fail}}
	x.Entry.Others = &x.others
	return &x.Entry
}

// others are the entries around an entry with a name, in a state.
type others struct {
	ctx   context.Context
	state *partition.Snapshot
	name  dn.DN
	fail  func(error)
}

// Parent implements acl.Others.
func (o *others) Parent() *entry.Entry {
	at, err := o.state.Find(o.ctx, o.name.Parent())
	if partition.Is(err, partition.NoSuchEntry) {
		return nil
	}
	var parent *entry.Entry
	if err == nil {
		parent, err = o.state.Entry(o.ctx, at.ID, false)
	}
	if err != nil {
		o.fail(err)
	}
	return parent
}

// InGroup implements acl.Others.
func (o *others) InGroup(group dn.DN, nested bool) bool {
	in, err := isIn(o.ctx, o.state, o.name, group, nested)
	if err != nil {
		o.fail(err)
	}
	return in
}

// A Case is an identity, an entry, and the access rules that decide what the identity may
// do with the entry.
type Case struct {
	*Somebody
	zone  *acl.Zone
	entry *acl.Entry
	err   error
}

// Somebody is an identity on a connection, with its compiled access rules.
type Somebody struct {
	Program *acl.Program
	Name    dn.DN    // empty for the anonymous identity
	ID      entry.ID // entry.Root for the anonymous identity
	Groups  []Membership
}

// Somebody looks up the identity with the given name. An empty name is the anonymous
// identity.
func (r *Rules) Somebody(ctx context.Context, s *partition.Snapshot, who dn.DN, c acl.Connection) (*Somebody, error) {
	w := &Who{}
	if len(who) > 0 {
		at, err := s.Find(ctx, who)
		if err != nil {
			return nil, fmt.Errorf("who asks: %w", err)
		}
		w.ID, w.Name = at.ID, at.Name
	}
	x := &Somebody{Name: who, ID: w.ID}
	var err error
	if x.Program, err = r.Program(ctx, s, w, c); err != nil || w.ID == entry.Root {
		return x, err
	}
	id := x.Program.Identity()
	groups, err := (&answer{}).groupsOf(ctx, s, w.Name, &id)
	if err != nil {
		return nil, err
	}
	x.Groups = groups.memberships()
	return x, nil
}

// NewCase looks up the identity and the entry with the given names.
func (r *Rules) NewCase(ctx context.Context, s *partition.Snapshot, who, target dn.DN, c acl.Connection) (*Case, error) {
	at, err := s.Find(ctx, target)
	if err != nil {
		return nil, err
	}
	e, err := s.Entry(ctx, at.ID, false)
	if err != nil {
		return nil, err
	}
	somebody, err := r.Somebody(ctx, s, who, c)
	if err != nil {
		return nil, err
	}
	x := &Case{Somebody: somebody}
	src := &filter.EntrySource{Schema: s.Schema(), Entry: e, Name: target}
	x.entry = Entry(ctx, s, target, e, src, func(err error) { x.err = err })
	x.zone, err = x.Program.Zone(target.Parent())
	return x, err
}

// Explain answers a question about the identity and the entry of the case.
func (x *Case) Explain(q acl.Question) (acl.Answer, error) {
	a := x.Program.Explain(x.zone, x.entry, q)
	return a, x.err
}
