package draft

import (
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/filter"
)

// Build returns copies of model, which together apply where e holds. Each copy is for some of
// the identities, connections and entries for which e holds. If e contains a condition that
// rules have no words for, an allow rule applies in fewer cases than e, and a deny rule in
// more. The notes name these conditions. Build returns false in three cases: these conditions
// leave no rule; they would make a deny rule deny everyone; or e has too many combinations.
func Build(e Expr, model acl.Rule) (rules []*acl.Rule, notes []string, ok bool) {
	n := &normalizer{over: model.Deny}
	var kept []*fragment
	for _, c := range absorbed(n.conjunctions(e, false)) {
		f := newFragment(c)
		if f == nil {
			continue
		}
		if model.Deny && len(n.notes) > 0 && f.isAlways() {
			return nil, n.notes, false
		}
		i := slices.IndexFunc(kept, func(k *fragment) bool { return k.key() == f.key() })
		if i < 0 {
			kept = append(kept, f)
		} else if !slices.ContainsFunc(kept[i].terms, func(t acl.Term) bool { return t.String() == f.terms[0].String() }) {
			kept[i].terms = append(kept[i].terms, f.terms[0])
		}
	}
	if n.tooMany {
		return nil, append(n.notes, "its condition is a combination of more than 64"), false
	}
	for _, f := range kept {
		rules = append(rules, f.rule(model))
	}
	return rules, n.notes, len(rules) > 0 || len(n.notes) == 0
}

// absorbed leaves out each conjunction that contains all literals of another conjunction.
// Such a conjunction is redundant: wherever it holds, the conjunction with fewer literals
// holds too.
func absorbed(all []conjunction) (kept []conjunction) {
	texts := make([]map[string]bool, len(all))
	for i, c := range all {
		texts[i] = map[string]bool{}
		for _, l := range c {
			texts[i][l.String()] = true
		}
	}
	for i := range all {
		implied := false
		for j := range all {
			subset := j != i && len(texts[j]) <= len(texts[i])
			for text := range texts[j] {
				subset = subset && texts[i][text]
			}
			implied = implied || subset && (len(texts[j]) < len(texts[i]) || j < i)
		}
		if !implied {
			kept = append(kept, all[i])
		}
	}
	return kept
}

// A fragment describes what one or more conjunctions are about. The identities match one of
// the terms and none of the exceptions, on connections that meet all conditions. The
// entries match all of the filters and none of the notFilters.
type fragment struct {
	terms, except []acl.Term
	conditions    []acl.Condition
	filters       []filter.Filter
	notFilters    []filter.Filter
}

// newFragment returns nil for a conjunction that is never true.
func newFragment(c conjunction) *fragment {
	f := &fragment{}
	var term acl.Term
	for _, l := range c {
		switch {
		case l.If != nil:
			f.addCondition(*l.If, l.not)
		case l.Filter != nil && l.not:
			f.notFilters = appendNew(f.notFilters, l.Filter)
		case l.Filter != nil:
			f.filters = appendNew(f.filters, l.Filter)
		default:
			s, not := *l.Subject, l.not
			if not && s.Kind == acl.Users {
				s, not = acl.Subject{Kind: acl.Anonymous}, false
			} else if not && s.Kind == acl.Anonymous {
				s, not = acl.Subject{Kind: acl.Users}, false
			}
			switch {
			case s.Kind == acl.Everyone && not || s.Kind == acl.Nobody && !not:
				return nil
			case s.Kind == acl.Everyone || s.Kind == acl.Nobody:
			case not:
				f.except = appendNew(f.except, acl.Term{s})
			default:
				term = appendNew(term, s)
			}
		}
	}
	if term = simplify(term); term == nil || f.contradicts(term) {
		return nil
	}
	f.terms = []acl.Term{term}
	return f
}

