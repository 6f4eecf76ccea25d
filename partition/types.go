package partition

import (
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/schema"
)

// types are a schema and, of it, what the partition itself reads and writes.
type types struct {
	schema                                      *schema.Schema
	objectClass, structuralObjectClass          *schema.AttributeType
	entryUUID, entryDN, entryCSN                *schema.AttributeType
	creatorsName, createTimestamp               *schema.AttributeType
	modifiersName, modifyTimestamp              *schema.AttributeType
	hasSubordinates, numSubordinates, subschema *schema.AttributeType
	governingStructureRule                      *schema.AttributeType
	extensibleObject, collectiveSubentry        *schema.ObjectClass
	// watched are the classes that nearly every search asks about, and what
	// stands for them in what commits touch.
	watched map[*schema.ObjectClass]entry.ID
}

func newTypes(s *schema.Schema) *types {
	return &types{
		schema:                s,
		objectClass:           s.Attribute("objectClass"),
		structuralObjectClass: s.Attribute("structuralObjectClass"),
		entryUUID:             s.Attribute("entryUUID"),
		entryDN:               s.Attribute("entryDN"),
		entryCSN:              s.Attribute("entryCSN"),
		creatorsName:          s.Attribute("creatorsName"),
		createTimestamp:       s.Attribute("createTimestamp"),
		modifiersName:         s.Attribute("modifiersName"),
		modifyTimestamp:       s.Attribute("modifyTimestamp"),
		hasSubordinates:       s.Attribute("hasSubordinates"),
		numSubordinates:       s.Attribute("numSubordinates"),
		subschema:             s.Attribute("subschemaSubentry"),

		governingStructureRule: s.Attribute("governingStructureRule"),

		extensibleObject:   s.Class("extensibleObject"),
		collectiveSubentry: s.Class("collectiveAttributeSubentry"),
		watched: map[*schema.ObjectClass]entry.ID{
			s.Class("alias"):    classID(s.Class("alias")),
			s.Class("referral"): classID(s.Class("referral")),

			s.Class("collectiveAttributeSubentry"): classID(s.Class("collectiveAttributeSubentry")),
		},
	}
}

// describe reads an attribute description: its type and sorted options.
func (k *types) describe(description string) (*schema.AttributeType, string, error) {
	name, options := description, ""
	if i := strings.IndexByte(description, ';'); i >= 0 {
		if !wellFormed(description[i:]) {
			return nil, "", problem(UndefinedType, "attribute description %.300q: its options must be made of letters, digits and hyphens, %d bytes at most", description, maxOptions)
		}
		name, options = description[:i], entry.SortOptions(description[i:])
	}
	t := k.schema.Attribute(name)
	if t == nil {
		return nil, "", problem(UndefinedType, "attribute type %q is not in the schema", name)
	}
	return t, options, nil
}

// storable reads the description of values to be stored.
func (k *types) storable(description string) (*schema.AttributeType, string, error) {
	t, options, err := k.removable(description)
	if err == nil && !k.recognizes(description) {
		return nil, "", unrecognized(description)
	}
	return t, options, err
}

// removable reads the description of values to be removed, whose options were
// perhaps recognized when they were stored. A language range says which values are
// asked for, and describes none (RFC 3866, 3).
func (k *types) removable(description string) (*schema.AttributeType, string, error) {
	t, options, err := k.describe(description)
	if err == nil && entry.HasRange(options) {
		return nil, "", problem(UndefinedType, "attribute description %q: a language range, which values cannot be stored under", description)
	}
	return t, options, err
}

func (k *types) recognizes(description string) bool {
	t, _ := k.schema.Describe(description)
	return t != nil
}

func unrecognized(description string) error {
	return problem(UndefinedType, "attribute description %q: it has an option that is not known; attribute-options in the server's configuration says which more are", description)
}

// maxOptions is the length of a description's options: they are in the
// qualifiers of all its values.
const maxOptions = 256

// wellFormed tests options by RFC 4512, 2.5. Other characters could be taken for
// those that end the options in the qualifiers of columns.
func wellFormed(options string) bool {
	for o := range strings.SplitSeq(options[1:], ";") {
		if o == "" || strings.ContainsFunc(o, func(c rune) bool {
			return c != '-' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z')
		}) {
			return false
		}
	}
	return len(options) <= maxOptions
}

// classes are the object classes of an entry, superclasses included.
type classes struct {
	all        []*schema.ObjectClass
	structural *schema.ObjectClass // the most specific one
	extensible bool
	rule       *schema.ContentRule // for the structural class; nil: none
	collects   bool                // a collective attribute subentry
}

