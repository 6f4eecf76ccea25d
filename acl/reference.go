package acl

import (
	"slices"
	"strings"
)

// A Reference is a name in a rule that stands for one entry: it has no * or variable.
type Reference struct {
	Name   string
	Target bool // names entries that the rule is about, relative to its place; otherwise an identity that it is for
}

// References returns the references of a rule.
func (r *Rule) References() (all []Reference) {
	r.rename(func(ref Reference) string {
		all = append(all, ref)
		return ref.Name
	})
	return all
}

// WithNames returns the rule with other names for its references, in their order. A
// subject whose name is "" becomes nobody; a target whose name is "" keeps its own.
func (r *Rule) WithNames(names []string) *Rule {
	return r.rename(func(ref Reference) (name string) {
		name, names = names[0], names[1:]
		if name == "" && ref.Target {
			return ref.Name
		}
		return name
	})
}

// rename returns the rule with its references replaced by the results of a function.
func (r *Rule) rename(to func(Reference) string) *Rule {
	out := *r
	out.Who = Who{Any: renameTerms(r.Who.Any, to), Except: renameTerms(r.Who.Except, to)}
	if r.In != nil {
		out.In = &What{Any: renameTargets(r.In.Any, to), Except: renameTargets(r.In.Except, to)}
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
		if t := &out[i]; isWhole(t.Pattern) {
			t.Pattern = to(Reference{Name: t.Pattern, Target: true})
		}
	}
	return out
}

// isWhole reports whether a name is not empty and has no * or variable.
func isWhole(name string) bool { return name != "" && !strings.ContainsAny(name, "*{") }

var nameEscapes = strings.NewReplacer("*", `\2a`, "{", `\7b`)

// EscapeName escapes a name for a rule, so that it has no * or variable.
func EscapeName(name string) string { return nameEscapes.Replace(name) }
