package access

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed-4dac0d86/ldapd/acl"
	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/configure"
	"github.com/seed-4dac0d86/ldapd/schema"
)

// ErrPast reports that a state of the past cannot be judged by the present rules, because
// its schema lacks a word of a rule that denies something.
var ErrPast = errors.New("the access rules have no meaning in this state of the past")

// Past returns the rules by which an identity is judged on the entries of a past state
// then, as they were and where they were. They consist of
//   - the rules of the state now, which must be the newest. Rules are at the places, and
//     about the targets, that have the names of then. Denials are also at those that have
//     the names of now.
//   - the denials of then at entries that no longer exist.
//
// The identity and its groups are those of p, which is its program in the state now, on the
// connection c. The past shows no more than what both this program and, for entries that
// still exist, p allow.
func (r *Rules) Past(ctx context.Context, then, now *partition.Snapshot, p *acl.Program, c acl.Connection) (*acl.Program, error) {
	set, err := r.pastSet(ctx, then, now)
	if err != nil {
		return nil, err
	}
	id := p.Identity()
	id.Connection = set.Asked(c)
	if then.Schema() != p.Schema() && id.Entry != nil {
		id.Entry = inSchema(id.Entry, then.Schema())
	}
	return set.Program(&id)
}

// inSchema returns an entry with the types of another schema. It leaves out attributes
// that the schema does not define.
func inSchema(e *entry.Entry, sch *schema.Schema) *entry.Entry {
	out := &entry.Entry{ID: e.ID}
	for _, a := range e.Attributes {
		if t := sch.Attribute(a.Type.OID); t != nil {
			out.Attributes = append(out.Attributes, entry.Attribute{Type: t, Options: a.Options, Values: a.Values})
		}
	}
	return out
}

// A pastKey identifies the rules for a state of the past.
type pastKey struct {
	now  *acl.Set
	then uint64 // the revision of the state
}

// maxPast is the number of past states whose rules are cached.
const maxPast = 16

func (r *Rules) pastSet(ctx context.Context, then, now *partition.Snapshot) (*acl.Set, error) {
	set, err := r.Set(ctx, now)
	if err != nil {
		return nil, err
	}
	key := pastKey{set, uint64(then.Revision())}
	cached := then.Ordinal() == 0 && now.Ordinal() != 0
	if s, ok := r.past.GetIfPresent(key); ok && cached {
		return s, nil
	}
	placed, err := placedInPast(ctx, then, now)
	if err != nil {
		return nil, err
	}
	s, err := setOf(then, placed)
	if err == nil && cached {
		r.past.Set(key, s)
	}
	return s, err
}

// placedInPast returns the rules that Past describes.
func placedInPast(ctx context.Context, then, now *partition.Snapshot) (all []acl.Placed, err error) {
	rules := now.Access().Rules
	if rules == nil {
		if all, err = open(then.Schema()); err != nil {
			return nil, err
		}
	}
	had := map[string]bool{}
	add := func(names, who *partition.Snapshot, rule partition.AccessRule, deny bool) error {
		p, err := placeOf(ctx, names, who, rule)
		if errors.Is(err, errGone) {
			return nil
		}
		if err == nil && (p.Rule.Deny || !deny) && !had[p.String()] {
			had[p.String()] = true
			all = append(all, p)
		}
		return err
	}
	for _, rule := range rules {
		// A rule whose place is gone is not in force.
		there, err := exists(ctx, now, rule.Place)
		if err == nil && there {
			err = errors.Join(add(then, now, rule, false), add(now, now, rule, true))
		}
		if err != nil {
			return nil, err
		}
	}
	old, err := configure.AccessAt(ctx, then)
	if err != nil {
		return nil, err
	}
	for _, rule := range old {
		there, err := exists(ctx, now, rule.Place)
		if err == nil && !there {
			err = add(then, now, rule, true)
		}
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// exists reports whether a place exists in a state.
func exists(ctx context.Context, s *partition.Snapshot, place entry.ID) (bool, error) {
	if place == entry.Root {
		return true, nil
	}
	_, err := nameOf(ctx, s, place)
	if errors.Is(err, errGone) {
		return false, nil
	}
	return err == nil, err
}

// setOf compiles rules with the schema of a past state. It leaves out what a rule says of
// attributes that the schema does not define, and rules that allow something and have
// other words that it does not define.
func setOf(then *partition.Snapshot, rules []acl.Placed) (*acl.Set, error) {
	sch, contexts := then.Schema(), then.Contexts()
	if set, err := acl.NewSet(sch, contexts, rules); err == nil {
		return set, nil
	}
	var known []acl.Placed
	for _, p := range rules {
		if p.Rule = p.Rule.Known(sch); p.Rule == nil {
			continue
		}
		_, err := acl.NewSet(sch, contexts, []acl.Placed{p})
		switch {
		case err == nil:
			known = append(known, p)
		case p.Rule.Deny:
			return nil, fmt.Errorf("%w: %w", ErrPast, err)
		}
	}
	return acl.NewSet(sch, contexts, known)
}
