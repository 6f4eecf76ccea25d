package acl

import "slices"

// ManagesAll reports whether the rule allows some identity to manage the whole directory,
// perhaps only under a condition.
func (p Placed) ManagesAll() bool {
	r := p.Rule
	return !r.Deny && p.isOfAll() && r.manages() && slices.ContainsFunc(r.Who.Any, func(t Term) bool {
		return !slices.ContainsFunc(t, func(s Subject) bool { return s.Kind == Nobody })
	})
}

// ManagesNothing reports whether the rule denies everyone the management of the whole
// directory.
func (p Placed) ManagesNothing() bool {
	r := p.Rule
	return r.Deny && p.isOfAll() && r.manages() && len(r.If) == 0 && len(r.Who.Except) == 0 &&
		slices.ContainsFunc(r.Who.Any, func(t Term) bool { return len(t) == 1 && t[0].Kind == Everyone })
}

// isOfAll reports whether the rule applies to all entries.
func (p Placed) isOfAll() bool { return len(p.Place) == 0 && p.Rule.In == nil }

func (r *Rule) manages() bool {
	return slices.ContainsFunc(r.Parts, func(p Part) bool { return p.Rights&Manage != 0 })
}
