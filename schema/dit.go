package schema

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

func (b *builder) makeContentRule(d *definition) error {
	r := &ContentRule{
		Names: d.names, Desc: d.desc, Obsolete: d.obsolete, Extensions: d.extensions, name: d.name(), def: d,
	}
	b.contentRules = append(b.contentRules, r)
	return add(b.contentRuleBy, d, r)
}

func (b *builder) makeNameForm(d *definition) error {
	f := &NameForm{
		OID: d.oid, Names: d.names, Desc: d.desc, Obsolete: d.obsolete, Extensions: d.extensions, name: d.name(), def: d,
	}
	b.nameForms = append(b.nameForms, f)
	return add(b.nameFormBy, d, f)
}

func (b *builder) makeStructureRule(d *definition) error {
	id, err := strconv.Atoi(d.oid)
	if err != nil {
		return d.fail("%q is not a rule number", d.oid)
	}
	r := &StructureRule{
		ID: id, Names: d.names, Desc: d.desc, Obsolete: d.obsolete, Extensions: d.extensions, name: d.name(), def: d,
	}
	b.structureRules = append(b.structureRules, r)
	return add(b.structureRuleBy, d, r)
}

// linkDIT resolves the DIT content rules, name forms and DIT structure rules, which refer
// to classes and types.
func (b *builder) linkDIT() error {
	for _, r := range b.contentRules {
		if err := b.linkContentRule(r); err != nil {
			return err
		}
	}
	for _, f := range b.nameForms {
		if err := b.linkNameForm(f); err != nil {
			return err
		}
	}
	for _, r := range b.structureRules {
		if err := b.linkStructureRule(r); err != nil {
			return err
		}
	}
	return nil
}

func (b *builder) linkContentRule(r *ContentRule) (err error) {
	d := r.def
	if r.Class, err = b.structural(d, d.oid); err != nil {
		return err
	}
	for _, name := range d.aux {
		c := b.Class(name)
		if c == nil {
			return d.fail("there is no object class %q", name)
		}
		if c.Kind != Auxiliary {
			return d.fail("AUX: the class %s is not auxiliary", c.name)
		}
		r.Aux = append(r.Aux, c)
	}
	if r.Must, err = b.types(d, d.must); err != nil {
		return err
	}
	if r.May, err = b.types(d, d.may); err != nil {
		return err
	}
	if r.Not, err = b.types(d, d.not); err != nil {
		return err
	}
	if err := r.consistent(); err != nil {
		return err
	}
	if !r.Obsolete {
		b.contents[r.Class] = r
	}
	return nil
}

// consistent returns an error if the rule both precludes and allows a type, or precludes
// a type that one of its classes requires.
func (r *ContentRule) consistent() error {
	for _, t := range r.Not {
		if slices.Contains(r.Must, t) || slices.Contains(r.May, t) {
			return r.def.fail("it both precludes and allows the attribute type %s", t.name)
		}
		for _, c := range append([]*ObjectClass{r.Class}, r.Aux...) {
			if c.requires(t) {
				return r.def.fail("it precludes the attribute type %s, which the class %s requires", t.name, c.name)
			}
		}
	}
	return nil
}

// requires reports whether c or one of its superclasses has t among its required types.
func (c *ObjectClass) requires(t *AttributeType) bool {
	return slices.Contains(c.Must, t) || slices.ContainsFunc(c.Sup, func(s *ObjectClass) bool { return s.requires(t) })
}

// structural returns the structural class that a definition names, or an error.
func (b *builder) structural(d *definition, name string) (*ObjectClass, error) {
	c := b.Class(name)
	if c == nil {
		return nil, d.fail("there is no object class %q", name)
	}
	if c.Kind != Structural {
		return nil, d.fail("the class %s is not structural", c.name)
	}
	return c, nil
}

func (b *builder) linkNameForm(f *NameForm) (err error) {
	d := f.def
	if f.Class, err = b.structural(d, d.class); err != nil {
		return err
	}
	if f.Must, err = b.types(d, d.must); err != nil {
		return err
	}
	if f.May, err = b.types(d, d.may); err != nil {
		return err
	}
	for _, t := range f.Must {
		if slices.Contains(f.May, t) {
			return d.fail("the attribute type %s is in both MUST and MAY", t.name)
		}
	}
	if !f.Obsolete {
		b.forms[f.Class] = append(b.forms[f.Class], f)
	}
	return nil
}

func (b *builder) linkStructureRule(r *StructureRule) error {
	r.Form = b.NameForm(r.def.form)
	if r.Form == nil {
		return r.def.fail("there is no name form %q", r.def.form)
	}
	for _, id := range r.def.sup {
		sup := find(b.structureRuleBy, id)
		if sup == nil {
			return r.def.fail("there is no superior structure rule %s", id)
		}
		r.Sup = append(r.Sup, sup)
	}
	return nil
}

// ContentRule returns the DIT content rule in force for entries of a structural class, or
// nil.
func (s *Schema) ContentRule(structural *ObjectClass) *ContentRule { return s.contents[structural] }

// ContentRules returns all DIT content rules. The result includes obsolete rules.
func (s *Schema) ContentRules() []*ContentRule { return s.contentRules }

// NameForm returns the name form with the given name (ignoring case) or OID. It returns
// nil if there is none.
func (s *Schema) NameForm(name string) *NameForm { return find(s.nameFormBy, name) }

