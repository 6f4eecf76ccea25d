package catalog

import (
	"slices"

	"github.com/seed-4dac0d86/ldapd/schema"
)

// A Concern is the part of a schema change that existing entries could violate.
type Concern struct {
	Old, New *Types
	// Fixed contains the types that no entry may have values of, because of the way in which
	// the schema change alters them. Each value of the map is the reason.
	Fixed map[*schema.AttributeType]string
	// Single contains the types that become single-valued, each with the reason.
	Single map[*schema.AttributeType]string
	// Classes are the classes whose entries are checked against the new schema. Gone contains
	// the classes that no entry may have any more, each with the reason.
	Classes []*schema.ObjectClass
	Gone    map[*schema.ObjectClass]string
	Secrets bool
}

func NewConcern(old, new *Types) *Concern {
	c := &Concern{Old: old, New: new,
		Fixed: map[*schema.AttributeType]string{}, Single: map[*schema.AttributeType]string{}, Gone: map[*schema.ObjectClass]string{}}
	d := old.Schema.Differences(new.Schema)
	for i := range d.Types {
		c.typeChanged(&d.Types[i])
	}
	c.syntaxesChanged()
	for i := range d.Classes {
		c.classChanged(&d.Classes[i])
	}
	c.reexamine(d.ContentRules)
	if len(d.NameForms)+len(d.StructureRules) > 0 {
		// The rule that governs an entry also matters for the entries below it.
		for _, f := range c.New.Schema.NameForms() {
			c.reexamine([]*schema.ObjectClass{f.Class})
		}
	}
	return c
}

// reexamine adds classes to c.Classes, so that their entries are checked against the new
// schema.
func (c *Concern) reexamine(classes []*schema.ObjectClass) {
	for _, k := range classes {
		if o := c.Old.Schema.Class(k.OID); o != nil && !slices.Contains(c.Classes, o) {
			c.Classes = append(c.Classes, o)
		}
	}
}

func (c *Concern) Empty() bool {
	return len(c.Fixed)+len(c.Single)+len(c.Gone)+len(c.Classes) == 0
}

// typeChanged records a change of a type that entries with values of the type could violate.
// Most of these changes alter the names and positions under which values are stored, or the
// keys by which values are found.
func (c *Concern) typeChanged(d *schema.TypeDifference) {
	if d.Old == nil {
		return
	}
	name := d.Old.Name()
	var why string
	switch {
	case d.New == nil:
		why = "they have attribute " + name + ", which is removed"
	case d.Names || d.New.Name() != name:
		why = "they have attribute " + name + ", whose names change"
	case d.Sup:
		why = "they have attribute " + name + ", whose supertype changes"
	case d.Syntax:
		why = "they have attribute " + name + ", whose syntax changes"
	case d.Equality:
		why = "they have attribute " + name + ", whose equality rule changes; only an export, imported into a store with the new definition, can change it"
	case d.Collective, d.Usage, d.Secret:
		why = "they have attribute " + name + ", which becomes another kind of attribute"
	case d.SingleValue:
		c.Single[d.Old] = "they have several values of attribute " + name + ", which becomes single-valued"
		c.Secrets = c.Secrets || d.Old.Secret()
		return
	default:
		return
	}
	c.fix(d.Old, why)
}

func (c *Concern) fix(t *schema.AttributeType, why string) {
	if c.Fixed[t] == "" {
		c.Fixed[t] = why
		c.Secrets = c.Secrets || t.Secret()
	}
}

// syntaxesChanged records the types whose syntax has the same OID but a new definition.
func (c *Concern) syntaxesChanged() {
	olds := DefinitionsOf(c.Old.Schema)
	for _, text := range c.New.Schema.Definitions("ldapSyntaxes") {
		k := KeyOfDefinition(schema.Definition{Attribute: "ldapSyntaxes", Text: text})
		if olds[k] == text || olds[k] == "" {
			continue
		}
		for _, t := range c.Old.Schema.Attributes() {
			if t.Syntax.OID == k.Oid {
				c.fix(t, "they have attribute "+t.Name()+", whose syntax changes")
			}
		}
	}
}

func (c *Concern) classChanged(d *schema.ClassDifference) {
	switch {
	case d.Old == nil:
	case d.New == nil:
		c.Gone[d.Old] = "they have the object class " + d.Old.Name() + ", which is removed"
	case d.Names:
		c.Gone[d.Old] = "they are of the object class " + d.Old.Name() + ", which loses a name"
	default:
		c.Classes = append(c.Classes, d.Old)
	}
}
