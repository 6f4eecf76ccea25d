package acl

import (
	"slices"
	"strings"
)

// A Reference is a name in a rule that denotes one entry: the name contains neither * nor
// a variable. The name of a group in a filter of a target is a reference too.
type Reference struct {
	Name string
	// Target means that the name is in a target of the rule, and is relative to the place of the
	// rule. If Target is not set, the name belongs to an identity that the rule is for, or to a
	// group.
	Target bool
	// Group means that the name belongs to a group in a filter of a target.
	Group bool
}

// References returns the references in a rule, in their order.
func (r *Rule) References() (all []Reference) {
	r.rename(func(ref Reference) string {
		all = append(all, ref)
		return ref.Name
	})
	return all
}

// WithNames returns the rule with the names of its references replaced, in their order.
// If the new name of a subject is "", the subject becomes nobody. If the new name of a
// group in a filter is "", the test of this group is True for no entry. If the new name of a
// target is "", the target keeps the old name.
func (r *Rule) WithNames(names []string) *Rule {
	return r.rename(func(ref Reference) (name string) {
		name, names = names[0], names[1:]
		if name == "" && ref.Target {
			return ref.Name
		}
		return name
	})
}

// rename returns the rule with the name of each reference replaced by the result of
// newName.
func (r *Rule) rename(newName func(Reference) string) *Rule {
	out := *r
	out.Who = Who{Any: renameTerms(r.Who.Any, newName), Except: renameTerms(r.Who.Except, newName)}
	if r.In != nil {
		out.In = &What{Any: renameTargets(r.In.Any, newName), Except: renameTargets(r.In.Except, newName)}
	}
	return &out
}

func renameTerms(all []Term, to func(Reference) string) []Term {
	out := make([]Term, len(all))
	for i, t := range all {
		out[i] = slices.Clone(t)
		for j, s := range t {
			if !isWhole(s.Name) {
				continue
			}
			if s.Name = to(Reference{Name: s.Name}); s.Name == "" {
				s = Subject{Kind: Nobody}
			}
			out[i][j] = s
		}
	}
	return out
}

func renameTargets(all []Target, to func(Reference) string) []Target {
	out := slices.Clone(all)
	for i := range out {
		t := &out[i]
		if isWhole(t.Pattern) {
			t.Pattern = to(Reference{Name: t.Pattern, Target: true})
		}
		if t.Filter != nil {
			t.Filter = renameGroups(t.Filter, func(name string) string { return to(Reference{Name: name, Group: true}) })
		}
	}
	return out
}

// isWhole reports whether a name is not empty and contains neither * nor a variable.
func isWhole(name string) bool { return name != "" && !strings.ContainsAny(name, "*{") }

var nameEscapes = strings.NewReplacer("*", `\2a`, "{", `\7b`)

// EscapeName escapes a name for use in a rule, so that no character of the name is read
// as * or as a variable.
func EscapeName(name string) string { return nameEscapes.Replace(name) }
