package directory

import (
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/schema"
)

// known are the elements that the directory itself knows of a schema.
type known struct {
	schema                                                       *schema.Schema
	referral, alias, subentry                                    *schema.ObjectClass
	objectClass, ref, aliasedObjectName                          *schema.AttributeType
	userPassword, scramKey, authPassword, contextCSN             *schema.AttributeType
	entryDN, subschemaSubentry, hasSubordinates, numSubordinates *schema.AttributeType
	governingStructureRule                                       *schema.AttributeType
	isReferral, isAlias, isSubentry                              filter.Resolved
	// What collective attributes take (RFC 3671).
	collectiveSubentry                         *schema.ObjectClass
	isCollective                               filter.Resolved
	subtreeSpecification, administrativeRole   *schema.AttributeType
	collectiveExclusions, collectiveSubentries *schema.AttributeType
	// computed are the attributes that no entry stores, as far as the schema
	// has them.
	computed []*schema.AttributeType
	account  accountTypes
}

func newKnown(s *schema.Schema) *known {
	is := func(class string) filter.Resolved {
		return filter.Resolve(&filter.Equal{Attribute: "objectClass", Value: []byte(class)}, s)
	}
	k := &known{
		schema:            s,
		referral:          s.Class("referral"),
		alias:             s.Class("alias"),
		subentry:          s.Class("subentry"),
		objectClass:       s.Attribute("objectClass"),
		ref:               s.Attribute("ref"),
		aliasedObjectName: s.Attribute("aliasedObjectName"),
		userPassword:      s.Attribute("userPassword"),
		scramKey:          s.Attribute("scramKey"),
		authPassword:      s.Attribute("authPassword"),
		entryDN:           s.Attribute("entryDN"),
		subschemaSubentry: s.Attribute("subschemaSubentry"),
		hasSubordinates:   s.Attribute("hasSubordinates"),
		numSubordinates:   s.Attribute("numSubordinates"),

		governingStructureRule: s.Attribute("governingStructureRule"),

		isReferral: is("referral"),
		isAlias:    is("alias"),
		isSubentry: is("subentry"),

		collectiveSubentry:   s.Class("collectiveAttributeSubentry"),
		isCollective:         is("collectiveAttributeSubentry"),
		subtreeSpecification: s.Attribute("subtreeSpecification"),
		administrativeRole:   s.Attribute("administrativeRole"),
		collectiveExclusions: s.Attribute("collectiveExclusions"),
		collectiveSubentries: s.Attribute("collectiveAttributeSubentries"),
		contextCSN:           s.Attribute("contextCSN"),
		account:              newAccountTypes(s),
	}
	for _, t := range []*schema.AttributeType{k.entryDN, k.subschemaSubentry, k.hasSubordinates, k.numSubordinates} {
		if t != nil {
			k.computed = append(k.computed, t)
		}
	}
	if len(s.StructureRules()) > 0 {
		k.computed = append(k.computed, k.governingStructureRule)
	}
	return k
}

// is reports whether an entry is of a class. Entries name superclasses too, so
// that looking for the one is enough.
func (k *known) is(e *entry.Entry, c *schema.ObjectClass) bool {
	for _, v := range e.Values(k.objectClass) {
		if string(v) == c.OID {
			return true
		}
		for _, name := range c.Names {
			if len(name) == len(v) && strings.EqualFold(name, string(v)) {
				return true
			}
		}
	}
	return false
}

// hasClass reports whether an entry is of a class, known to the schema or not.
func (k *known) hasClass(e *entry.Entry, class string) bool {
	return slices.ContainsFunc(e.Values(k.objectClass), func(v []byte) bool { return k.isNamed(string(v), class) })
}

// isNamed reports whether two names are of the same class.
func (k *known) isNamed(a, b string) bool {
	if strings.EqualFold(a, b) {
		return true
	}
	c := k.schema.Class(a)
	return c != nil && c == k.schema.Class(b)
}

// isOf reports whether a description is of a type, options or not.
func (k *known) isOf(description string, t *schema.AttributeType) bool {
	name, _, _ := strings.Cut(description, ";")
	return len(name) > 1 && t != nil && k.schema.Attribute(name) == t
}

// isName reports whether values of a type are names.
func isName(t *schema.AttributeType) bool { return t.Syntax.OID == "1.3.6.1.4.1.1466.115.121.1.12" }
