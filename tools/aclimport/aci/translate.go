package aci

import (
	"slices"
	"strings"
	"time"

	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/tools/aclimport/draft"
)

// Options say what a translation may assume.
type Options struct {
	Schema   *schema.Schema
	Dialect  Dialect
	Contexts []dn.DN        // the naming contexts; nil: not known
	Zone     *time.Location // time zone of the server; nil: not known
	// Reserved means that * in an aci includes reserved attributes. In rules, * does not
	// include them, so the translation names them.
	Reserved bool
	// Mentioned lists each reserved attribute that is named in at least one value to be
	// translated. A deny rule with * also lists these attributes.
	Mentioned []string
}

// Translate translates a value of the attribute aci in the entry with the name place.
func Translate(a *ACI, place dn.DN, o *Options) draft.Drafts {
	if a.hasMacro() {
		return translateMacro(a, place, o)
	}
	t := &translation{aci: a, place: place, o: o}
	if a.Controls != nil || a.Operations != nil {
		t.uses()
	} else {
		for i := range a.Clauses {
			t.clause(&a.Clauses[i])
		}
	}
	t.out.Settle()
	return t.out
}

// A translation is the translation of one value.
type translation struct {
	aci   *ACI
	place dn.DN
	o     *Options
	out   draft.Drafts
}

// clause translates one clause. If the bind rule depends on attributes of the entry, the
// right to add is translated separately: the attributes of a new entry
// grant nobody the right to add the entry.
func (t *translation) clause(c *Clause) {
	if c.Rights&Add != 0 && readsEntry(c.Bind) {
		adding := *c
		adding.Rights = Add
		t.rules(&adding, true)
		rest := *c
		if rest.Rights &^= Add; rest.Rights == 0 {
			return
		}
		c = &rest
	}
	t.rules(c, false)
}

// rules adds the rules of a clause.
func (t *translation) rules(c *Clause, adding bool) {
	like := acl.Rule{Name: draft.RuleName(t.aci.Name), Deny: c.Deny}
	var some bool
	if like.In, some = t.where(c.Deny); !some {
		return
	}
	b := binder{translation: t, adding: adding}
	e := b.bind(c.Bind)
	for _, p := range t.parts(c, like.In) {
		like.Parts, like.In = p.parts, p.in
		rules, notes, ok := draft.Build(e, like)
		if !ok {
			t.notTranslated(c, notes)
			return
		}
		for _, n := range notes {
			t.out.Note(draft.Near, "%s", n)
		}
		for _, r := range rules {
			t.out.Rules = append(t.out.Rules, acl.Placed{Place: t.place, Rule: r})
		}
	}
}

// notTranslated notes that a clause is not translated.
func (t *translation) notTranslated(c *Clause, notes []string) {
	for _, n := range notes {
		t.out.Note(draft.Not, "%s", n)
	}
	if c.Deny {
		t.out.More = true
		t.out.Note(draft.Not, "a denial is missing")
	}
}

// where returns the entries that the value is about. If rules cannot describe exactly
// these entries, the result is an approximation: it includes more entries if over is set,
// and fewer if over is not set. The result some is false if there are no entries.
func (t *translation) where(over bool) (what *acl.What, some bool) {
	place := &acl.What{Any: []acl.Target{{}}}
	if s := scopes[t.aci.Scope]; s != acl.Subtree {
		place.Any[0].Scope = s
	} else {
		place = nil
	}
	target := t.aci.Target
	if target == nil {
		return t.filtered(place, over), true
	}
	found, ok := t.target(target.DN, over != target.Not)
	if !ok {
		return nil, false
	}
	if target.Not {
		switch {
		case found == nil:
			return t.filtered(place, over), true
		case found.Pattern == "" && found.Scope == acl.Subtree:
			return nil, false
		}
		return t.filtered(draft.Without(place, *found), over), true
	}
	if found == nil {
		t.out.Note(draft.Exact, "its target is not below its entry, so that it is about no entry")
		return nil, false
	}
	if !t.scoped(found) {
		return nil, false
	}
	if found.Scope == acl.Subtree && found.Pattern == "" {
		return t.filtered(nil, over), true
	}
	return t.filtered(&acl.What{Any: []acl.Target{*found}}, over), true
}

var scopes = map[string]acl.Scope{"base": acl.This, "onelevel": acl.Children, "subordinate": acl.Under}