// contradicts reports whether the fragment excepts a subject of a term, or has a condition
// and its negation.
func (f *fragment) contradicts(term acl.Term) bool {
	excepted := func(s acl.Subject) bool {
		return slices.ContainsFunc(f.except, func(t acl.Term) bool { return t.String() == s.String() })
	}
	negated := func(c acl.Condition) bool {
		return slices.ContainsFunc(f.conditions, func(o acl.Condition) bool {
			o.Not = !o.Not
			return o.String() == c.String()
		})
	}
	return slices.ContainsFunc(term, excepted) || slices.ContainsFunc(f.conditions, negated)
}

func (f *fragment) addCondition(c acl.Condition, not bool) {
	c.Not = c.Not != not
	f.conditions = appendNew(f.conditions, c)
}

func appendNew[T interface{ String() string }](all []T, v T) []T {
	if slices.ContainsFunc(all, func(o T) bool { return o.String() == v.String() }) {
		return all
	}
	return append(all, v)
}

// simplify returns a term without "users" if the term has other subjects, because these imply
// it. It returns nil if it finds that no identity matches all subjects.
func simplify(t acl.Term) acl.Term {
	is := func(k acl.SubjectKind) bool {
		return slices.ContainsFunc(t, func(s acl.Subject) bool { return s.Kind == k })
	}
	if len(t) == 0 {
		return acl.Term{{Kind: acl.Everyone}}
	}
	if is(acl.Anonymous) && len(t) > 1 || is(acl.Self) && slices.ContainsFunc(t, func(s acl.Subject) bool { return s.Kind == acl.ItsParent && !s.Group }) {
		return nil
	}
	if len(t) > 1 {
		t = slices.DeleteFunc(slices.Clone(t), func(s acl.Subject) bool { return s.Kind == acl.Users })
	}
	return t
}

func (f *fragment) isAlways() bool {
	return len(f.except)+len(f.conditions)+len(f.filters)+len(f.notFilters) == 0 && f.terms[0][0].Kind == acl.Everyone
}

// key returns a text of everything in the fragment except its terms.
func (f *fragment) key() string {
	var b strings.Builder
	for _, t := range f.except {
		b.WriteString("except " + t.String() + "\n")
	}
	for _, c := range f.conditions {
		b.WriteString("if " + c.String() + "\n")
	}
	for _, g := range f.filters {
		b.WriteString("in " + g.String() + "\n")
	}
	for _, g := range f.notFilters {
		b.WriteString("not in " + g.String() + "\n")
	}
	return b.String()
}

func (f *fragment) rule(model acl.Rule) *acl.Rule {
	r := model
	r.Who = acl.Who{Any: f.terms, Except: f.except}
	if slices.ContainsFunc(f.terms, func(t acl.Term) bool { return t[0].Kind == acl.Everyone }) {
		r.Who.Any = []acl.Term{{{Kind: acl.Everyone}}}
	}
	r.If = slices.Concat(model.If, f.conditions)
	for _, g := range f.filters {
		r.In = Narrow(r.In, g)
	}
	for _, g := range f.notFilters {
		r.In = Without(r.In, acl.Target{Filter: g})
	}
	return &r
}

// Narrow returns the entries of w that match a filter.
func Narrow(w *acl.What, f filter.Filter) *acl.What {
	if f == nil {
		return w
	}
	if w == nil {
		return &acl.What{Any: []acl.Target{{Filter: f}}}
	}
	out := &acl.What{Any: slices.Clone(w.Any), Except: w.Except}
	for i := range out.Any {
		out.Any[i].Filter = And(out.Any[i].Filter, f)
	}
	return out
}

// everywhere is the filter that all entries match.
var everywhere = &filter.Present{Attribute: "objectClass"}

// Without returns the entries of w that are in no target of except.
func Without(w *acl.What, except ...acl.Target) *acl.What {
	if len(except) == 0 {
		return w
	}
	out := &acl.What{}
	if w == nil {
		out.Any = []acl.Target{{Filter: everywhere}}
	} else {
		out.Any, out.Except = w.Any, slices.Clone(w.Except)
	}
	for _, t := range except {
		out.Except = appendNew(out.Except, t)
	}
	return out
}
