package schema

import (
	"slices"
	"strings"
)

// Differences are the differences between two schemas that affect existing entries, which
// conform to the old schema.
type Differences struct {
	Types   []TypeDifference
	Classes []ClassDifference
	// ContentRules, NameForms and StructureRules contain structural classes of the new schema:
	// the classes for which DIT content rules, name forms or DIT structure rules have changed.
	// A structure rule for a class affects the entries of the class and the entries
	// directly below them.
	ContentRules, NameForms, StructureRules []*ObjectClass
}

// A TypeDifference is an attribute type that was added, removed or changed. Inherited
// properties are compared; descriptions are not.
type TypeDifference struct {
	Old, New *AttributeType // Old is nil if the type was added, and New is nil if it was removed
	// Names is set if a name was removed. Each of the other fields up to Secret is set if
	// the property has changed.
	Names, Sup, Syntax, Equality, Ordering, Substr bool
	Collective, Usage, Secret                      bool
	// SingleValue and NoUserModification are set if the new type has the property and the
	// old type does not.
	SingleValue, NoUserModification bool
}

// A ClassDifference is an object class that was added, removed or changed. Properties
// from superclasses are compared too.
type ClassDifference struct {
	Old, New *ObjectClass // Old is nil if the class was added, and New is nil if it was removed
	// Must are the types that the new class requires and the old class did not require;
	// they belong to the new schema. May are the types that the old class allowed and the
	// new class does not allow; they belong to the old schema.
	Must, May []*AttributeType
	// Sup and Kind are set if the property has changed. Names is set if a name was
	// removed.
	Names, Sup, Kind bool
}

// Differences returns the differences between s, the old schema, and to, the new schema.
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

// pairs pairs the elements of two schemas by OID. An element that only one schema has is
// paired with nil.
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

// namesGone reports whether new lacks one of the names in old.
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

// attributes returns the types that c and its superclasses require, and the types that
// they require or allow.
func (c *ObjectClass) attributes() (must, all []*AttributeType) {
	for _, x := range c.closure(nil) {
		must = append(must, x.Must...)
		all = append(append(all, x.Must...), x.May...)
	}
	return must, all
}

// superiors returns the sorted OIDs of all superclasses.
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

// closure appends c and all its superclasses to a list, each only once.
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

// The function "without" returns the types of the list a whose OIDs do not occur in the list b,
// each only once.
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

// changedFor returns the structural classes of the new schema for which definitions of
// the kind e were added, removed or changed.
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
