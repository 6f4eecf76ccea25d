// Package wellknown finds the schema elements that the directory itself interprets.
package wellknown

import (
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/directory/access"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// Elements are the classes and attributes of a schema that the directory itself uses.
type Elements struct {
	Schema                                                       *schema.Schema
	Referral, Alias, Subentry                                    *schema.ObjectClass
	ObjectClass, Ref, AliasedObjectName                          *schema.AttributeType
	UserPassword, ScramKey, AuthPassword, ContextCSN             *schema.AttributeType
	EntryDN, SubschemaSubentry, HasSubordinates, NumSubordinates *schema.AttributeType
	NumAllSubordinates                                           *schema.AttributeType
	GoverningStructureRule, AccessRule                           *schema.AttributeType
	// The answers to Get Effective Rights.
	ACLRights, ACLRightsInfo, EntryLevelRights, AttributeLevelRights *schema.AttributeType
	// MemberOf and IsMemberOf are computed from the groups. Members are the attributes by
	// which static groups name their members.
	MemberOf, IsMemberOf, Member, UniqueMember *schema.AttributeType
	Members                                    []*schema.AttributeType
	IsReferral, IsAlias, IsSubentry            filter.Resolved
	// The elements that collective attributes need (RFC 3671).
	CollectiveSubentry                         *schema.ObjectClass
	IsCollective                               filter.Resolved
	SubtreeSpecification, AdministrativeRole   *schema.AttributeType
	CollectiveExclusions, CollectiveSubentries *schema.AttributeType
	// Computed are the attributes of the schema that show.Computed computes.
	Computed []*schema.AttributeType
	Account  AccountTypes
	// Policy is the class of password policies.
	Policy   *schema.ObjectClass
	IsPolicy filter.Resolved
}

// New returns the elements of a schema.
func New(s *schema.Schema) *Elements {
	is := func(class string) filter.Resolved {
		return filter.Resolve(filter.EqualTo("objectClass", class), s)
	}
	k := &Elements{
		Schema:            s,
		Referral:          s.Class("referral"),
		Alias:             s.Class("alias"),
		Subentry:          s.Class("subentry"),
		ObjectClass:       s.Attribute("objectClass"),
		Ref:               s.Attribute("ref"),
		AliasedObjectName: s.Attribute("aliasedObjectName"),
		UserPassword:      s.Attribute("userPassword"),
		ScramKey:          s.Attribute("scramKey"),
		AuthPassword:      s.Attribute("authPassword"),
		EntryDN:           s.Attribute("entryDN"),
		SubschemaSubentry: s.Attribute("subschemaSubentry"),
		HasSubordinates:   s.Attribute("hasSubordinates"),
		NumSubordinates:   s.Attribute("numSubordinates"),

		NumAllSubordinates: s.Attribute("numAllSubordinates"),

		GoverningStructureRule: s.Attribute("governingStructureRule"),
		AccessRule:             s.Attribute("accessRule"),
		ACLRights:              s.Attribute("aclRights"),
		ACLRightsInfo:          s.Attribute("aclRightsInfo"),
		EntryLevelRights:       s.Attribute("entryLevelRights"),
		AttributeLevelRights:   s.Attribute("attributeLevelRights"),

		MemberOf:     s.Attribute("memberOf"),
		IsMemberOf:   s.Attribute("isMemberOf"),
		Member:       s.Attribute("member"),
		UniqueMember: s.Attribute("uniqueMember"),
		Members:      access.MemberTypes(s),

		IsReferral: is("referral"),
		IsAlias:    is("alias"),
		IsSubentry: is("subentry"),

		CollectiveSubentry:   s.Class("collectiveAttributeSubentry"),
		IsCollective:         is("collectiveAttributeSubentry"),
		SubtreeSpecification: s.Attribute("subtreeSpecification"),
		AdministrativeRole:   s.Attribute("administrativeRole"),
		CollectiveExclusions: s.Attribute("collectiveExclusions"),
		CollectiveSubentries: s.Attribute("collectiveAttributeSubentries"),
		ContextCSN:           s.Attribute("contextCSN"),
		Account:              newAccountTypes(s),
		Policy:               s.Class("pwdPolicy"),
		IsPolicy:             is("pwdPolicy"),
	}
	for _, t := range []*schema.AttributeType{k.EntryDN, k.SubschemaSubentry, k.HasSubordinates, k.NumSubordinates, k.NumAllSubordinates, k.MemberOf, k.IsMemberOf} {
		if t != nil {
			k.Computed = append(k.Computed, t)
		}
	}
	if len(s.StructureRules()) > 0 {
		k.Computed = append(k.Computed, k.GoverningStructureRule)
	}
	return k
}

// Is reports whether an entry is of a class. It compares the values of objectClass only with
// the class itself, not with subclasses, because the values include all superclasses.
func (k *Elements) Is(e *entry.Entry, c *schema.ObjectClass) bool {
	for _, v := range e.Values(k.ObjectClass) {
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

// HasClass reports whether an entry is of a class. The schema need not define the class.
func (k *Elements) HasClass(e *entry.Entry, class string) bool {
	return slices.ContainsFunc(e.Values(k.ObjectClass), func(v []byte) bool { return k.IsNamed(string(v), class) })
}

// IsNamed reports whether two names belong to the same class.
func (k *Elements) IsNamed(a, b string) bool {
	if strings.EqualFold(a, b) {
		return true
	}
	c := k.Schema.Class(a)
	return c != nil && c == k.Schema.Class(b)
}

// IsOf reports whether a description is of a type, with or without options.
func (k *Elements) IsOf(description string, t *schema.AttributeType) bool {
	name, _, _ := strings.Cut(description, ";")
	return len(name) > 1 && t != nil && k.Schema.Attribute(name) == t
}

// IsName reports whether values of a type are names.
func IsName(t *schema.AttributeType) bool { return t.Syntax.OID == "1.3.6.1.4.1.1466.115.121.1.12" }
