package partition

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/schema"
)

// maxNamed is how many of the entries that a schema would violate are named.
const maxNamed = 5

// judge finds out whether the entries of a snapshot, whose schema is the one that
// changes, conform to the other one too. What the change concerns tells where to
// look: entries of the classes that change or that allow the types that do. An
// index of objectClass or of the type finds them, or finds that there are none;
// else they are scanned.
func (c *concern) judge(ctx context.Context, s *Snapshot) error {
	if c.empty() {
		return nil
	}
	var names []string
	wrong, n := "", 0
	q := Query{Base: root, Scope: op.WholeSubtree, Filter: filter.Resolve(c.filter(), s.catalog.schema), Secrets: c.secrets}
	for r, err := range s.Search(ctx, q) {
		if err != nil {
			return err
		}
		text, err := c.violation(ctx, s, r)
		if err != nil {
			return err
		}
		if text == "" {
			continue
		}
		if n++; n == 1 {
			wrong = text
		}
		if n <= maxNamed {
			names = append(names, r.Name)
		}
	}
	if n == 0 {
		return nil
	}
	of := "is"
	if n > maxNamed {
		of = fmt.Sprintf("are, of %d in all", n)
	} else if n > 1 {
		of = "are"
	}
	return problem(Unwilling, "entries of the directory are against this: %s. In the way %s: %s", wrong, of, strings.Join(names, "; "))
}

// A concern is what of a change of schema can be against the entries there are.
type concern struct {
	old, new *types
	// fixed are types that cannot change as they do while an entry has them,
	// and why.
	fixed map[*schema.AttributeType]string
	// single are types of which an entry may have one value only from now on.
	single map[*schema.AttributeType]string
	// classes are those whose entries must conform to the new schema; gone ones
	// that no entry may have, and why.
	classes []*schema.ObjectClass
	gone    map[*schema.ObjectClass]string
	secrets bool
}

func newConcern(old, new *types) *concern {
	c := &concern{old: old, new: new,
		fixed: map[*schema.AttributeType]string{}, single: map[*schema.AttributeType]string{}, gone: map[*schema.ObjectClass]string{}}
	d := old.schema.Differences(new.schema)
	for i := range d.Types {
		c.typeChanged(&d.Types[i])
	}
	c.syntaxesChanged()
	for i := range d.Classes {
		c.classChanged(&d.Classes[i])
	}
	c.reexamine(d.ContentRules)
	if len(d.NameForms)+len(d.StructureRules) > 0 {
		// What governs an entry decides over those below it.
		for _, f := range c.new.schema.NameForms() {
			c.reexamine([]*schema.ObjectClass{f.Class})
		}
	}
	return c
}

// reexamine has the entries of classes checked.
func (c *concern) reexamine(classes []*schema.ObjectClass) {
	for _, k := range classes {
		if o := c.old.schema.Class(k.OID); o != nil && !slices.Contains(c.classes, o) {
			c.classes = append(c.classes, o)
		}
	}
}

func (c *concern) empty() bool {
	return len(c.fixed)+len(c.single)+len(c.gone)+len(c.classes) == 0
}

// typeChanged notes what a type in use must not lose: the names and the
// positions that its values are stored by, the keys that they are found by.
func (c *concern) typeChanged(d *schema.TypeDifference) {
	if d.Old == nil {
		return
	}
	name := d.Old.Name()
	var why string
	switch {
	case d.New == nil:
		why = "they have attribute " + name + ", which goes"
	case d.Names || d.New.Name() != name:
		why = "they have attribute " + name + ", whose names change"
	case d.Sup:
		why = "they have attribute " + name + ", whose supertype changes"
	case d.Syntax:
		why = "they have attribute " + name + ", whose syntax changes"
	case d.Equality:
		why = "they have attribute " + name + ", whose equality rule changes"
	case d.Collective, d.Usage, d.Secret:
		why = "they have attribute " + name + ", which becomes another kind of attribute"
	case d.SingleValue:
		c.single[d.Old] = "they have several values of attribute " + name + ", which becomes single-valued"
		c.secrets = c.secrets || d.Old.Secret()
		return
	default:
		return
	}
	c.fix(d.Old, why)
}

func (c *concern) fix(t *schema.AttributeType, why string) {
	if c.fixed[t] == "" {
		c.fixed[t] = why
		c.secrets = c.secrets || t.Secret()
	}
}

// syntaxesChanged notes the types whose syntax is another one by the same OID.
func (c *concern) syntaxesChanged() {
	olds := definitionsOf(c.old.schema)
	for _, text := range c.new.schema.Definitions("ldapSyntaxes") {
		k := keyOfDefinition(schema.Definition{Attribute: "ldapSyntaxes", Text: text})
		if olds[k] == text || olds[k] == "" {
			continue
		}
		for _, t := range c.old.schema.Attributes() {
			if t.Syntax.OID == k.oid {
				c.fix(t, "they have attribute "+t.Name()+", whose syntax changes")
			}
		}
	}
}

