package schema

import (
	"slices"
	"strings"
)

// Differences are what a change of schema means for the entries there are, which
// were right by the old one. Lists are in the order of definition.
type Differences struct {
	Types   []TypeDifference
	Classes []ClassDifference
	// ContentRules, NameForms and StructureRules have the structural classes, of
	// the new schema, for which these rules are others than before. A structure
	// rule also concerns what is directly below entries of its class.
	ContentRules, NameForms, StructureRules []*ObjectClass
}

// A TypeDifference is one attribute type added, removed or changed, what it
// inherits included. Changes of text alone are none.
type TypeDifference struct {
	Old, New *AttributeType // nil: added, removed
	// What is not the same any more.
	Names, Sup, Syntax, Equality, Ordering, Substr bool
	Collective, Usage, Secret                      bool
	// SingleValue and NoUserModification are set if the type has become so.
	SingleValue, NoUserModification bool
}

// A ClassDifference is one object class added, removed or changed, its
// superclasses included.
type ClassDifference struct {
	Old, New *ObjectClass // nil: added, removed
	// Must are the types required now and not before; May those that are not
	// allowed any more. Must are of the new schema, May of the old one.
	Must, May []*AttributeType
	// What is not the same any more. Names is set if one has gone.
	Names, Sup, Kind bool
}

// Differences returns what changes from s to another schema.
func (s *Schema) Differences(to *Schema) Differences {
	var d Differences
	for _, p := range pairs(s.attributes, to.attributes, s.attributeBy, to.attributeBy, func(t *AttributeType) string { return t.OID }) {
		if x, is := typeDifference(p.old, p.new); is {
			d.Types = append(d.Types, x)
		}
	}
	for _, p := range pairs(s.classes, to.classes, s.classBy, to.classBy, func(c *ObjectClass) string { return c.OID }) {
		if x, is := classDifference(p.old, p.new); is {
			d.Classes = append(d.Classes, x)
		}
	}
	d.ContentRules = changedFor(s, to, dITContentRules, func(of *Schema, x *definition) string { return x.oid })
	d.NameForms = changedFor(s, to, nameForms, func(of *Schema, x *definition) string { return x.class })
	d.StructureRules = changedFor(s, to, dITStructureRules, func(of *Schema, x *definition) string {
		return of.NameForm(x.form).def.class
	})
	return d
}

type pair[T any] struct{ old, new *T }

// pairs puts what has the same OID side by side.
func pairs[T any](olds, news []*T, oldBy, newBy lookup[T], oid func(*T) string) []pair[T] {
	var ps []pair[T]
	for _, x := range olds {
		ps = append(ps, pair[T]{x, newBy[oid(x)]})
	}
	for _, x := range news {
		if oldBy[oid(x)] == nil {
			ps = append(ps, pair[T]{nil, x})
		}
	}
	return ps
}

func typeDifference(old, new *AttributeType) (TypeDifference, bool) {
	d := TypeDifference{Old: old, New: new}
	if old == nil || new == nil {
		return d, true
	}
	none := d
	d.Names = namesGone(old.Names, new.Names)
	d.Sup = typeOID(old.Sup) != typeOID(new.Sup)
	d.Syntax = old.Syntax.OID != new.Syntax.OID
	d.Equality = ruleOID(old.Equality) != ruleOID(new.Equality)
	d.Ordering = ruleOID(old.Ordering) != ruleOID(new.Ordering)
	d.Substr = ruleOID(old.Substr) != ruleOID(new.Substr)
	d.Collective = old.Collective != new.Collective
	d.Usage = old.Usage != new.Usage
	d.Secret = old.secret != new.secret
	d.SingleValue = !old.SingleValue && new.SingleValue
	d.NoUserModification = !old.NoUserModification && new.NoUserModification
	return d, d != none
}

func typeOID(t *AttributeType) string {
	if t == nil {
		return ""
	}
	return t.OID
}

func ruleOID(r *MatchingRule) string {
	if r == nil {
		return ""
	}
	return r.OID
}

// namesGone reports whether one of the old names is not among the new ones.
func namesGone(old, new []string) bool {
	return slices.ContainsFunc(old, func(o string) bool {
		return !slices.ContainsFunc(new, func(n string) bool { return strings.EqualFold(n, o) })
	})
}

func classDifference(old, new *ObjectClass) (ClassDifference, bool) {
	d := ClassDifference{Old: old, New: new}
	if old == nil || new == nil {
		return d, true
	}
	oldMust, oldAll := old.attributes()
	newMust, newAll := new.attributes()
	d.Must = without(newMust, oldMust)
	d.May = without(oldAll, newAll)
	d.Names = namesGone(old.Names, new.Names)
	d.Sup = !slices.Equal(old.superiors(), new.superiors())
	d.Kind = old.Kind != new.Kind
	return d, len(d.Must) > 0 || len(d.May) > 0 || d.Names || d.Sup || d.Kind
}

// attributes lists what c and its superclasses require, and what they require or
// allow.
func (c *ObjectClass) attributes() (must, all []*AttributeType) {
	for _, x := range c.closure(nil) {
		must = append(must, x.Must...)
		all = append(append(all, x.Must...), x.May...)
	}
	return must, all
}

// superiors lists the OIDs of all superclasses, sorted.
func (c *ObjectClass) superiors() []string {
	var oids []string
	for _, x := range c.closure(nil) {
		if x != c {
			oids = append(oids, x.OID)
		}
	}
	slices.Sort(oids)
	return oids
}

// closure appends c and its superclasses to what is there, each once.
func (c *ObjectClass) closure(to []*ObjectClass) []*ObjectClass {
	if slices.Contains(to, c) {
		return to
	}
	to = append(to, c)
	for _, s := range c.Sup {
		to = s.closure(to)
	}
	return to
}

// without lists the types of a, each once, whose OIDs none of b has.
func without(a, b []*AttributeType) []*AttributeType {
	var out []*AttributeType
	for _, t := range a {
		same := func(x *AttributeType) bool { return x.OID == t.OID }
		if !slices.ContainsFunc(b, same) && !slices.ContainsFunc(out, same) {
			out = append(out, t)
		}
	}
	return out
}

// changedFor lists the structural classes, as the new schema has them, for
// which definitions of a kind were added, removed or changed.
func changedFor(old, new *Schema, e element, class func(*Schema, *definition) string) []*ObjectClass {
	var out []*ObjectClass
	note := func(of *Schema, d *definition) {
		if c := new.Class(of.Class(class(of, d)).OID); c != nil && !slices.Contains(out, c) {
			out = append(out, c)
		}
	}
	each := func(s, other *Schema) {
		for _, d := range s.definitions {
			if d.element != e {
				continue
			}
			if o := other.definition(e, d.oid); o == nil || s.essence(d) != other.essence(o) {
				note(s, d)
			}
		}
	}
	each(old, new)
	each(new, old)
	return out
}
