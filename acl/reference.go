package acl

import (
	"slices"
	"strings"
)

// A Reference is a name in a rule that stands for one entry: it is not open.
type Reference struct {
	Name   string
	Target bool // of entries that the rule is about, relative to its place; otherwise of somebody that it is for
}

// References returns the names in a rule that stand for one entry.
func (r *Rule) References() (all []Reference) {
	r.rename(func(ref Reference) string {
		all = append(all, ref)
		return ref.Name
	})
	return all
}

// WithNames returns the rule with other names for its references, in their order. A
// subject without a name is nobody; a target without one keeps its own.
func (r *Rule) WithNames(names []string) *Rule {
	return r.rename(func(ref Reference) (name string) {
		name, names = names[0], names[1:]
		if name == "" && ref.Target {
			return ref.Name
		}
		return name
	})
}

// rename returns the rule with the names that a function returns for its references.
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

// isWhole reports whether a name is there and not open.
func isWhole(name string) bool { return name != "" && !strings.ContainsAny(name, "*{") }

var nameEscapes = strings.NewReplacer("*", `\2a`, "{", `\7b`)

// EscapeName returns a name as rules have one of which nothing is open.
func EscapeName(name string) string { return nameEscapes.Replace(name) }
