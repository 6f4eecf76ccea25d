package schema

import (
	"fmt"
	"slices"
	"strings"
)

// A Schema is a complete and consistent set of definitions. A Schema that Change returns has
// other pointers for the same types, classes and rules.
type Schema struct {
	definitions []*definition // in the order of definition

	attributes []*AttributeType
	classes    []*ObjectClass
	rules      []*MatchingRule
	syntaxes   []*Syntax

	contentRules   []*ContentRule
	nameForms      []*NameForm
	structureRules []*StructureRule

	attributeBy lookup[AttributeType]
	classBy     lookup[ObjectClass]
	ruleBy      lookup[MatchingRule]
	syntaxBy    map[string]*Syntax

	contentRuleBy   lookup[ContentRule]
	nameFormBy      lookup[NameForm]
	structureRuleBy lookup[StructureRule]
	// contents and forms contain the rules in force for each structural class.
	contents map[*ObjectClass]*ContentRule
	forms    map[*ObjectClass][]*NameForm

	below map[*AttributeType][]*AttributeType

	printed [numElements][]string

	options []string // recognized options besides the registered options; see WithOptions

	codes  int                       // see Codes
	code   map[string]string         // codes by OID
	byCode map[string]*AttributeType // the types that have codes

	classByCode map[string]*ObjectClass
}

// A lookup finds elements by OID and by name. It contains each name as defined and in
// lower case. It has functions instead of methods, since every package that sees a Schema would
// compile the methods again.
type lookup[T any] map[string]*T