// NameForms returns all name forms. The result includes obsolete forms.
func (s *Schema) NameForms() []*NameForm { return s.nameForms }

// StructureRule returns the DIT structure rule with the given number, or nil if there is
// none.
func (s *Schema) StructureRule(id int) *StructureRule { return s.structureRuleBy[strconv.Itoa(id)] }

// StructureRules returns all DIT structure rules. The result includes obsolete rules.
func (s *Schema) StructureRules() []*StructureRule { return s.structureRules }

// Classes returns "" if the rule allows the object classes of an entry, and otherwise a
// text that describes the violation. The argument contains the classes of the entry and
// their superclasses. The only auxiliary classes that the rule allows are the classes in
// its list, their superclasses, and the superclasses of the structural class.
func (r *ContentRule) Classes(classes []*ObjectClass) string {
	for _, c := range classes {
		listed := func(aux *ObjectClass) bool { return aux.Is(c) }
		if c.Kind == Auxiliary && !r.Class.Is(c) && !slices.ContainsFunc(r.Aux, listed) {
			return fmt.Sprintf("the DIT content rule %s does not let entries of class %s have the auxiliary class %s", r.name, r.Class.name, c.name)
		}
	}
	return ""
}

// Allows reports whether the rule allows the type t for an entry whose classes do not
// allow it.
func (r *ContentRule) Allows(t *AttributeType) bool {
	return slices.Contains(r.Must, t) || slices.Contains(r.May, t)
}

// Attributes returns "" if the attribute types of an entry conform to the rule. Otherwise it
// returns a text with the name of a type that is required but missing, or precluded but
// present.
func (r *ContentRule) Attributes(has func(*AttributeType) bool) string {
	for _, t := range r.Must {
		if !has(t) {
			return fmt.Sprintf("the DIT content rule %s requires attribute %s", r.name, t.name)
		}
	}
	for _, t := range r.Not {
		if has(t) {
			return fmt.Sprintf("the DIT content rule %s precludes attribute %s", r.name, t.name)
		}
	}
	return ""
}

// Fits returns "" if an RDN with the given attribute types conforms to the name form, and
// otherwise a text that describes the violation.
func (f *NameForm) Fits(rdn []*AttributeType) string {
	for _, t := range f.Must {
		if !slices.Contains(rdn, t) {
			return fmt.Sprintf("the name form %s requires attribute %s in the RDN", f.name, t.name)
		}
	}
	for _, t := range rdn {
		if !slices.Contains(f.Must, t) && !slices.Contains(f.May, t) {
			return fmt.Sprintf("the name form %s does not allow attribute %s in the RDN", f.name, t.name)
		}
	}
	return ""
}

// A Place contains those properties of an entry that are tested by name forms and
// structure rules.
type Place struct {
	Class *ObjectClass     // the structural class of the entry
	RDN   []*AttributeType // the attribute types of the RDN
	// Superior is the structure rule that governs the parent entry, or nil.
	Superior *StructureRule
	// Top means that the entry is at the top of an administrative area (RFC 4512,
	// 4.1.7.1). A structure rule without superior rules applies only to such entries.
	Top bool
}

// Govern returns the structure rule that governs an entry. If the entry needs no rule,
// Govern returns nil and "". If the entry may not be in its place, Govern returns nil and
// a text with one of these reasons:
//
//   - the class of the entry has name forms, and the RDN fits none of them;
//   - there are structure rules for the name forms that the RDN fits, and none of these
//     rules allows the place;
//   - there are no such structure rules, the entry is not at the top of an administrative
//     area, and a structure rule governs the parent.
func (s *Schema) Govern(p Place) (*StructureRule, string) {
	if len(s.nameForms) == 0 {
		return nil, ""
	}
	fit, wrong := s.fitting(p)
	if wrong != "" {
		return nil, wrong
	}
	var tried []string
	for _, r := range s.structureRules {
		if r.Obsolete || !slices.Contains(fit, r.Form) {
			continue
		}
		if r.at(p) {
			return r, ""
		}
		tried = append(tried, r.name)
	}
	switch {
	case len(tried) > 0:
		return nil, fmt.Sprintf("no DIT structure rule lets an entry of class %s stand here (%s)", p.Class.name, strings.Join(tried, ", "))
	case p.Superior != nil && !p.Top:
		return nil, fmt.Sprintf("the entry above is governed by the DIT structure rule %s, and no rule is for entries of class %s with such an RDN", p.Superior.name, p.Class.name)
	}
	return nil, ""
}

// The method "at" reports whether the rule allows entries in the place p.
func (r *StructureRule) at(p Place) bool {
	if len(r.Sup) == 0 {
		return p.Top
	}
	return p.Superior != nil && slices.Contains(r.Sup, p.Superior)
}

// fitting returns the name forms that are in force for the entry's class and that the RDN
// fits. If the RDN fits no form, wrong describes the violation of the first form.
func (s *Schema) fitting(p Place) (fit []*NameForm, wrong string) {
	for _, f := range s.forms[p.Class] {
		w := f.Fits(p.RDN)
		if w == "" {
			fit = append(fit, f)
		} else if wrong == "" {
			wrong = w
		}
	}
	if len(fit) > 0 {
		wrong = ""
	}
	return fit, wrong
}
