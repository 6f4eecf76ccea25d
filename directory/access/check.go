package access

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// Check returns findings about the rules in s. It reports rules that never apply, rules
// without effect, rules that name entries that do not exist, and rules that let identities
// change to which identities or entries other rules apply. The state s must be the newest
// state.
func Check(ctx context.Context, s *partition.Snapshot) ([]acl.Finding, error) {
	set, err := NewRules().Set(ctx, s)
	if err != nil {
		return nil, err
	}
	found, err := set.Check(func(group string) ([]dn.DN, error) { return membersOf(ctx, s, group) })
	if err != nil {
		return nil, err
	}
	for _, rule := range s.Catalog.Access.Rules {
		gone, err := missingTargets(ctx, s, rule)
		if err != nil {
			return nil, err
		}
		found = append(found, gone...)
	}
	return found, nil
}

// missingTargets returns the targets of the rule that name no entry, as findings.
func missingTargets(ctx context.Context, s *partition.Snapshot, rule partition.AccessRule) (found []acl.Finding, err error) {
	p, err := place(ctx, s, rule)
	if err == errGone {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, ref := range p.Rule.References() {
		if !ref.Target {
			continue
		}
		id, err := refersTo(ctx, p, ref, s.Find)
		if err != nil && !errors.Is(err, errNoEntry) {
			return nil, err
		}
		if id == entry.Root {
			found = append(found, acl.Finding{Rule: p, Text: fmt.Sprintf("is about %q, and there is no such entry", ref.Name)})
		}
	}
	return found, nil
}

// membersOf returns the members of a group, including the members of nested groups. It stops
// when it has found at least maxGroups members.
func membersOf(ctx context.Context, s *partition.Snapshot, group string) (members []dn.DN, err error) {
	seen := map[entry.ID]bool{}
	name, err := dn.Parse(group)
	for next := []dn.DN{name}; len(next) > 0 && err == nil && len(members) < maxGroups; next = next[1:] {
		var found []dn.DN
		found, err = directMembers(ctx, s, next[0], seen)
		members, next = append(members, found...), append(next, found...)
	}
	return members, err
}

// directMembers returns the direct members of the group with the given name. It returns no
// members if no entry has the name, or if the map seen already contains the entry. Otherwise
// it adds the entry to the map.
func directMembers(ctx context.Context, s *partition.Snapshot, name dn.DN, seen map[entry.ID]bool) (members []dn.DN, err error) {
	at, err := s.Find(ctx, name)
	if partition.Is(err, partition.NoSuchEntry) || seen[at.ID] {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	seen[at.ID] = true
	types := MemberTypes(s.Schema())
	read := types
	if t := s.Schema().Attribute(acl.MemberURL); t != nil {
		read = append(read, t)
	}
	e, err := s.Some(ctx, at.ID, read)
	if err != nil || e == nil {
		return nil, err
	}
	for m, err := range dynamicMembers(ctx, s, e) {
		if err != nil || len(members) == maxGroups {
			return members, err
		}
		members = append(members, m)
	}
	for _, t := range types {
		for _, a := range e.Attributes {
			if a.Type != t {
				continue
			}
			for _, v := range a.Values {
				if m, err := dn.Parse(string(v)); err == nil {
					members = append(members, m)
				}
			}
		}
	}
	return members, nil
}