func (c *concern) classChanged(d *schema.ClassDifference) {
	switch {
	case d.Old == nil:
	case d.New == nil:
		c.gone[d.Old] = "they are of the object class " + d.Old.Name() + ", which goes"
	case d.Names:
		c.gone[d.Old] = "they are of the object class " + d.Old.Name() + ", which loses a name"
	default:
		c.classes = append(c.classes, d.Old)
	}
}

// filter matches all entries that the change may be against, and others.
func (c *concern) filter() filter.Filter {
	var all filter.Or
	for _, k := range c.classes {
		all = append(all, ofClass(k))
	}
	for k := range c.gone {
		all = append(all, ofClass(k))
	}
	// Types that the same classes allow are looked for together.
	together := map[string]filter.Or{}
	classes := map[string]filter.Or{}
	for _, t := range slices.AppendSeq(slices.Collect(maps.Keys(c.fixed)), maps.Keys(c.single)) {
		in, key := c.havers(t)
		classes[key] = in
		together[key] = append(together[key], presence(t))
	}
	for key, in := range classes {
		if key == "" {
			all = append(all, together[key]...)
			continue
		}
		all = append(all, filter.And{in, together[key]})
	}
	return all
}

func ofClass(c *schema.ObjectClass) filter.Filter {
	return &filter.Equal{Attribute: "objectClass", Value: []byte(c.OID)}
}

// presence is a test for a type's values; there is none for secret ones.
func presence(t *schema.AttributeType) filter.Filter {
	if t.Secret() {
		return filter.And{}
	}
	return &filter.Present{Attribute: t.OID}
}

// havers gives the classes whose entries may have a type, and a key for the set
// of them; none if any entry may.
func (c *concern) havers(t *schema.AttributeType) (in filter.Or, key string) {
	if t.Operational() {
		return nil, ""
	}
	add := func(k *schema.ObjectClass) {
		in = append(in, ofClass(k))
		key += k.OID + " "
	}
	add(c.old.extensibleObject)
	for _, k := range c.old.schema.Classes() {
		if slices.Contains(k.Must, t) || slices.Contains(k.May, t) {
			add(k)
		}
	}
	for _, r := range c.old.schema.ContentRules() {
		if r.Allows(t) {
			add(r.Class)
		}
	}
	return in, key
}

// violation tells how an entry is against the change; "" if it is not.
func (c *concern) violation(ctx context.Context, s *Snapshot, r *Result) (string, error) {
	for i := range r.Entry.Attributes {
		a := &r.Entry.Attributes[i]
		if why := c.fixed[a.Type]; why != "" {
			return why, nil
		}
		if why := c.single[a.Type]; why != "" && len(a.Values) > 1 {
			return why, nil
		}
	}
	checked, values := false, r.Entry.Values(c.old.objectClass)
	for _, v := range values {
		k := c.old.schema.Class(string(v))
		if k == nil {
			continue
		}
		if why := c.gone[k]; why != "" {
			return why, nil
		}
		checked = checked || slices.Contains(c.classes, k)
	}
	if !checked {
		return "", nil
	}
	return asText(c.conforms(ctx, s, r, values))
}

// asText tells what an *Error says from errors of the store.
func asText(err error) (string, error) {
	if p, ok := err.(*Error); ok {
		return p.Text, nil
	}
	return "", err
}

// conforms checks an entry by the new schema.
func (c *concern) conforms(ctx context.Context, s *Snapshot, r *Result, values [][]byte) error {
	cs, err := c.new.classesOf(values)
	if err != nil {
		return err
	}
	if err := c.sameClasses(r.Entry, cs, values); err != nil {
		return err
	}
	var has []*schema.AttributeType
	for i := range r.Entry.Attributes {
		if t := c.new.schema.Attribute(r.Entry.Attributes[i].Type.OID); t != nil {
			has = append(has, t)
		}
	}
	if err := cs.conform(has); err != nil {
		return err
	}
	return c.governed(ctx, s, r, cs)
}

// sameClasses checks that the entry names all superclasses, and that its
// structural class stays what it is: both are stored with it.
func (c *concern) sameClasses(e *entry.Entry, cs *classes, values [][]byte) error {
	oc := c.new.objectClass
	for _, k := range cs.all {
		key, err := keyOf(oc, []byte(k.Name()))
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(values, func(v []byte) bool {
			held, err := keyOf(oc, v)
			return err == nil && bytes.Equal(held, key)
		}) {
			return problem(ClassViolation, "they are not of the object class %s, which becomes a superclass of theirs", k.Name())
		}
	}
	for _, v := range e.Values(c.old.structuralObjectClass) {
		if c.new.schema.Class(string(v)) != cs.structural {
			return problem(ClassViolation, "their structural object class would become %s", cs.structural.Name())
		}
	}
	return nil
}

// governed checks an entry's name and place, and that of those right below it.
func (c *concern) governed(ctx context.Context, s *Snapshot, r *Result, cs *classes) error {
	if len(c.new.schema.NameForms()) == 0 {
		return nil
	}
	name, err := dn.Parse(r.Name)
	if err != nil {
		return err
	}
	g := governor{s: s, k: c.new}
	rule, err := g.govern(ctx, cs, name[0], r.Parent)
	if err != nil {
		return err
	}
	return g.below(ctx, r.ID, rule)
}
