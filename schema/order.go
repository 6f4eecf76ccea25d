package schema

import (
	"slices"
	"strings"
)

// SuperiorsFirst sorts definitions for servers that load definitions one after another.
// It sorts them by kind, and puts the superiors of a definition before the definition.
// Otherwise it keeps the given order.
func SuperiorsFirst(ds []Definition) []Definition {
	given := slices.Clone(ds)
	rank := func(d Definition) int {
		return slices.Index(kinds, elementAliases[strings.ToLower(d.Attribute)])
	}
	slices.SortStableFunc(given, func(a, b Definition) int { return rank(a) - rank(b) })
	parsed := make([]*definition, len(given))
	for i, text := range given {
		parsed[i], _ = text.parse() // a malformed definition has no superiors and is no superior
	}
	out := make([]Definition, 0, len(given))
	for _, i := range superiorsFirst(parsed) {
		out = append(out, given[i])
	}
	return out
}

// superiorsFirst returns the indexes of definitions in an order in which the superiors of a
// definition come before the definition. Otherwise it keeps the given order. A definition may
// be nil.
func superiorsFirst(ds []*definition) []int {
	o := superiors{given: ds, at: make(map[elementName]int, 2*len(ds)), taken: make([]bool, len(ds))}
	for i, d := range ds {
		if d == nil {
			continue
		}
		for _, name := range append([]string{d.oid}, d.names...) {
			o.at[elementName{d.element, strings.ToLower(name)}] = i
		}
	}
	for i := range ds {
		o.take(i)
	}
	return o.out
}

type elementName struct {
	element element
	name    string // name or OID, in lower case
}

// superiors contains the data of one call of superiorsFirst.
type superiors struct {
	given []*definition
	at    map[elementName]int
	taken []bool
	out   []int
}

// kinds are the kinds of definitions. Definitions of a kind refer only to definitions of
// the same kind and of kinds before it.
var kinds = []element{ldapSyntaxes, matchingRules, attributeTypes, matchingRuleUse, objectClasses, dITContentRules, nameForms, dITStructureRules}

func (o *superiors) take(i int) {
	if o.taken[i] {
		return
	}
	o.taken[i] = true
	if d := o.given[i]; d != nil {
		for _, sup := range d.sup {
			if j, there := o.at[elementName{d.element, strings.ToLower(sup)}]; there {
				o.take(j)
			}
		}
	}
	o.out = append(o.out, i)
}
