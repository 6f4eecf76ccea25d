package acl

import (
	"fmt"
	"slices"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/schema"
)

// A lever is a property that a rule depends on. An identity that can write the property
// can decide to which identities or entries the rule applies.
type lever struct {
	rule  *compiled
	types []*schema.AttributeType
	at    []target // the entries that contain the property; nil: any entries
	what  string
	// The field account means that the lever is the ability to bind as an account. If it is
	// set, the field at contains the accounts. An empty list then means that there are no
	// accounts.
	account bool
}

// lifts returns findings about the rules that let identities write a lever of a rule.
func (s *Set) lifts(m members) (found []Finding, err error) {
	levers, err := s.levers(m)
	for _, l := range levers {
		for _, r := range s.rules {
			if l.isFor(r) {
				found = append(found, Finding{r.Placed, fmt.Sprintf("lets %s change whom or what %s is for: %s", r.Rule.Who, l.rule.Label(), l.what)})
			}
		}
	}
	return found, err
}

// isFor reports whether r lets identities write the lever. It returns false if r also lets
// these identities manage all targets of the lever's rule: then they have all rights on the
// targets even without the lever. If the lever is the ability to bind as an account, isFor also
// returns false for the lever's own rule, and for a rule about the identities' own entries.
func (l *lever) isFor(r *compiled) bool {
	if l.account && (r == l.rule || r.isOwn() || len(l.at) == 0) {
		return false
	}
	return r.neverHolds() == "" && (r.writes(l.types) || l.account && r.actsAs()) && !r.manages(l.rule.in) && l.isWithin(r)
}

// isWithin reports whether r may apply to entries that contain the lever.
func (l *lever) isWithin(r *compiled) bool {
	return l.at == nil || slices.ContainsFunc(l.at, func(t target) bool {
		return slices.ContainsFunc(r.in, func(o target) bool { return !t.apart(&o) })
	})
}

// manages reports whether the rule lets identities manage all entries of the targets.
func (c *compiled) manages(in []target) bool {
	return c.Rule.manages() && all(in, func(t target) bool {
		return slices.ContainsFunc(c.in, func(o target) bool { return o.filter == nil && t.within(&o) })
	})
}

// levers returns the levers of all rules, except the rules for which neverHolds returns a
// reason.
func (s *Set) levers(m members) (levers []lever, err error) {
	for _, r := range s.rules {
		if r.neverHolds() != "" {
			continue
		}
		for _, t := range slices.Concat(r.in, r.notIn) {
			if t.filter != nil {
				levers = append(levers, lever{r, typesOf(t.filter.filter), []target{{scope: t.scope, base: t.base}}, "it looks at " + t.filter.String(), false})
				for _, group := range t.filter.groups {
					l, err := s.groupNamed(r, group, "it looks at "+t.filter.String(), m)
					if err != nil {
						return nil, err
					}
					levers = append(levers, l)
				}
			}
		}
		for _, sub := range slices.Concat(slices.Concat(r.who, r.except)...) {
			some, err := s.leversOf(r, &sub, m)
			if err != nil {
				return nil, err
			}
			levers = append(levers, some...)
		}
		if r.Rule.Deny {
			continue
		}
		l, err := s.accounts(r, m)
		if err != nil {
			return nil, err
		}
		levers = append(levers, l)
	}
	return levers, nil
}

// leversOf returns the levers of one subject of a rule.
func (s *Set) leversOf(r *compiled, sub *subject, m members) (levers []lever, err error) {
	switch sub.Kind {
	case Below:
		if sub.filter != nil {
			levers = append(levers, lever{r, typesOf(sub.filter), []target{{scope: Under, base: sub.name}}, "it looks at " + sub.filter.String(), false})
		}
	case Group:
		l, err := s.groups(r, sub, m)
		return []lever{l}, err
	case Its:
		levers = append(levers, lever{r, s.schema.Subtypes(sub.typ), r.in, "it is for " + sub.String(), false})
	case ItsParents, Same:
		levers = append(levers, lever{r, s.schema.Subtypes(sub.typ), nil, "it is for " + sub.String(), false})
	}
	return levers, nil
}

// GroupTypes are the attributes whose values are the members of groups.
var GroupTypes = []string{"member", "uniqueMember"}

// MemberURL is the attribute whose values are the searches for the members of dynamic
// groups.
const MemberURL = "memberURL"

func typesOf(f filter.Resolved) (types []*schema.AttributeType) {
	for test := range filter.Tests(f) {
		types = append(types, test.Types...)
	}
	return types
}

// members is a function that returns the members of a group, including the members of
// groups in the group.
type members func(group string) ([]dn.DN, error)

// The method "of" returns the targets that include exactly the members of a group, or nil if the
// name of the group is a pattern.
func (m members) of(k compiler, sub *subject) (all []target, err error) {
	if sub.name.isOpen() {
		return nil, nil
	}
	names, err := m(sub.Name)
	if err != nil {
		return nil, err
	}
	return each(names, func(name dn.DN) (target, error) {
		base, err := k.literal(name)
		return target{scope: Only, base: base}, err
	})
}

// accounts returns the lever of the accounts that a rule is for. An identity that can
// write the password of an account, or act as the account, has the rights of the account.
func (s *Set) accounts(r *compiled, m members) (l lever, err error) {
	l = lever{rule: r, account: true, what: "they may act as an account that it is for, or write its password"}
	for _, t := range s.reserved {
		if t.Secret() {
			l.types = append(l.types, t)
		}
	}
	for _, sub := range slices.Concat(r.who...) {
		switch sub.Kind {
		case Named:
			l.at = append(l.at, target{scope: Only, base: sub.name})
		case Group:
			all, err := m.of(compiler{schema: s.schema}, &sub)
			if err != nil {
				return l, err
			}
			l.at = append(l.at, all...)
		}
	}
	return l, nil
}

// groupNamed returns the lever of a group in which a filter of a rule tests membership.
func (s *Set) groupNamed(r *compiled, group, what string, m members) (l lever, err error) {
	sub := subject{Subject: Subject{Kind: Group, Name: EscapeName(group)}}
	if sub.name, err = parsePattern(sub.Name, s.schema); err != nil {
		return l, err
	}
	l, err = s.groups(r, &sub, m)
	l.what = what
	return l, err
}

// groups returns the lever of a group that a rule is for: the attributes that determine the
// members of the group and of its nested groups. Every member counts as a nested group.
func (s *Set) groups(r *compiled, sub *subject, m members) (l lever, err error) {
	l = lever{rule: r, at: []target{{scope: Only, base: sub.name}}, what: "it is for the members of " + quote(sub.Name)}
	for _, name := range append([]string{MemberURL}, GroupTypes...) {
		if t := s.schema.Attribute(name); t != nil {
			l.types = append(l.types, s.schema.Subtypes(t)...)
		}
	}
	all, err := m.of(compiler{schema: s.schema}, sub)
	l.at = append(l.at, all...)
	return l, err
}

// isOwn reports whether the rule lets identities access only their own entries.
func (c *compiled) isOwn() bool {
	return all(c.who, func(t term) bool { return slices.ContainsFunc(t, func(s subject) bool { return s.Kind == Self }) })
}

// actsAs reports whether the rule allows identities to act as other entries.
func (c *compiled) actsAs() bool {
	return !c.Rule.Deny && slices.ContainsFunc(c.parts, func(p part) bool { return p.rights&Proxy != 0 })
}
