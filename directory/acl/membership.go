package acl

import (
	"fmt"
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/schema"
)

// An entryFilter is a filter of a target. The filter may test memberOf and isMemberOf. No
// entry stores values of these attributes: their values are computed from the members of
// groups.
type entryFilter struct {
	filter filter.Resolved
	text   string
	// groups are the groups in which the filter tests membership, spelled as in the rule.
	// asksGroups is set if the filter tests membership in one of these groups. It is also set if
	// the filter tests whether the entry is in any group at all.
	groups     []string
	asksGroups bool
	// ofClasses is set if the filter tests only the object classes of the entry.
	ofClasses bool
}

func (f *entryFilter) String() string { return f.text }

// holds reports whether the filter is True for an entry.
func (f *entryFilter) holds(e *Entry) bool {
	if f.asksGroups {
		return f.filter.Match(&withGroups{e.Source, e}) == filter.True
	}
	return f.filter.Match(e.Source) == filter.True
}

// withGroups is the source of an entry whose groups a filter tests.
type withGroups struct {
	filter.Source
	entry *Entry
}

// EntryName returns the DN of the entry.
func (s *withGroups) EntryName() dn.DN { return s.entry.Name }

// membershipTypes are the computed attributes that filters of targets may test, by their
// names in lower case and by their OIDs.
var membershipTypes = []string{"memberof", "1.2.840.113556.1.2.102", "ismemberof", "1.3.6.1.4.1.42.2.27.9.1.792"}

// groupOf returns the name of the group if the filter f tests membership in one group.
// Otherwise ok is false.
func groupOf(f filter.Filter) (group string, ok bool) {
	e, ok := f.(*filter.Equal)
	if !ok || !slices.Contains(membershipTypes, strings.ToLower(e.Attribute)) {
		return "", false
	}
	return string(e.Value), true
}

// renameGroups returns a copy of a filter. In the copy, each group has the name that newName
// returns for its name in the filter. A group with the name "" has been deleted, and has no
// members.
func renameGroups(f filter.Filter, newName func(string) string) filter.Filter {
	return filter.MapLeaves(f, func(leaf filter.Filter) filter.Filter {
		if group, ok := groupOf(leaf); ok && group != "" {
			return filter.EqualTo(leaf.(*filter.Equal).Attribute, newName(group))
		}
		return leaf
	})
}

// namesGone reports whether the filter tests membership in a group that no longer exists.
func namesGone(f filter.Filter) bool {
	for leaf := range filter.Leaves(f) {
		if group, ok := groupOf(leaf); ok && group == "" {
			return true
		}
	}
	return false
}

// entryFilter resolves a filter of a target.
func (k compiler) entryFilter(f filter.Filter) (*entryFilter, error) {
	r, err := k.resolve(f)
	if err != nil {
		return nil, err
	}
	out := &entryFilter{text: r.String(), ofClasses: k.testsOnlyClasses(r)}
	out.filter = filter.Map(r, func(t *filter.Test) filter.Resolved {
		changed, e := out.test(t)
		if e != nil {
			err = fmt.Errorf("the filter %s %w", f, e)
		}
		return changed
	})
	return out, err
}

// testsOnlyClasses reports whether a filter depends on nothing but values of objectClass.
func (k compiler) testsOnlyClasses(f filter.Resolved) bool {
	classes := k.schema.Attribute("objectClass")
	for t := range filter.Tests(f) {
		if t.DNAttrs || len(t.Asks()) != 1 || t.Types[0] != classes {
			return false
		}
	}
	return true
}

// test replaces a test of membership by a test that asks the entry for its groups.
func (out *entryFilter) test(t *filter.Test) (filter.Resolved, error) {
	if err := mustBeStored(t, membership); err != nil {
		return t, err
	}
	if len(t.Types) != 1 || !membership(t.Types[0]) {
		return t, nil
	}
	out.asksGroups = true
	nested := t.Types[0].Name() == "isMemberOf"
	switch f := t.Asked().(type) {
	case *filter.Present:
		return t.Computed(func(e filter.Source) bool { return e.(*withGroups).entry.inGroup(nil, nested) }), nil
	case *filter.Equal:
		if len(f.Value) == 0 {
			return filter.Const(filter.False), nil
		}
		group, err := dn.Parse(string(f.Value))
		if err == nil && t.Options == "" {
			out.groups = append(out.groups, string(f.Value))
			return t.Computed(func(e filter.Source) bool { return e.(*withGroups).entry.inGroup(group, nested) }), nil
		}
	}
	return t, fmt.Errorf("is never true: of %s it can test whether there is a value, or one value", t.Types[0].Name())
}

func membership(t *schema.AttributeType) bool {
	return t.Name() == "memberOf" || t.Name() == "isMemberOf"
}

// inGroup reports whether the entry is a member of a group. If group is nil, inGroup reports
// whether the entry is a member of any group.
func (e *Entry) inGroup(group dn.DN, nested bool) bool {
	return e.Others != nil && e.Others.InGroup(group, nested)
}
