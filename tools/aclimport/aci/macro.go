package aci

import (
	"regexp"
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/tools/aclimport/draft"
)

// hasMacro reports whether the target of a value contains ($dn). The macro ($dn) stands
// for a part of the entry's name. If a bind rule contains ($dn) too, it stands there for
// the same part.
func (a *ACI) hasMacro() bool {
	return a.Target != nil && strings.Contains(strings.ToLower(a.Target.DN), "($dn)")
}

// macroTypes are the attribute types of the RDNs that ($dn) stands for.
var macroTypes = []string{"dc", "o", "ou"}

// A marker stands before and after the name of a variable in a DN until the rule is made.
const marker = "\uE0F5"

// translateMacro translates a value whose target contains ($dn), which stands for a part of
// the entry's name. The translation assumes that the part is one RDN. For each attribute
// type that the RDN may have, the result has a rule with the variable {t} for the RDN's
// value. No rule covers a part of several RDNs.
func translateMacro(a *ACI, place dn.DN, o *Options) draft.Drafts {
	var out draft.Drafts
	if slices.ContainsFunc(a.Clauses, func(c Clause) bool { return c.Deny }) || a.Target.Not ||
		a.Filter != nil && strings.Contains(a.Filter.Filter.String(), "$dn") {
		out.Note(draft.Not, "($dn) in a denial, after != or in a filter")
		out.More = true
		return out
	}
	for _, typ := range macroTypes {
		t := &translation{aci: a.withMacro(typ + "=" + marker + "t" + marker), place: place, o: o}
		for i := range t.aci.Clauses {
			t.clause(&t.aci.Clauses[i])
		}
		out.Class = max(out.Class, t.out.Class)
		out.Notes = append(out.Notes, t.out.Notes...)
		for _, r := range t.out.Rules {
			out.Rules = append(out.Rules, draft.WithVariables(r, marker)...)
		}
	}
	slices.Sort(out.Notes)
	out.Notes = slices.Compact(out.Notes)
	out.Note(draft.Near, "($dn) is one RDN of %s", strings.Join(macroTypes, ", "))
	out.Settle()
	return out
}

// withMacro returns the value with ($dn) and [$dn] replaced by the given RDN.
func (a *ACI) withMacro(rdn string) *ACI {
	out := *a
	out.Target = &Target{DN: replaceMacro(a.Target.DN, rdn)}
	out.Clauses = slices.Clone(a.Clauses)
	for i := range out.Clauses {
		out.Clauses[i].Bind = bindWith(out.Clauses[i].Bind, rdn)
	}
	return &out
}

var macro = regexp.MustCompile(`(?i)\(\$dn\)|\[\$dn\]`)

func replaceMacro(s, rdn string) string { return macro.ReplaceAllLiteralString(s, rdn) }

func bindWith(b Bind, rdn string) Bind {
	switch b := b.(type) {
	case *And:
		return &And{bindWith(b.Left, rdn), bindWith(b.Right, rdn)}
	case *Or:
		return &Or{bindWith(b.Left, rdn), bindWith(b.Right, rdn)}
	case *Not:
		return &Not{bindWith(b.Bind, rdn)}
	}
	k := *b.(*Keyword)
	k.Values = slices.Clone(k.Values)
	for i := range k.Values {
		k.Values[i] = replaceMacro(k.Values[i], rdn)
	}
	return &k
}
