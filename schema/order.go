package schema

import (
	"slices"
	"strings"
)

// SuperiorsFirst sorts definitions for servers that load them one after another: by kind,
// and within a kind superiors before the definitions derived from them. Otherwise it
// keeps the order.
func SuperiorsFirst(ds []Definition) []Definition {
	o := superiors{given: slices.Clone(ds), at: map[elementName]int{}}
	slices.SortStableFunc(o.given, func(a, b Definition) int { return o.rank(a) - o.rank(b) })
	o.parsed, o.taken = make([]*definition, len(ds)), make([]bool, len(ds))
	for i, text := range o.given {
		d, err := text.parse()
		if err != nil {
			continue // it has no superiors, and is none
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
	name    string // or OID, in lower case
}

// superiors is a sort in progress.
type superiors struct {
	given  []Definition
	parsed []*definition
	at     map[elementName]int
	taken  []bool
	out    []Definition
}

// kinds are the elements in an order in which each refers only to earlier ones.
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
