package write

import (
	"bytes"
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/partition/internal/catalog"
	"github.com/seed-4dac0d86/ldapd/schema"
)

// Rules are the rules for changes in a transaction. The zero Rules are those of RFC
// 4511 and 4512.
type Rules struct {
	// Permissive lets a Modify add existing values and delete missing ones, without
	// effect.
	Permissive bool
	// Relaxed accepts given values of creatorsName, createTimestamp, modifiersName and
	// modifyTimestamp, and in an Add also of entryUUID. Obsolete types and classes
	// count as active.
	Relaxed bool
	// Accounts accepts values of the server's own account attributes, see ofAccounts.
	Accounts bool
	// Trial means that the transaction will not commit in any case. So a schema change
	// is checked against the existing entries without steps.
	Trial bool
}

// given specifies which of the server's own attributes a new entry may bring.
type given uint8

const (
	givenNone     given = iota
	givenByServer       // account attributes
	givenByRelax        // those that Rules.Relaxed names, and account attributes
	GivenByImport       // all of them
)

// takes reports whether a type that users cannot modify may be given.
func (g given) takes(k *catalog.Types, t *schema.AttributeType) bool {
	return g == GivenByImport || g >= givenByServer && ofAccounts(t) || g == givenByRelax && (t == k.EntryUUID || relaxable(k, t))
}

// passwordPolicy is the arc of draft-behera-ldap-password-policy.
const passwordPolicy = "1.3.6.1.4.1.42.2.27.8.1."

// ofAccounts reports whether a type is one of the server's own account attributes.
func ofAccounts(t *schema.AttributeType) bool {
	return strings.HasPrefix(t.OID, passwordPolicy) || t.NoUserModification && t.Secret()
}

// relaxable reports whether Rules.Relaxed lets a Modify change a type. The other types
// that users cannot modify record facts.
func relaxable(k *catalog.Types, t *schema.AttributeType) bool {
	switch t {
	case k.CreatorsName, k.CreateTimestamp, k.ModifiersName, k.ModifyTimestamp:
		return true
	}
	return false
}

// checkTimes returns an error for impossible times, given by their keys: a modification
// before the creation, or a time in the future. Nil means unknown.
func (tx *Tx) checkTimes(created, modified []byte) error {
	t := tx.Catalog
	now, err := catalog.KeyOf(t.ModifyTimestamp, schema.AppendTime(nil, tx.now()))
	if err != nil {
		return err
	}
	switch {
	case bytes.Compare(created, now) > 0:
		return catalog.Errorf(catalog.Constraint, "createTimestamp lies in the future")
	case bytes.Compare(modified, now) > 0:
		return catalog.Errorf(catalog.Constraint, "modifyTimestamp lies in the future")
	case modified != nil && bytes.Compare(created, modified) > 0:
		return catalog.Errorf(catalog.Constraint, "createTimestamp lies after modifyTimestamp")
	}
	return nil
}

// key returns the key of an attribute's first value, or nil if there is none.
func (e *NewEntry) key(t *schema.AttributeType) []byte {
	if a := e.find(t, ""); a != nil {
		return a.Keys[0]
	}
	return nil
}

// gives reports whether the change sets a type that would otherwise be stamped.
func (m *modification) gives(t *schema.AttributeType) bool {
	return slices.Contains(m.given, t) && m.Edit(t).presentAfter()
}

// checkGiven checks the values that the change sets under relaxed rules.
func (m *modification) checkGiven() error {
	if len(m.given) == 0 {
		return nil
	}
	t := m.tx.Catalog
	for _, g := range []*schema.AttributeType{t.CreatorsName, t.CreateTimestamp} {
		if slices.Contains(m.given, g) && !m.Edit(g).presentAfter() {
			return catalog.Errorf(catalog.Constraint, "attribute %s cannot be deleted: every entry has it", g.Name())
		}
	}
	var modified []byte // nil: it will be now
	if m.gives(t.ModifyTimestamp) {
		modified = m.Edit(t.ModifyTimestamp).key()
	}
	return m.tx.checkTimes(m.Edit(t.CreateTimestamp).key(), modified)
}

// key returns the key of a SINGLE-VALUE type after the change, or nil if it has none.
func (e *edited) key() []byte {
	if v := e.values(""); len(v.now) > 0 {
		return v.now[0].key
	}
	return nil
}