// classesOf looks up objectClass values and closes them under superclasses.
func (k *types) classesOf(values [][]byte) (*classes, error) {
	cs := &classes{all: make([]*schema.ObjectClass, 0, len(values)+2)}
	for _, v := range values {
		c := k.schema.Class(string(v))
		if c == nil {
			return nil, problem(ClassViolation, "object class %q is not in the schema", v)
		}
		cs.add(c)
	}
	for _, c := range cs.all {
		cs.extensible = cs.extensible || c == k.extensibleObject
		cs.collects = cs.collects || c == k.collectiveSubentry
		if c.Kind != schema.Structural {
			continue
		}
		switch {
		case cs.structural == nil || c.Is(cs.structural):
			cs.structural = c
		case !cs.structural.Is(c):
			return nil, problem(ClassViolation, "structural classes %s and %s exclude each other: an entry has one chain of them", cs.structural.Name(), c.Name())
		}
	}
	if cs.structural == nil {
		return nil, problem(ClassViolation, "the entry has no structural object class")
	}
	cs.rule = k.schema.ContentRule(cs.structural)
	return cs, nil
}

func (cs *classes) add(c *schema.ObjectClass) {
	if cs.has(c) {
		return
	}
	cs.all = append(cs.all, c)
	for _, s := range c.Sup {
		cs.add(s)
	}
}

func (cs *classes) has(c *schema.ObjectClass) bool {
	for _, x := range cs.all {
		if x == c {
			return true
		}
	}
	return false
}

// allows reports whether the classes, and the DIT content rule, let an entry
// have values of exactly type t. Collective ones are for subentries only, and
// these may have any of them (RFC 3671, 2.1).
func (cs *classes) allows(t *schema.AttributeType) bool {
	switch {
	case cs.rule != nil && slices.Contains(cs.rule.Not, t):
		return false
	case t.Collective:
		return cs.collects
	case t.Operational() || cs.extensible || cs.rule != nil && cs.rule.Allows(t):
		return true
	}
	for _, c := range cs.all {
		if slices.Contains(c.May, t) || slices.Contains(c.Must, t) {
			return true
		}
	}
	return false
}

// requires tells what says MUST of a type; "" if nothing does.
func (cs *classes) requires(t *schema.AttributeType) string {
	for _, c := range cs.all {
		if slices.Contains(c.Must, t) {
			return "object class " + c.Name()
		}
	}
	if cs.rule != nil && slices.Contains(cs.rule.Must, t) {
		return "DIT content rule " + cs.rule.Name()
	}
	return ""
}

// auxiliaries checks the classes against the DIT content rule.
func (cs *classes) auxiliaries() error {
	if cs.rule != nil {
		if wrong := cs.rule.Classes(cs.all); wrong != "" {
			return problem(ClassViolation, "%s", wrong)
		}
	}
	return nil
}

// conform checks a whole entry: its classes, and the types that it has.
func (cs *classes) conform(has []*schema.AttributeType) error {
	if err := cs.auxiliaries(); err != nil {
		return err
	}
	var wrong mistakes
	for _, t := range has {
		if !cs.allows(t) {
			wrong.add(notAllowed(cs, t))
		}
	}
	for _, c := range cs.all {
		cs.complete(&wrong, c.Must, has)
	}
	if cs.rule != nil {
		cs.complete(&wrong, cs.rule.Must, has)
	}
	return wrong.err()
}

func (cs *classes) complete(wrong *mistakes, must, has []*schema.AttributeType) {
	for _, t := range must {
		if !slices.Contains(has, t) {
			wrong.add(required(cs.requires(t), t))
		}
	}
}

func notAllowed(cs *classes, t *schema.AttributeType) *Error {
	if cs.rule != nil && slices.Contains(cs.rule.Not, t) {
		return problem(ClassViolation, "attribute %s is precluded by the DIT content rule %s", t.Name(), cs.rule.Name())
	}
	if t.Collective {
		return problem(ClassViolation, "attribute %s is collective: it belongs in a collectiveAttributeSubentry", t.Name())
	}
	return problem(ClassViolation, "attribute %s is not allowed by the entry's object classes (structural: %s)", t.Name(), cs.structural.Name())
}

func required(by string, t *schema.AttributeType) *Error {
	return problem(ClassViolation, "%s requires attribute %s", by, t.Name())
}

// obsolete refuses to begin to use what is no longer in active use (RFC 4512,
// 4.1.1). What entries have of it they keep.
func obsolete(what, name string) *Error {
	return problem(ClassViolation, "%s %s is obsolete: it is not given to entries any more", what, name)
}
