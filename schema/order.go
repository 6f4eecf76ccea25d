package schema

import (
	"slices"
	"strings"
)

// SuperiorsFirst sorts definitions for servers that load definitions one after another.
// It sorts them by kind, and puts the superiors of a definition before the definition.
// Otherwise it keeps the given order.
func SuperiorsFirst(ds []Definition) []Definition {
	o := superiors{given: slices.Clone(ds), at: map[elementName]int{}}
	slices.SortStableFunc(o.given, func(a, b Definition) int { return o.rank(a) - o.rank(b) })
	o.parsed, o.taken = make([]*definition, len(ds)), make([]bool, len(ds))
	for i, text := range o.given {
		d, err := text.parse()
		if err != nil {
			continue // a malformed definition has no superiors and is no superior
		}
		o.parsed[i] = d
		for _, name := range append([]string{d.oid}, d.names...) {
			o.at[elementName{d.element, strings.ToLower(name)}] = i
		}
	}
	for i := range o.given {
		o.take(i)
	}
	return o.out
}

type elementName struct {
	element element
	name    string // name or OID, in lower case
}

// superiors contains the data of one call of SuperiorsFirst.
type superiors struct {
	given  []Definition
	parsed []*definition
	at     map[elementName]int
	taken  []bool
	out    []Definition
}

// kinds are the kinds of definitions. Definitions of a kind refer only to definitions of
// the same kind and of kinds before it.
var kinds = []element{ldapSyntaxes, matchingRules, attributeTypes, matchingRuleUse, objectClasses, dITContentRules, nameForms, dITStructureRules}

func (*superiors) rank(d Definition) int {
	return slices.Index(kinds, elementAliases[strings.ToLower(d.Attribute)])
}

func (o *superiors) take(i int) {
	if o.taken[i] {
		return
	}
	o.taken[i] = true
	if d := o.parsed[i]; d != nil {
		for _, sup := range d.sup {
			if j, there := o.at[elementName{d.element, strings.ToLower(sup)}]; there {
				o.take(j)
			}
		}
	}
	o.out = append(o.out, o.given[i])
}
