package judge

import (
	"context"

	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// A past makes decisions about the entries of a past state. For an entry that still exists,
// the requester has only the rights that the rules grant both on the past entry and on the
// present entry. The requester also needs the right to read the entry's past.
type past struct {
	program *acl.Program        // decides about the past entries: see access.Rules.Past
	now     *partition.Snapshot // the state of the Judge's program
	always  *acl.Decision
}

// MayReadPast returns ErrAccess if no access rule grants the requester the right to read the
// past of any entry.
func (j *Judge) MayReadPast() error {
	if !j.unrestricted && (j.program == nil || !j.program.Somewhere(acl.Past)) {
		return j.Refuse(j.Everywhere(), acl.Question{Right: acl.Past})
	}
	return nil
}

// ReadPast makes the Judge decide about a past state. The program p must come from
// access.Rules.Past, and the argument now must be the state for which the Judge's own
// program was made.
func (j *Judge) ReadPast(p *acl.Program, now *partition.Snapshot) {
	j.last, j.decision = nil, nil
	j.past = &past{p, now, readable(acl.Both(p.Always(), j.program.Always()))}
}

// IsPast reports whether the Judge decides about a past state. Decisions about a past state
// also depend on the newest state, so they may change although the program stays the same.
func (j *Judge) IsPast() bool { return j.past != nil }

// readable returns a decision if it contains the right to read the past, and otherwise a
// decision without any rights.
func readable(d *acl.Decision) *acl.Decision {
	if !d.Entry(acl.Past) {
		return acl.Nothing
	}
	return d
}

// readsAll reports whether the requester may read the past of every entry.
func (p *past) readsAll() bool { return p.program.ReadsAll() && p.always.Entry(acl.Past) }

func (p *past) decide(ctx context.Context, j *Judge, name dn.DN, e *entry.Entry, src filter.Source) (*acl.Decision, error) {
	if p.program.Schema() != j.schema || j.program.Schema() != p.now.Schema() {
		return nil, errRules
	}
	was, err := j.decide(ctx, p.program, j.state, name, e, src)
	if err != nil {
		return nil, err
	}
	if e.ID == entry.Root { // the entry is not stored
		return readable(was), nil
	}
	is, err := p.decideNow(ctx, j, e.ID)
	switch {
	case err != nil:
		return nil, err
	case is == nil:
		return readable(was), nil
	}
	return readable(acl.Both(was, is)), nil
}

// decideNow returns the decision about the present entry, or nil if the entry no longer
// exists.
func (p *past) decideNow(ctx context.Context, j *Judge, id entry.ID) (*acl.Decision, error) {
	e, err := p.now.Some(ctx, id, j.program.Types())
	if err != nil || e == nil {
		return nil, err
	}
	name, err := nameOf(ctx, p.now, id)
	if err != nil {
		return nil, err
	}
	return j.decide(ctx, j.program, p.now, name, e, &filter.EntrySource{Schema: p.now.Schema(), Entry: e, Name: name})
}

func nameOf(ctx context.Context, s *partition.Snapshot, id entry.ID) (dn.DN, error) {
	n, err := s.Name(ctx, id)
	if err != nil {
		return nil, err
	}
	return n.DN()
}