// find looks up s in t, ignoring case. If s has at most 64 bytes, find does not allocate memory:
// the compiler looks up string(bytes) in a map without allocating the string.
func find[T any](t lookup[T], s string) *T {
	if x := t[s]; x != nil {
		return x
	}
	var buf [64]byte
	if len(s) > len(buf) {
		return t[strings.ToLower(s)]
	}
	for i := 0; i < len(s); i++ {
		buf[i] = lower(s[i])
	}
	return t[string(buf[:len(s)])]
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

// add adds x to t under the OID and the names in its definition d. It returns an error if
// another element has this OID or one of these names.
func add[T any](t lookup[T], d *definition, x *T) error {
	for _, name := range append([]string{d.oid}, d.names...) {
		if y := find(t, name); y != nil && y != x {
			return d.fault(Exists, "the name or OID %q is defined already, as something else", name)
		}
		t[name], t[strings.ToLower(name)] = x, x
	}
	return nil
}

func (d *definition) fail(format string, args ...any) error {
	return d.fault(Conflict, format, args...)
}

func (d *definition) fault(f Fault, format string, args ...any) error {
	return &DefinitionError{Definition: d.name(), Source: d.source, Offset: -1, Problem: fmt.Sprintf(format, args...), Fault: f}
}

// A builder makes a schema from definitions. It first makes all elements and then resolves
// their references, because definitions may be in any order.
type builder struct {
	*Schema
	state map[*AttributeType]linkState
}

// build makes a schema from definitions for stores that use the first n codes.
func build(ds []*definition, n int) (*Schema, error) {
	b := &builder{state: map[*AttributeType]linkState{}, Schema: &Schema{
		definitions: ds,
		attributeBy: lookup[AttributeType]{},
		classBy:     lookup[ObjectClass]{},
		ruleBy:      lookup[MatchingRule]{},
		syntaxBy:    map[string]*Syntax{},
		below:       map[*AttributeType][]*AttributeType{},
		codes:       n,
		code:        allCodes(),
		byCode:      map[string]*AttributeType{},
		classByCode: map[string]*ObjectClass{},

		contentRuleBy:   lookup[ContentRule]{},
		nameFormBy:      lookup[NameForm]{},
		structureRuleBy: lookup[StructureRule]{},
		contents:        map[*ObjectClass]*ContentRule{},
		forms:           map[*ObjectClass][]*NameForm{},
	}}
	if n < Codes() {
		b.code = codesOf(n)
	}
	for _, step := range []func() error{b.make, b.linkSyntaxes, b.linkRules, b.linkAttributes, b.linkClasses, b.linkDIT} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	for i, t := range slices.SortedFunc(slices.Values(b.attributes), func(x, y *AttributeType) int { return strings.Compare(x.name, y.name) }) {
		t.nameRank = i
	}
	b.print()
	return b.Schema, nil
}

func (b *builder) make() error {
	for _, d := range b.definitions {
		var err error
		switch d.element {
		case attributeTypes:
			err = b.makeAttribute(d)
		case objectClasses:
			err = b.makeClass(d)
		case dITContentRules:
			err = b.makeContentRule(d)
		case nameForms:
			err = b.makeNameForm(d)
		case dITStructureRules:
			err = b.makeStructureRule(d)
		case matchingRules:
			err = b.makeRule(d)
		case ldapSyntaxes:
			err = b.makeSyntax(d)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (b *builder) makeAttribute(d *definition) error {
	t := &AttributeType{
		OID: d.oid, Names: d.names, Desc: d.desc, Obsolete: d.obsolete, MaxLen: d.maxLen,
		SingleValue: d.single, Collective: d.collective, NoUserModification: d.noUserMod,
		Usage: d.usage, Extensions: d.extensions, name: d.name(), def: d,
		secret: d.says("X-SECRET") || secretTypes[d.oid],
	}
	t.inValues, t.inKeys = t.name, t.OID
	if code, ok := b.code[t.OID]; ok {
		t.inValues, t.inKeys, b.byCode[code] = code, code, t
		t.keyless = keyless[t.OID]
	}
	b.attributes = append(b.attributes, t)
	return add(b.attributeBy, d, t)
}

// The method "says" reports whether the definition has the given extension with the value TRUE.
func (d *definition) says(extension string) bool {
	return slices.ContainsFunc(d.extensions, func(x Extension) bool {
		return x.Name == extension && len(x.Values) == 1 && strings.EqualFold(x.Values[0], "TRUE")
	})
}

func (b *builder) makeClass(d *definition) error {
	c := &ObjectClass{
		OID: d.oid, Names: d.names, Desc: d.desc, Obsolete: d.obsolete, Kind: d.kind,
		Extensions: d.extensions, name: d.name(), def: d,
	}
	if code, ok := b.code[c.OID]; ok {
		b.classByCode[code] = c
	}
	b.classes = append(b.classes, c)
	return add(b.classBy, d, c)
}

func (b *builder) makeRule(d *definition) error {
	does := behaviours[d.oid]
	if does == nil {
		return d.fail("this server has no such matching rule")
	}
	r := &MatchingRule{
		OID: d.oid, Names: d.names, Desc: d.desc, Obsolete: d.obsolete, Use: does.use, Form: does.form,
		Extensions: d.extensions, name: d.name(), does: does, schema: b.Schema, def: d,
	}
	b.rules = append(b.rules, r)
	return add(b.ruleBy, d, r)
}

func (b *builder) makeSyntax(d *definition) error {
	if b.syntaxBy[d.oid] != nil {
		return d.fault(Exists, "the OID %q is defined already, as something else", d.oid)
	}
	x := &Syntax{
		OID: d.oid, Desc: d.desc, Extensions: d.extensions, schema: b.Schema, def: d, validate: validators[d.oid],
	}
	b.syntaxes = append(b.syntaxes, x)
	b.syntaxBy[d.oid] = x
	return nil
}

// linkSyntaxes sets the validators of syntaxes that the server does not implement. Such a
// syntax has the validator of the syntax that X-SUBST names, or accepts every value.
func (b *builder) linkSyntaxes() error {
	for _, x := range b.syntaxes {
		if x.validate != nil {
			continue
		}
		x.validate = validateNothing
		for _, e := range x.Extensions {
			if e.Name != "X-SUBST" || len(e.Values) != 1 {
				continue
			}
			other := b.syntaxBy[e.Values[0]]
			if other == nil {
				return x.def.fail("X-SUBST: there is no syntax %s", e.Values[0])
			}
			if v := validators[other.OID]; v != nil {
				x.validate = v
			}
		}
	}
	return nil
}

func validateNothing(*Schema, []byte) error { return nil }

func (b *builder) linkRules() error {
	for _, r := range b.rules {
		r.Syntax = b.syntaxBy[r.def.syntax]
		if r.Syntax == nil {
			return r.def.fail("there is no syntax %q", r.def.syntax)
		}
	}
	return nil
}

func (b *builder) linkAttributes() error {
	for _, t := range b.attributes {
		if err := b.linkAttribute(t); err != nil {
			return err
		}
	}
	return nil
}

type linkState uint8

const (
	linking linkState = iota + 1
	linked
)

// linkAttribute resolves the references of a type and sets the properties that the type
// inherits. It links the supertype before the type.
func (b *builder) linkAttribute(t *AttributeType) error {
	switch b.state[t] {
	case linked:
		return nil
	case linking:
		return t.def.fail("it is its own supertype")
	}
	b.state[t] = linking
	if t.Collective && (t.Usage != UserApplications || t.SingleValue) {
		return t.def.fail("a collective type is of user applications and has several values (RFC 4512, 4.1.2)")
	}
	if err := b.linkSup(t); err != nil {
		return err
	}
	if err := b.linkMatching(t); err != nil {
		return err
	}
	t.approx = t.Equality
	if r := b.ruleBy[ApproximateOID]; r != nil && t.Equality != nil && r.AppliesTo(t) {
		t.approx = r
	}
	for a := t; a != nil; a = a.Sup {
		b.below[a] = append(b.below[a], t)
		if t.Collective {
			a.shared = append(a.shared, t)
		}
		if t.Collective == a.Collective {
			a.stored = append(a.stored, t)
		}
	}
	b.state[t] = linked
	return nil
}

func (b *builder) linkSup(t *AttributeType) error {
	if len(t.def.sup) == 0 {
		return nil
	}
	t.Sup = b.Attribute(t.def.sup[0])
	if t.Sup == nil {
		return t.def.fail("there is no supertype %q", t.def.sup[0])
	}
	if err := b.linkAttribute(t.Sup); err != nil {
		return err
	}
	if t.Usage != t.Sup.Usage {
		return t.def.fail("its usage differs from that of its supertype %s (RFC 4512, 2.5.1)", t.Sup.name)
	}
	if t.Sup.Collective && !t.Collective {
		return t.def.fail("its supertype %s is collective, and it is not (RFC 4512, 2.5.1)", t.Sup.name)
	}
	t.Equality, t.Ordering, t.Substr, t.Syntax = t.Sup.Equality, t.Sup.Ordering, t.Sup.Substr, t.Sup.Syntax
	t.secret = t.secret || t.Sup.secret
	return nil
}

func (b *builder) linkMatching(t *AttributeType) error {
	for _, x := range []struct {
		to   **MatchingRule
		name string
		use  Use
	}{{&t.Equality, t.def.equality, Equality}, {&t.Ordering, t.def.ordering, Ordering}, {&t.Substr, t.def.substr, Substrings}} {
		if x.name == "" {
			continue
		}
		r := b.Rule(x.name)
		if r == nil {
			return t.def.fail("there is no matching rule %q", x.name)
		}
		if r.Use != x.use {
			return t.def.fail("the matching rule %q is of another use", x.name)
		}
		*x.to = r
	}
	if t.def.syntax != "" {
		t.Syntax = b.SyntaxOf(t.def.syntax)
		if t.Syntax == nil {
			return t.def.fail("there is no syntax %q", t.def.syntax)
		}
	}
	if t.Syntax == nil {
		return t.def.fail("it has neither a syntax nor a supertype")
	}
	t.sent = t.name
	if t.Syntax.def.says("X-BINARY-TRANSFER-REQUIRED") {
		t.sent += ";binary"
	}
	return nil
}

func (b *builder) linkClasses() error {
	for _, c := range b.classes {
		if err := b.linkClass(c); err != nil {
			return err
		}
	}
	state := make(map[*ObjectClass]linkState, len(b.classes))
	for _, c := range b.classes {
		if !c.ends(state) {
			return c.def.fail("it is its own superclass, or one of its superclasses is")
		}
	}
	return nil
}

func (b *builder) linkClass(c *ObjectClass) error {
	for _, name := range c.def.sup {
		sup := b.Class(name)
		if sup == nil {
			return c.def.fail("there is no superclass %q", name)
		}
		c.Sup = append(c.Sup, sup)
	}
	// Every structural class is a subclass of top (RFC 4512, 2.4.2), even if its
	// definition does not say so.
	if top := b.Class("top"); len(c.Sup) == 0 && c.Kind == Structural && top != nil {
		c.Sup = []*ObjectClass{top}
	}
	for _, x := range []struct {
		to    *[]*AttributeType
		names []string
	}{{&c.Must, c.def.must}, {&c.May, c.def.may}} {
		var err error
		if *x.to, err = b.types(c.def, x.names); err != nil {
			return err
		}
	}
	return nil
}

// types looks up the attribute types that a definition names.
func (b *builder) types(d *definition, names []string) ([]*AttributeType, error) {
	var ts []*AttributeType
	for _, name := range names {
		t := b.Attribute(name)
		if t == nil {
			return nil, d.fail("there is no attribute type %q", name)
		}
		ts = append(ts, t)
	}
	return ts, nil
}

// The method "ends" reports whether the superclasses of c contain no cycle.
func (c *ObjectClass) ends(state map[*ObjectClass]linkState) bool {
	if state[c] != 0 {
		return state[c] == linked
	}
	state[c] = linking
	for _, sup := range c.Sup {
		if !sup.ends(state) {
			return false
		}
	}
	state[c] = linked
	return true
}
