package bulk

import (
	"encoding/hex"
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/directory/auth"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// Foreign lists operational attributes that other servers export and that this server does not
// use. An import leaves them out and, except for nsUniqueId, writes one note for each
// attribute. If the schema defines an attribute of this list, an import leaves out the
// attribute only if the attribute's usage is dSAOperation, which marks a server's own state. It
// keeps nsRoleDN even with that usage.
var Foreign = []string{
	// OpenLDAP: replication and password policy state.
	"contextCSN", "entryTtl", "dynamicSubtrees", "authTimestamp",
	"pwdChangedTime", "pwdFailureTime", "pwdGraceUseTime", "pwdHistory",
	"pwdLastSuccess", "pwdPolicySubentry", "pwdUniqueAttempts", "entryExpireTimestamp",
	"reqStart", "monitorContext",
	// 389 Directory Server: ids, replication, access rules, account state.
	"nsUniqueId", "entryid", "dsEntryDN", "entryusn", "parentid", "tombstoneNumSubordinates",
	"nscpEntryDN", "nscpEntryWSI", "nsds5ReplConflict", "nsParentUniqueId", "nsTombstoneCSN", "copiedFrom", "copyingFrom",
	"aci", "nsRole", "nsRoleDN", "nsIdleTimeout", "nsLookThroughLimit", "nsSizeLimit", "nsTimeLimit",
	"nsPagedLookThroughLimit", "nsPagedSizeLimit", "nsSchemaCSN", "ldapSchemas", "ldapSyntaxes",
	"passwordExpWarned", "passwordGraceUserTime", "passwordHistory", "passwordRetryCount",
	"passwordAllowChangeTime", "retryCountResetTime", "accountUnlockTime", "lastLoginTime", "lastLoginHistory",
	"internalCreatorsName", "internalModifiersName", "pamExclude", "memberOf", "isMemberOf",
	// ApacheDS.
	"entryParentId", "nbChildren", "nbSubordinates", "accessControlSubentries", "collectiveAttributeSubentries",
	"collectiveExclusions", "triggerExecutionSubentries", "schemaModifiersName", "schemaModifyTimestamp", "revisions",
	"pwdAttributeLastChanged", "entryDeleted",
	// OpenDJ, Oracle Unified Directory, PingDirectory and their relatives; see also foreignPrefixes.
	"entryChecksum", "orclGUID", "orclNormDN", "orclEntryDN",
	// IBM Security Directory Server.
	"ibm-entryUUID", "ibm-allGroups", "ibm-allMembers", "ibm-entryChecksum", "ibm-entryChecksumOp", "ibm-hasSubordinates",
	"ibm-capabilitiesSubentry", "ibm-effectiveAcl", "ibm-filterAclEntry", "ibm-filterAclInherit", "ibm-searchSizeLimit",
	"ibm-searchTimeLimit", "aclEntry", "aclPropagate", "aclSource", "entryOwner", "ownerPropagate", "ownerSource",
	// eDirectory.
	"GUID", "ACL", "entryFlags", "subordinateCount", "localEntryID", "backLink", "obituary",
	"synchronizedUpTo", "transitiveVector", "purgeVector", "partitionStatus", "partitionCreationTime", "localReceivedUpTo",
	"federationBoundary",
	// Active Directory and Samba.
	"objectGUID", "replPropertyMetaData", "replUpToDateVector", "uSNChanged", "uSNCreated", "uSNLastObjRem",
	"uSNDSALastObjRemoved", "uSNSource", "whenChanged", "whenCreated", "nTSecurityDescriptor", "dSCorePropagationData",
	"instanceType", "objectCategory", "isCriticalSystemObject", "distinguishedName", "canonicalName", "sDRightsEffective",
	"allowedAttributes", "allowedAttributesEffective", "allowedChildClasses", "allowedChildClassesEffective",
	"badPwdCount", "badPasswordTime", "lastLogon", "lastLogoff", "lastLogonTimestamp", "logonCount", "lastKnownParent",
}

// foreignPrefixes are the beginnings of the names of attributes with the state of other servers,
// in lower case. An import treats attributes with such names as those of the list Foreign.
var foreignPrefixes = []string{
	"ds-",            // OpenDJ, Oracle Unified Directory, PingDirectory
	"nsds5", "nsruv", // replication of 389 Directory Server and Oracle DSEE
	"nscp", "nstombstone", "ibm-pwd", "ibm-replication", "ibm-slapd",
}

// isForeign reports whether a name is that of an attribute of other servers.
func isForeign(name string) bool {
	name = strings.ToLower(name)
	return foreign[name] || slices.ContainsFunc(foreignPrefixes, func(p string) bool { return strings.HasPrefix(name, p) })
}

var foreign = func() map[string]bool {
	m := make(map[string]bool, len(Foreign))
	for _, n := range Foreign {
		m[strings.ToLower(n)] = true
	}
	return m
}()

// A fate is what an import does with an attribute.
type fate uint8

const (
	keep fate = iota
	drop
	// The attribute is the entry's id in another server. The id becomes entryUUID if the entry has none.
	// uniqueID drops the attribute. keepUniqueID keeps the attribute, because the schema
	// defines it with another usage than dSAOperation.
	uniqueID
	keepUniqueID
	// The attribute contains roles of 389. An import disables the account if one of the roles
	// does so in 389. dropRoles drops the attribute. keepRoles keeps the attribute, because
	// the schema defines it.
	dropRoles
	keepRoles
	// The values are certificates and the like. An empty one, which 389 accepts, is dropped.
	binaries
	password  // the value is kept, and counted if no bind can use it
	disabling // if the value is TRUE, the account is disabled: it gets pwdAccountLockedTime
	classes   // the object classes
)

// A cleaner removes foreign attributes. If once is set, it also removes duplicate values.
// Only one goroutine may use a cleaner.
type cleaner struct {
	schema *schema.Schema
	note   func(attribute string)
	tally  *tally
	once   bool // drop duplicate values
	// translate is set if accounts and password policies of other servers are converted to
	// the form of this server.
	translate bool
	fates     map[string]fate // by attribute description
}

// newCleaner returns a cleaner for entries that this server imports itself. Send changes
// the cleaner for entries that it sends to another server.
func newCleaner(s *schema.Schema, note func(string), t *tally, once bool) *cleaner {
	return &cleaner{schema: s, note: note, tally: t, once: once, translate: s.Attribute(lockedTime) != nil && s.Class(policyClass) != nil, fates: map[string]fate{}}
}

// A Translator translates attributes of other servers as an import does. Only one
// goroutine may use it.
type Translator struct{ c *cleaner }

// NewTranslator returns a Translator for a directory with the schema s. It calls note
// with each attribute that is left out, with some attributes more than once.
func NewTranslator(s *schema.Schema, note func(attribute string)) *Translator {
	return &Translator{newCleaner(s, note, newTally(), false)}
}

// Translate returns the attributes that an import would store for an entry with the given
// attributes.
func (t *Translator) Translate(attributes []op.PartialAttribute) []op.PartialAttribute {
	return t.c.clean(attributes)
}

func (s *cleaner) fate(description string) fate {
	f, ok := s.fates[description]
	if ok {
		return f
	}
	name, _, _ := strings.Cut(description, ";")
	t := s.schema.Attribute(name)
	switch {
	case s.translate && strings.EqualFold(name, "objectClass"):
		f = classes
	case strings.EqualFold(name, "nsAccountLock"), strings.EqualFold(name, "ds-pwp-account-disabled"):
		if s.translate {
			f = disabling
		}
	case t != nil && t == s.schema.Attribute("userPassword"):
		f = password
	case strings.EqualFold(name, "nsRoleDN") && t != nil:
		f = keepRoles
	case isID(name) && t != nil && t.Usage != schema.DSAOperation:
		f = keepUniqueID
	case t != nil && t.Usage != schema.DSAOperation && strings.HasSuffix(t.SentName(), ";binary"):
		f = binaries
	case !isForeign(name) || t != nil && t.Usage != schema.DSAOperation:
	case isID(name):
		f = uniqueID
	case strings.EqualFold(name, "nsRoleDN"):
		f = dropRoles
		s.note(name)
	default:
		f = drop
		s.note(name)
	}
	s.fates[description] = f
	return f
}

// clean returns the attributes that are imported.
func (s *cleaner) clean(attributes []op.PartialAttribute) []op.PartialAttribute {
	if s.once {
		attributes = s.dropTwins(attributes)
	}
	foreign, policy := false, false
	for i := range attributes {
		switch a := &attributes[i]; s.fate(a.Description) {
		case keep:
		case binaries:
			foreign = foreign || slices.ContainsFunc(a.Values, isEmpty)
		case password:
			foreign = foreign || slices.ContainsFunc(a.Values, isHidden)
			s.count(a.Values)
		case classes:
			policy = policy || isPolicy389(a)
		default:
			foreign = true
		}
	}
	if foreign {
		attributes = s.withoutForeign(attributes)
	}
	if policy {
		attributes = s.translatePolicy(attributes)
	}
	return attributes
}

// cleanChanges returns the changes that are applied. Logs of changes, such as those of slapd's
// overlay auditlog, also contain the changes of attributes that a server maintains itself.
// Accounts are disabled and enabled as an import of entries does it.
func (s *cleaner) cleanChanges(changes []op.Modification) []op.Modification {
	left := func(m op.Modification) bool {
		switch s.fate(m.Description) {
		case drop, uniqueID, dropRoles:
			return true
		case password:
			return slices.ContainsFunc(m.Values, isHidden)
		}
		name, _, _ := strings.Cut(m.Description, ";")
		t := s.schema.Attribute(name)
		if t == nil || !t.NoUserModification || !t.Operational() {
			return false
		}
		s.note(t.Name())
		return true
	}
	var kept []op.Modification
	for _, m := range changes {
		f := s.fate(m.Description)
		if f == password && (m.Kind != op.ModDelete || slices.ContainsFunc(m.Values, isHidden)) {
			s.count(m.Values)
		}
		switch {
		case left(m):
		case f == disabling && m.Kind != op.ModDelete && isTrue(m.Values):
			kept = append(kept, op.Change(op.ModReplace, lockedTime, disabledTime))
		case f == disabling:
			kept = append(kept, op.Change(op.ModReplace, lockedTime), op.Change(op.ModReplace, m.Description))
		default:
			kept = append(kept, m)
		}
	}
	return kept
}

// count counts the passwords that no bind can use.
func (s *cleaner) count(passwords [][]byte) {
	for _, v := range passwords {
		switch scheme, usable := auth.Usable(v); {
		case isHidden(v):
			s.tally.hide()
		case !usable:
			s.tally.password(scheme)
		}
	}
}

// isHidden reports whether a value is what the audit log of 389 Directory Server shows in place of
// a password. As a password, it would lock the account.
func isHidden(v []byte) bool { return string(v) == "**********************" }

// dropTwins drops every value that equals an earlier value of the same attribute type with the
// same options, even if the earlier value is under another name of that type.
func (s *cleaner) dropTwins(attributes []op.PartialAttribute) []op.PartialAttribute {
	seen := map[string]bool{}
	attributes = slices.Clone(attributes)
	for i := range attributes {
		a := &attributes[i]
		name, options, _ := strings.Cut(a.Description, ";")
		t := s.schema.Attribute(name)
		if t == nil {
			continue
		}
		isTwin := func(v []byte) bool {
			key := v
			if t.Equality != nil {
				if k, err := t.Equality.Key(v); err == nil {
					key = k
				}
			}
			id := t.OID + entry.SortOptions(options) + "\x00" + string(key)
			if !seen[id] {
				seen[id] = true
				return false
			}
			s.tally.duplicate(t.Name())
			return true
		}
		a.Values = slices.DeleteFunc(slices.Clone(a.Values), isTwin)
	}
	return slices.DeleteFunc(attributes, func(a op.PartialAttribute) bool { return len(a.Values) == 0 })
}

func (s *cleaner) withoutForeign(attributes []op.PartialAttribute) []op.PartialAttribute {
	var id [][]byte
	hasID, hasLock, disabled := false, false, false
	attributes = s.withoutVoid(slices.Clone(attributes))
	attributes = slices.DeleteFunc(attributes, func(a op.PartialAttribute) bool {
		switch s.fate(a.Description) {
		case disabling:
			disabled = disabled || isTrue(a.Values)
		case binaries, password:
			return len(a.Values) == 0
		case keep, classes:
			hasID = hasID || strings.EqualFold(a.Description, "entryUUID")
			hasLock = hasLock || strings.EqualFold(a.Description, "nsAccountLock")
			return false
		case keepRoles:
			disabled = disabled || disables(a.Values)
			return false
		case keepUniqueID:
			if v := fromID(&a); v != nil {
				id = v
			}
			return false
		case dropRoles:
			disabled = disabled || disables(a.Values)
		case uniqueID:
			if v := fromID(&a); v != nil {
				id = v
			}
		}
		return true
	})
	if id != nil && !hasID {
		attributes = append(attributes, op.PartialAttribute{Description: "entryUUID", Values: id})
	}
	switch {
	case disabled && s.translate:
		attributes = disable(attributes)
	case disabled && !hasLock:
		attributes = append(attributes, op.Attribute("nsAccountLock", "TRUE"))
	}
	return attributes
}

// withoutVoid drops the empty values of binary attributes, and hidden passwords.
func (s *cleaner) withoutVoid(attributes []op.PartialAttribute) []op.PartialAttribute {
	for i := range attributes {
		a := &attributes[i]
		switch s.fate(a.Description) {
		case binaries:
			if slices.ContainsFunc(a.Values, isEmpty) {
				s.tally.emptied(a.Description)
				a.Values = slices.DeleteFunc(slices.Clone(a.Values), isEmpty)
			}
		case password:
			a.Values = slices.DeleteFunc(slices.Clone(a.Values), isHidden)
		}
	}
	return attributes
}

func isEmpty(v []byte) bool { return len(v) == 0 }

// ids are the attributes with the id of an entry in another server, each with the function that
// converts its value to a UUID.
var ids = map[string]func([][]byte) [][]byte{
	"nsuniqueid": fromUniqueID, "ibm-entryuuid": fromUniqueID, "orclguid": fromUniqueID, "objectguid": fromGUID,
}

func isID(name string) bool { return ids[strings.ToLower(name)] != nil }

// fromID converts the value of an id attribute.
func fromID(a *op.PartialAttribute) [][]byte {
	name, _, _ := strings.Cut(a.Description, ";")
	return ids[strings.ToLower(name)](a.Values)
}

// fromGUID converts the 16 octets of a GUID of Active Directory, whose first three numbers are
// little-endian.
func fromGUID(values [][]byte) [][]byte {
	if len(values) != 1 || len(values[0]) != len(entry.ID{}) {
		return nil
	}
	id := entry.ID(values[0])
	slices.Reverse(id[:4])
	slices.Reverse(id[4:6])
	slices.Reverse(id[6:8])
	return [][]byte{[]byte(id.String())}
}

// disables reports whether one of the roles is 389's role of disabled accounts, from
// which 389 computes nsAccountLock.
func disables(roles [][]byte) bool {
	return slices.ContainsFunc(roles, func(v []byte) bool {
		name, err := dn.Parse(string(v))
		return err == nil && len(name) > 0 && len(name[0]) == 1 && strings.EqualFold(name[0][0].Type, "cn") &&
			strings.EqualFold(string(name[0][0].Value), "nsManagedDisabledRole")
	})
}

// fromUniqueID converts 389's spelling of a UUID, which is four groups of eight digits.
// It returns nil if the value is no UUID.
func fromUniqueID(values [][]byte) [][]byte {
	if len(values) != 1 {
		return nil
	}
	id, err := hex.DecodeString(strings.ReplaceAll(string(values[0]), "-", ""))
	if err != nil || len(id) != len(entry.ID{}) {
		return nil
	}
	return [][]byte{[]byte(entry.ID(id).String())}
}
