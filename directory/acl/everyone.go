package acl

import "slices"

// Everyone returns rights that every identity has on every entry: [Program.Always] has them whatever the
// identity is. No program is compiled, which costs as much as all the rest of a bind.
func (s *Set) Everyone() Rights { return s.everyone }

// forEveryone computes Everyone: what rules without a condition allow everyone on every entry, without
// what any rule denies.
func (s *Set) forEveryone() Rights {
	d := Decision{}
	for _, r := range s.rules {
		if r.Rule.Deny || r.isForEveryone() {
			d.rules = append(d.rules, r)
		}
	}
	allow, deny := d.onEntry()
	return allow &^ deny
}

// isForEveryone reports whether the rule applies to every identity and to every entry. It may return false
// although the rule does.
func (r *compiled) isForEveryone() bool {
	return len(r.Rule.If) == 0 && len(r.except) == 0 && len(r.notIn) == 0 &&
		slices.ContainsFunc(r.who, func(t term) bool {
			return !slices.ContainsFunc(t, func(s subject) bool { return s.Kind != Everyone })
		}) &&
		slices.ContainsFunc(r.in, func(t target) bool { return t.scope == Subtree && len(t.base) == 0 && t.filter == nil })
}
