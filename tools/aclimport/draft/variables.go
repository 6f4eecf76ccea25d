package draft

import (
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/directory/acl"
)

// WithVariables replaces each text between two markers in the names of a rule by a
// variable such as {t}. It divides the terms of the rule into groups with the same
// variables, and returns one rule for each group. If a target contains a variable that
// the terms of its group do not contain, this variable becomes *.
func WithVariables(p acl.Placed, marker string) (all []acl.Placed) {
	in := func(t acl.Term) (names []string) {
		for _, s := range t {
			for _, n := range between(s.Name, marker) {
				if !slices.Contains(names, n) {
					names = append(names, n)
				}
			}
		}
		slices.Sort(names)
		return names
	}
	for _, t := range p.Rule.Who.Except {
		if in(t) != nil {
			return nil // an exception cannot determine the value of a variable
		}
	}
	var kinds []string
	for _, t := range p.Rule.Who.Any {
		if !bound(p.Rule, in(t), marker) {
			continue
		}
		if k := strings.Join(in(t), " "); !slices.Contains(kinds, k) {
			kinds = append(kinds, k)
		}
	}
	for _, kind := range kinds {
		r := *p.Rule
		r.Who.Any = nil
		for _, t := range p.Rule.Who.Any {
			if strings.Join(in(t), " ") != kind {
				continue
			}
			t = slices.Clone(t)
			for i := range t {
				t[i].Name = replaceBetween(t[i].Name, marker, func(n string) string { return "{" + variable(n) + "}" })
			}
			r.Who.Any = append(r.Who.Any, t)
		}
		known := strings.Fields(kind)
		r.In = valuesFor(r.In, marker, func(s string) string {
			return replaceBetween(s, marker, func(n string) string {
				if slices.Contains(known, n) {
					return "{" + variable(n) + "}"
				}
				return "*"
			})
		})
		all = append(all, acl.Placed{Place: p.Place, Rule: &r})
	}
	return all
}

// BindsVariables reports whether each target of a rule contains all variables in the rule's
// subjects. WithVariables leaves out each term with a variable that a target lacks.
func BindsVariables(r *acl.Rule, marker string) bool {
	for _, t := range r.Who.Any {
		for _, s := range t {
			if !bound(r, between(s.Name, marker), marker) {
				return false
			}
		}
	}
	return true
}

func bound(r *acl.Rule, names []string, marker string) bool {
	for _, n := range names {
		has := func(t acl.Target) bool { return slices.Contains(between(t.Pattern, marker), n) }
		if r.In == nil || slices.ContainsFunc(r.In.Any, func(t acl.Target) bool { return !has(t) }) {
			return false
		}
	}
	return true
}

// variable returns the name of the variable with the number n: t for 1, t2 for 2, and so
// on.
func variable(n string) string {
	if n == "1" {
		return "t"
	}
	if strings.Trim(n, "0123456789") == "" {
		return "t" + n
	}
	return n
}

func between(s, marker string) (all []string) {
	parts := strings.Split(s, marker)
	for i := 1; i < len(parts); i += 2 {
		all = append(all, parts[i])
	}
	return all
}

func replaceBetween(s, marker string, to func(string) string) string {
	parts := strings.Split(s, marker)
	for i := 1; i < len(parts); i += 2 {
		parts[i] = to(parts[i])
	}
	return strings.Join(parts, "")
}

func valuesFor(w *acl.What, marker string, to func(string) string) *acl.What {
	if w == nil {
		return nil
	}
	out := &acl.What{Any: slices.Clone(w.Any), Except: slices.Clone(w.Except)}
	for i := range out.Any {
		out.Any[i].Pattern = to(out.Any[i].Pattern)
	}
	for i := range out.Except { // an exception holds for every value of the variable
		out.Except[i].Pattern = replaceBetween(out.Except[i].Pattern, marker, func(string) string { return "*" })
	}
	return out
}