// scoped narrows a target to the targetscope of the value. It returns false if nothing is
// left.
func (t *translation) scoped(found *acl.Target) bool {
	scope := scopes[t.aci.Scope]
	switch {
	case scope == acl.Subtree:
		return true
	case isPattern(t.aci.Target.DN): // the scope is relative to the entry of the aci
		return t.scopedPattern(found, scope)
	case found.Scope != acl.Subtree:
		t.out.Note(draft.Not, "targetscope with this target")
		return false
	}
	if found.Scope = scope; scope == acl.This && found.Pattern != "" {
		found.Scope = acl.Only
	}
	return true
}

func (t *translation) scopedPattern(found *acl.Target, scope acl.Scope) bool {
	d, err := dn.Parse(found.Pattern)
	switch {
	case err == nil && scope == acl.Under && len(d) > 0:
		return true
	case err == nil && scope == acl.Children && len(d) == 1 && found.Scope == acl.Subtree:
		found.Scope = acl.Only
		return true
	case found.Scope == acl.Under && found.Pattern == "":
		found.Scope = scope
		return scope != acl.This
	case err == nil && len(d) > 1 && scope != acl.Under:
		t.out.Note(draft.Exact, "its target has no entry in its targetscope, so that it is about no entry")
		return false
	}
	t.out.Note(draft.Not, "targetscope with this target")
	return false
}

// filtered restricts a What to the entries that match the targetfilter.
func (t *translation) filtered(what *acl.What, over bool) *acl.What {
	f := t.aci.Filter
	switch {
	case f == nil:
		return what
	case f.Not:
		return draft.Without(what, acl.Target{Filter: draft.Nested(f.Filter)})
	}
	return draft.Narrow(what, draft.Nested(f.Filter))
}

// target returns the entries of a DN or a pattern, or nil if there are none. It returns
// false if rules have no words for these entries.
func (t *translation) target(text string, over bool) (*acl.Target, bool) {
	if isPattern(text) {
		return t.pattern(text, over)
	}
	d, err := dn.Parse(text)
	if err != nil {
		t.out.Note(draft.Not, "its target %q is not a DN", text)
		return nil, false
	}
	if rel, ok := draft.Relative(t.o.Schema, d, t.place); ok {
		return &acl.Target{Pattern: rel}, true
	}
	if draft.Within(t.o.Schema, t.place, d) {
		return &acl.Target{}, true
	}
	return nil, true
}

func isPattern(text string) bool { return strings.Contains(text, "*") }

// uses translates a value about controls and extended operations.
func (t *translation) uses() {
	if len(t.place) > 0 && !slices.ContainsFunc(t.o.Contexts, func(c dn.DN) bool { return draft.Same(t.o.Schema, c, t.place) }) && len(t.o.Contexts) > 0 {
		t.out.Note(draft.Not, "what may be used is the same in the whole directory")
		return
	}
	if t.aci.Target != nil || t.aci.Filter != nil || t.aci.Scope != "" {
		t.out.Note(draft.Not, "what may be used is the same for all entries")
		return
	}
	part := acl.Part{Rights: acl.Use}
	for _, oid := range slices.Concat(t.aci.Controls, t.aci.Operations) {
		part.Attributes = append(part.Attributes, acl.Attribute{Description: oid})
	}
	for i := range t.aci.Clauses {
		c := &t.aci.Clauses[i]
		if c.Rights&(Read|Write) == 0 {
			continue
		}
		b := binder{translation: t}
		rules, notes, ok := draft.Build(b.bind(c.Bind), acl.Rule{Name: draft.RuleName(t.aci.Name), Deny: c.Deny, Parts: []acl.Part{part}})
		ok = ok && !slices.ContainsFunc(rules, dependsOnEntry)
		if !ok {
			t.notTranslated(c, append(notes, "what may be used does not depend on entries"))
			continue
		}
		for _, n := range notes {
			t.out.Note(draft.Near, "%s", n)
		}
		for _, r := range rules {
			t.out.Rules = append(t.out.Rules, acl.Placed{Rule: r})
		}
	}
}

// dependsOnEntry reports whether a rule depends on the entry: it is for identities such as
// self, or it applies only to some entries.
func dependsOnEntry(r *acl.Rule) bool {
	return r.In != nil || slices.ContainsFunc(slices.Concat(r.Who.Any, r.Who.Except), func(t acl.Term) bool {
		return slices.ContainsFunc(t, func(s acl.Subject) bool {
			return slices.Contains([]acl.SubjectKind{acl.Self, acl.Its, acl.ItsParent, acl.ItsParents, acl.ItsSuperior, acl.Same}, s.Kind)
		})
	})
}
