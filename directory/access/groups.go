package access

import (
	"context"
	"fmt"
	"slices"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/search"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// maxGroups is the largest number of groups that an identity may be in. It also limits how many
// members of a group Check considers.
const maxGroups = 10000

// A closure is the set of groups that an identity is in, directly or through other
// groups.
type closure struct {
	groups []dn.DN
	// The field through contains, for each group, the index of the nested group through which
	// the identity is a member. The index is -1 if the identity is a direct member.
	through []int
	// asked are the values that were looked up to find the groups.
	asked []sameEntries
}

// sameEntries is a result of [state.SameEntries].
type sameEntries func(s *partition.Snapshot, since uint64) bool

// A Membership is a group that an identity is in, with the path to the group.
type Membership struct {
	Group dn.DN
	// Through are the groups between the identity and Group. The identity is a direct
	// member of the first group in Through.
	Through []dn.DN
}

// memberships returns the groups of c, each with its path.
func (c *closure) memberships() []Membership {
	all := make([]Membership, len(c.groups))
	for i, g := range c.groups {
		all[i].Group = g
		if t := c.through[i]; t >= 0 {
			all[i].Through = append(slices.Clone(all[t].Through), c.groups[t])
		}
	}
	return all
}

// The method "same" reports whether the groups of the identity are the same in two states: the
// state s, and the state with the ordinal since.
func (c *closure) same(s *partition.Snapshot, since uint64) bool {
	return !slices.ContainsFunc(c.asked, func(same sameEntries) bool { return !same(s, since) })
}

// groupsOf finds the groups of an identity through the indexes of member attributes. It
// searches for the groups that contain the identity, then for the groups that contain those
// groups, and so on. So the work grows with the number of groups of the identity, and not with
// the number of their members. The parameter dynamic contains the dynamic groups that the
// identity is in.
func groupsOf(ctx context.Context, s *partition.Snapshot, name *dn.Name, dynamic []partition.Located) (*closure, error) {
	c := &closure{}
	seen := map[entry.ID]bool{}
	types := MemberTypes(s.Schema())
	names := []*dn.Name{name}
	for _, g := range dynamic {
		group, err := g.Name.DN()
		if err != nil {
			return nil, err
		}
		seen[g.ID] = true
		c.groups, c.through, names = append(c.groups, group), append(c.through, -1), append(names, g.Name)
	}
	for n := 0; n < len(names); n++ {
		f := c.isMember(s.Schema(), types, names[n])
		q := partition.Query{Base: entry.Root, Scope: op.WholeSubtree, Filter: f, Only: []*schema.AttributeType{}}
		for found, err := range search.Search(ctx, s, q) {
			if err != nil {
				return nil, err
			}
			if seen[found.ID] {
				continue
			}
			seen[found.ID] = true
			group, err := found.Name.DN()
			if err != nil {
				return nil, err
			}
			if len(c.groups) == maxGroups {
				return nil, fmt.Errorf("%s is in more than %d groups", name, maxGroups)
			}
			c.groups, c.through = append(c.groups, group), append(c.through, n-1)
			names = append(names, found.Name)
		}
	}
	return c, nil
}

// isMember returns a filter that matches the groups with a given member, and adds the
// values that the filter tests to c.asked.
func (c *closure) isMember(sch *schema.Schema, types []*schema.AttributeType, name *dn.Name) filter.Resolved {
	var either []filter.Resolved
	for _, t := range types {
		test, ok := filter.Resolve(filter.EqualTo(t.OID, name.String()), sch).(*filter.Test)
		if !ok {
			continue
		}
		either = append(either, test)
		for _, sub := range test.Types {
			c.asked = append(c.asked, state.SameEntries(sub, test.Key))
		}
	}
	return filter.MakeOr(either...)
}

// isIn reports whether the entry with a name is a member of a group. If group is nil, isIn
// reports whether the entry is a member of any group. If nested is set, members of groups in
// the group count as members. Members that a group has only by its URLs do not count. The work
// grows with the number of groups that the entry is in, and not with the size of a group.
func isIn(ctx context.Context, s *partition.Snapshot, name, group dn.DN, nested bool) (bool, error) {
	if group != nil && !nested {
		return isDirectly(ctx, s, name, group)
	}
	c, err := groupsOf(ctx, s, dn.NameOf(name), nil)
	if err != nil || group == nil {
		return err == nil && len(c.groups) > 0, err
	}
	return slices.ContainsFunc(c.groups, func(g dn.DN) bool { return same(s.Schema(), g, group) }), nil
}

// isDirectly reports whether a group names an entry as a member.
func isDirectly(ctx context.Context, s *partition.Snapshot, name, group dn.DN) (bool, error) {
	at, err := s.Find(ctx, group)
	if partition.Is(err, partition.NoSuchEntry) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	// A rule is tested for all entries that a search finds, so nothing is added to the cache.
	under, err := search.NamedUnder(ctx, s, at.ID, MemberTypes(s.Schema()), dn.NameOf(name), false)
	return len(under) > 0, err
}
