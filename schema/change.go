package schema

import (
	"fmt"
	"slices"
	"strings"
)

// Change returns a schema with the definitions in add and without the definitions in
// remove. A definition to remove is found by its kind and by the OID, the number or the
// name at the beginning of its Text. The rest of the Text is ignored. If an OID is both
// removed and added, the new definition replaces the old definition at the same position.
//
// Change fails, with a *DefinitionError, if a definition in add is malformed, contradicts
// others, or has an OID or name that is already in use. It also fails if a definition to
// remove is missing, or if it is not replaced and other definitions use it. A definition
// that the server needs can only be replaced, by a definition with the same meaning and at
// least the same names; a class may also allow more types. The server needs its matching rules and syntaxes, its operational
// attributes, and the elements that [Needed] lists.
func (s *Schema) Change(add, remove []Definition) (*Schema, error) {
	c := change{from: s, left: slices.Clone(s.definitions)}
	for _, d := range remove {
		if err := c.remove(d); err != nil {
			return nil, err
		}
	}
	for _, d := range add {
		parsed, err := d.parse()
		if err != nil {
			return nil, err
		}
		c.add(parsed)
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	next, err := build(slices.DeleteFunc(c.left, func(d *definition) bool { return d == nil }), s.codes)
	if err != nil {
		return nil, err
	}
	next.options = s.options
	return next, nil
}

// CheckNew returns an error if d must not be added to a schema although a schema that has d already can be read.
func CheckNew(d Definition) error {
	parsed, err := d.parse()
	if err != nil {
		return err
	}
	return parsed.colons()
}

// The method "colons" returns an error if the OID or a name has a colon, which ends these in LDIF and in the columns of values. In an
// OID it is left of a macro that the file does not define.
func (d *definition) colons() error {
	if macro, _, has := strings.Cut(d.oid, ":"); has {
		return d.fail("nothing defines the macro %s of its OID %s; a line before it in a schema file does: objectIdentifier %s OID", macro, d.oid, macro)
	}
	for _, name := range d.names {
		if strings.Contains(name, ":") {
			return d.fail("there is a colon in the name %q", name)
		}
	}
	return nil
}

// Has reports whether the schema has a definition with the same meaning as d.
func (s *Schema) Has(d Definition) bool {
	parsed, err := d.parse()
	if err != nil {
		return false
	}
	own := s.definition(parsed.element, parsed.oid)
	return own != nil && s.essence(own) == s.essence(parsed)
}

// Defines reports whether the schema has a definition of the same kind as d that has the
// OID or name at the beginning of d.Text.
func (s *Schema) Defines(d Definition) bool {
	e, ok := elementAliases[strings.ToLower(d.Attribute)]
	first, err := firstOf(d.Text)
	return ok && err == nil && slices.ContainsFunc(s.definitions, func(x *definition) bool { return x.element == e && x.called(first) })
}

// change contains the data of one call of Change.
type change struct {
	from *Schema
	left []*definition // nil where a definition was removed
	gone []gone
}

// The type "gone" is a removed definition, with its replacement if there is one.
type gone struct {
	at       int
	old, new *definition
}

func (c *change) remove(d Definition) error {
	e, ok := elementAliases[strings.ToLower(d.Attribute)]
	if !ok {
		_, err := d.parse()
		return err
	}
	oid, err := firstOf(d.Text)
	if err != nil {
		return from(d.Source, err)
	}
	at := slices.IndexFunc(c.left, func(x *definition) bool { return x != nil && x.element == e && x.called(oid) })
	if at < 0 {
		return &DefinitionError{Definition: oid, Source: d.Source, Offset: -1, Fault: Missing,
			Problem: fmt.Sprintf("there is nothing to remove: no value of %s has this OID or name", elementNames[e])}
	}
	c.gone = append(c.gone, gone{at: at, old: c.left[at]})
	c.left[at] = nil
	return nil
}

// firstOf returns the first component of a definition. If the text is a single word,
// firstOf returns the word.
func firstOf(text string) (string, error) {
	p := parser{text: text, def: &definition{}}
	if err := p.next(); err != nil {
		return "", err
	}
	if p.tok.kind == tokenOpen {
		if err := p.next(); err != nil {
			return "", err
		}
	}
	return p.item(firstItems)
}

// called reports whether the definition has the given OID or name.
func (d *definition) called(name string) bool {
	return strings.EqualFold(d.oid, name) || slices.ContainsFunc(d.names, func(n string) bool { return strings.EqualFold(n, name) })
}

// add puts a definition at the position of a removed definition with the same OID, or at
// the end if there is none.
func (c *change) add(d *definition) {
	for i := range c.gone {
		if g := &c.gone[i]; g.new == nil && g.old.element == d.element && g.old.oid == d.oid {
			g.new, c.left[g.at] = d, d
			return
		}
	}
	c.left = append(c.left, d)
}

// check returns an error if the server or another definition needs a removed definition.
func (c *change) check() error {
	for _, g := range c.gone {
		if g.old.needed() && (g.new == nil || !c.from.means(g.new, g.old)) {
			return g.old.fault(InUse, "the server itself needs it as it is")
		}
		if g.new != nil {
			continue
		}
		for _, d := range c.left {
			if d != nil && d.refersTo(g.old) {
				return g.old.fault(InUse, "%s uses it (%s)", d.name(), elementNames[d.element])
			}
		}
	}
	return nil
}

// The method "means" reports whether d has all names of old and, apart from names and from
// types that a class allows besides, the same meaning as old.
func (s *Schema) means(d, old *definition) bool {
	for _, n := range old.names {
		if !d.called(n) {
			return false
		}
	}
	renamed := *d
	renamed.names = old.names
	if d.element == objectClasses && s.allow(d.may, old.may) {
		renamed.may = old.may
	}
	return strings.EqualFold(s.essence(&renamed), s.essence(old))
}

// allow reports whether the list may contains all types of the list old.
func (s *Schema) allow(may, old []string) bool {
	return !slices.ContainsFunc(old, func(o string) bool {
		return !slices.ContainsFunc(may, func(n string) bool { return s.canonical(n) == s.canonical(o) })
	})
}

// refersTo reports whether d refers to the definition x.
func (d *definition) refersTo(x *definition) bool {
	var names []string
	switch x.element {
	case attributeTypes:
		names = slices.Concat(d.must, d.may, d.not)
		if d.element == attributeTypes {
			names = d.sup
		}
	case objectClasses:
		names = append([]string{d.class}, d.aux...)
		if d.element == objectClasses {
			names = d.sup
		}
		if d.element == dITContentRules {
			names = append(names, d.oid)
		}
	case nameForms:
		names = []string{d.form}
	case dITStructureRules:
		if d.element == dITStructureRules {
			names = d.sup
		}
	case matchingRules:
		names = []string{d.equality, d.ordering, d.substr}
	case ldapSyntaxes:
		names = append(d.extension("X-SUBST"), d.syntax)
	}
	return slices.ContainsFunc(names, x.called)
}

func (d *definition) extension(name string) []string {
	for _, x := range d.extensions {
		if x.Name == name {
			return slices.Clone(x.Values)
		}
	}
	return nil
}

// Needed are user attributes and object classes that the server uses by name. Their
// definitions cannot be removed.
var Needed = []string{
	"objectClass", "aliasedObjectName", "ref", "userPassword", "member",
	"top", "alias", "referral", "extensibleObject", "subschema", "subentry",
	"collectiveAttributeSubentry",
}

// needed reports whether the server needs the definition.
func (d *definition) needed() bool {
	switch d.element {
	case matchingRules:
		return true
	case ldapSyntaxes:
		return validators[d.oid] != nil
	case attributeTypes, objectClasses:
		own := Core().definition(d.element, d.oid)
		return own != nil && (own.usage != UserApplications || slices.ContainsFunc(Needed, own.called))
	}
	return false
}

// definition returns the definition of the given kind and OID, or nil.
func (s *Schema) definition(e element, oid string) *definition {
	for _, d := range s.definitions {
		if d.element == e && d.oid == oid {
			return d
		}
	}
	return nil
}

// essence returns a text that is equal for definitions with the same meaning. It leaves out
// descriptions, lengths and extensions, replaces references by OIDs, and sorts them.
func (s *Schema) essence(d *definition) string { return essence(d, s.canonical) }

func essence(d *definition, canonical func(string) string) string {
	e := *d
	e.desc, e.maxLen, e.extensions = "", 0, nil
	for _, list := range []*[]string{&e.sup, &e.must, &e.may, &e.aux, &e.not} {
		*list = slices.Clone(*list)
		for i, name := range *list {
			(*list)[i] = canonical(name)
		}
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	e.names = slices.Sorted(slices.Values(e.names))
	for _, name := range []*string{&e.equality, &e.ordering, &e.substr, &e.class, &e.form} {
		if *name != "" {
			*name = canonical(*name)
		}
	}
	return e.String()
}

// canonical returns the OID of the class, attribute type or matching rule with the given
// name, or the name if there is none.
func (s *Schema) canonical(name string) string {
	if oid := s.oidOf(name); oid != "" {
		return oid
	}
	return name
}
