package catalog

import (
	"hash/fnv"
	"strings"
	"sync/atomic"

	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// Types contains a schema and the parts of the schema that the partition itself uses.
type Types struct {
	Schema                                                          *schema.Schema
	ObjectClass, StructuralObjectClass                              *schema.AttributeType
	EntryUUID, EntryDN, EntryCSN                                    *schema.AttributeType
	CreatorsName, CreateTimestamp                                   *schema.AttributeType
	ModifiersName, ModifyTimestamp                                  *schema.AttributeType
	HasSubordinates, NumSubordinates, NumAllSubordinates, Subschema *schema.AttributeType
	GoverningStructureRule, AccessRule                              *schema.AttributeType
	ExtensibleObject, collectiveSubentry                            *schema.ObjectClass
	// Watched contains the classes that nearly every operation looks for.
	Watched map[*schema.ObjectClass]*Watched
}

func newTypes(s *schema.Schema) *Types {
	k := &Types{
		Schema:                s,
		ObjectClass:           s.Attribute("objectClass"),
		StructuralObjectClass: s.Attribute("structuralObjectClass"),
		EntryUUID:             s.Attribute("entryUUID"),
		EntryDN:               s.Attribute("entryDN"),
		EntryCSN:              s.Attribute("entryCSN"),
		CreatorsName:          s.Attribute("creatorsName"),
		CreateTimestamp:       s.Attribute("createTimestamp"),
		ModifiersName:         s.Attribute("modifiersName"),
		ModifyTimestamp:       s.Attribute("modifyTimestamp"),
		HasSubordinates:       s.Attribute("hasSubordinates"),
		NumSubordinates:       s.Attribute("numSubordinates"),
		NumAllSubordinates:    s.Attribute("numAllSubordinates"),
		Subschema:             s.Attribute("subschemaSubentry"),

		GoverningStructureRule: s.Attribute("governingStructureRule"),
		AccessRule:             s.Attribute("accessRule"),

		ExtensibleObject:   s.Class("extensibleObject"),
		collectiveSubentry: s.Class("collectiveAttributeSubentry"),
		Watched:            map[*schema.ObjectClass]*Watched{},
	}
	for _, name := range []string{"alias", "referral", "collectiveAttributeSubentry", "pwdPolicy"} {
		if c := s.Class(name); c != nil { // pwdPolicy is optional
			k.Watched[c] = &Watched{ID: ClassID(c)}
		}
	}
	return k
}

// Watched remembers whether any entry has a class.
type Watched struct {
	ID   entry.ID      // a commit touches it when it changes which entries have the class
	seen atomic.Uint64 // twice an ordinal, and 1 if there was an entry then
}

// Seen returns what See was called with last.
func (w *Watched) Seen() (asOf uint64, has bool) {
	seen := w.seen.Load()
	return seen / 2, seen%2 == 1
}

// See sets whether any entry had the class in the state with an ordinal.
func (w *Watched) See(asOf uint64, has bool) {
	asOf *= 2
	if has {
		asOf++
	}
	w.seen.Store(asOf)
}

// Describe parses an attribute description into its type and sorted options.
func (k *Types) Describe(description string) (*schema.AttributeType, string, error) {
	name, options := description, ""
	if i := strings.IndexByte(description, ';'); i >= 0 {
		if !wellFormed(description[i:]) {
			return nil, "", Errorf(UndefinedType, "attribute description %.300q: its options must be made of letters, digits and hyphens, %d bytes at most", description, maxOptions)
		}
		name, options = description[:i], entry.SortOptions(description[i:])
	}
	t := k.Schema.Attribute(name)
	if t == nil {
		return nil, "", Errorf(UndefinedType, "attribute type %q is not in the schema", name)
	}
	return t, options, nil
}

// Storable parses an attribute description under which values can be stored.
func (k *Types) Storable(description string) (*schema.AttributeType, string, error) {
	t, options, err := k.Removable(description)
	if err == nil && !k.Recognizes(description) {
		return nil, "", Unrecognized(description)
	}
	return t, options, err
}

// Removable parses an attribute description in a request to remove values. Its options
// need not be recognized: they may have been recognized when the values were stored. A
// description with a language range is refused, because a range selects values and cannot
// describe a value (RFC 3866, 3).
func (k *Types) Removable(description string) (*schema.AttributeType, string, error) {
	t, options, err := k.Describe(description)
	if err == nil && entry.HasRange(options) {
		return nil, "", Errorf(UndefinedType, "attribute description %q: it is a language range, under which no values can be stored", description)
	}
	return t, options, err
}

func (k *Types) Recognizes(description string) bool {
	t, _ := k.Schema.Describe(description)
	return t != nil
}

func Unrecognized(description string) error {
	return Errorf(UndefinedType, "attribute description %q: it has an option that is not known; the key attribute-options of the server's configuration can add options", description)
}

// maxOptions bounds the length of the options in a description, because the qualifier of
// every value contains them.
const maxOptions = 256

// wellFormed reports whether options are well-formed by RFC 4512, 2.5, and not longer
// than maxOptions. In the qualifier of a column, a character that options must not contain
// could be mistaken for the end of the options.
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

// Classes are the object classes of an entry, including all superclasses.
type Classes struct {
	All        []*schema.ObjectClass
	Structural *schema.ObjectClass // the most specific structural class
	extensible bool
	rule       *schema.ContentRule // content rule of the structural class; nil: none
	collects   bool                // the entry is a collective attribute subentry
}

// ClassesOf looks up objectClass values and adds their superclasses.
func (k *Types) ClassesOf(values [][]byte) (*Classes, error) {
	return k.classes(values, k.Schema.Class)
}

// ClassesOfKeys is ClassesOf for the keys of values.
func (k *Types) ClassesOfKeys(keys [][]byte) (*Classes, error) {
	return k.classes(keys, k.Schema.StoredClass)
}

func (k *Types) classes(texts [][]byte, find func(string) *schema.ObjectClass) (*Classes, error) {
	cs := &Classes{All: make([]*schema.ObjectClass, 0, len(texts)+2)}
	for _, v := range texts {
		c := find(string(v))
		if c == nil {
			return nil, Errorf(ClassViolation, "object class %q is not in the schema", schema.NameOf(string(v)))
		}
		cs.add(c)
	}
	for _, c := range cs.All {
		cs.extensible = cs.extensible || c == k.ExtensibleObject
		cs.collects = cs.collects || c == k.collectiveSubentry
		if c.Kind != schema.Structural {
			continue
		}
		switch {
		case cs.Structural == nil || c.Is(cs.Structural):
			cs.Structural = c
		case !cs.Structural.Is(c):
			return nil, Errorf(ClassViolation, "structural object classes %s and %s exclude each other: one must be auxiliary, or a superclass of the other", cs.Structural.Name(), c.Name())
		}
	}
	if cs.Structural == nil {
		return nil, Errorf(ClassViolation, "the entry has no structural object class")
	}
	cs.rule = k.Schema.ContentRule(cs.Structural)
	return cs, nil
}

func (cs *Classes) add(c *schema.ObjectClass) {
	if cs.Has(c) {
		return
	}
	cs.All = append(cs.All, c)
	for _, s := range c.Sup {
		cs.add(s)
	}
}

func (cs *Classes) Has(c *schema.ObjectClass) bool {
	for _, x := range cs.All {
		if x == c {
			return true
		}
	}
	return false
}

// auxiliaries checks the classes against the DIT content rule.
func (cs *Classes) auxiliaries() error {
	if cs.rule != nil {
		if wrong := cs.rule.Classes(cs.All); wrong != "" {
			return Errorf(ClassViolation, "%s", wrong)
		}
	}
	return nil
}

// ClassID returns the id that a commit touches when it changes which entries have a
// class.
func ClassID(c *schema.ObjectClass) entry.ID {
	h := fnv.New128a()
	h.Write([]byte("class " + c.OID))
	return entry.ID(h.Sum(nil))
}

var Root = entry.Root

// KeyOf checks a value's size and syntax and returns the value's key. The key is nil if
// the type is secret or has no equality rule.
func KeyOf(t *schema.AttributeType, v []byte) ([]byte, error) {
	if len(v) > table.MaxValue {
		return nil, Errorf(TooLarge, "a value of %s has %d bytes: at most %d can be stored", t.Name(), len(v), table.MaxValue)
	}
	if err := t.Syntax.Validate(v); err != nil {
		return nil, Errorf(InvalidSyntax, "value of %s: %v", t.Name(), err)
	}
	if t.Equality == nil || t.Secret() {
		return nil, nil
	}
	key, err := t.Equality.Key(v)
	if err != nil {
		return nil, Errorf(InvalidSyntax, "value of %s: %v", t.Name(), err)
	}
	return key, nil
}

const IntegerSyntax = "1.3.6.1.4.1.1466.115.121.1.27"

// NameSyntax is the syntax DN.
const NameSyntax = "1.3.6.1.4.1.1466.115.121.1.12"
