package access

import (
	"context"
	"fmt"

	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// An Entry is the entry that a decision is about, in one state. An Entry also reads the other
// entries that the decision depends on. Set makes an Entry stand for another entry.
type Entry struct {
	asked acl.Entry
	ctx   context.Context
	state *partition.Snapshot
	err   error
}

// Set makes x stand for the entry e, which has the given name in the state s.
func (x *Entry) Set(ctx context.Context, s *partition.Snapshot, name dn.DN, e *entry.Entry, src filter.Source) *acl.Entry {
	*x = Entry{acl.Entry{Name: name, Entry: e, Source: src, Others: x}, ctx, s, nil}
	return &x.asked
}

// Err returns an error if one of the other entries could not be read. Decisions about x are
// then invalid.
func (x *Entry) Err() error { return x.err }

// Parent implements acl.Others.
func (x *Entry) Parent() *entry.Entry {
	at, err := x.state.Find(x.ctx, x.asked.Name.Parent())
	if partition.Is(err, partition.NoSuchEntry) {
		return nil
	}
	var parent *entry.Entry
	if err == nil {
		parent, err = x.state.Entry(x.ctx, at.ID, false)
	}
	x.note(err)
	return parent
}

// InGroup implements acl.Others.
func (x *Entry) InGroup(group dn.DN, nested bool) bool {
	in, err := isIn(x.ctx, x.state, x.asked.Name, group, nested)
	x.note(err)
	return in
}

func (x *Entry) note(err error) {
	if err != nil {
		x.err = err
	}
}

// A Case is an identity, an entry, and the access rules that decide what the identity may
// do with the entry.
type Case struct {
	*Somebody
	zone  *acl.Zone
	asked Entry
	entry *acl.Entry
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
	x.entry = x.asked.Set(ctx, s, target, e, src)
	x.zone, err = x.Program.Zone(target.Parent())
	return x, err
}

// Explain answers a question about the identity and the entry of the case.
func (x *Case) Explain(q acl.Question) (acl.Answer, error) {
	a := x.Program.Explain(x.zone, x.entry, q)
	return a, x.asked.Err()
}
