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

// Entry returns an entry of a state as rules look at it. Fail takes the error of a
// parent that cannot be read.
func Entry(ctx context.Context, s *partition.Snapshot, name dn.DN, e *entry.Entry, src filter.Source, fail func(error)) *acl.Entry {
	return &acl.Entry{Name: name, Entry: e, Source: src, Parent: func() *entry.Entry {
		at, err := s.Find(ctx, name.Parent())
		if partition.Is(err, partition.NoSuchEntry) {
			return nil
		}
		var parent *entry.Entry
		if err == nil {
			parent, err = s.Entry(ctx, at.ID, false)
		}
		if err != nil {
			fail(err)
		}
		return parent
	}}
}

// A Case is somebody, an entry, and the rules that decide between them.
type Case struct {
	Program *acl.Program
	Who     dn.DN // empty: the anonymous
	Groups  []dn.DN
	zone    *acl.Zone
	entry   *acl.Entry
	err     error
}

// NewCase looks up who asks, and what about.
func (r *Rules) NewCase(ctx context.Context, s *partition.Snapshot, who, about dn.DN, c acl.Connection) (*Case, error) {
	w := &Who{}
	if len(who) > 0 {
		at, err := s.Find(ctx, who)
		if err != nil {
			return nil, fmt.Errorf("who asks: %w", err)
		}
		w.ID, w.Name = at.ID, at.Name
	}
	at, err := s.Find(ctx, about)
	if err != nil {
		return nil, err
	}
	e, err := s.Entry(ctx, at.ID, false)
	if err != nil {
		return nil, err
	}
	x := &Case{Who: who}
	if x.Program, err = r.Program(ctx, s, w, c); err != nil {
		return nil, err
	}
	if a := w.last.Load(); a != nil {
		x.Groups = a.groups.groups
	}
	src := &filter.EntrySource{Schema: s.Schema(), Entry: e, Name: about}
	x.entry = Entry(ctx, s, about, e, src, func(err error) { x.err = err })
	x.zone, err = x.Program.Zone(about.Parent())
	return x, err
}

// Explain answers a question.
func (x *Case) Explain(q acl.Question) (acl.Answer, error) {
	a := x.Program.Explain(x.zone, x.entry, q)
	return a, x.err
}
