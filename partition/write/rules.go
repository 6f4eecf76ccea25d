package write

import (
	"bytes"
	"context"
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// Rules are the rules for the changes of a transaction. The zero Rules are the rules of
// RFC 4511 and 4512.
type Rules struct {
	// Permissive lets a Modify add values that exist and delete values that do not exist.
	// Such an addition or deletion has no effect.
	Permissive bool
	// Relaxed accepts values of creatorsName, createTimestamp, modifiersName and
	// modifyTimestamp from the client. An Add then also accepts entryUUID and account
	// attributes, and a Modify can change the structural class. Obsolete types and classes
	// count as active.
	Relaxed bool
	// Kept lets a Modify write every attribute that is stored with entries, and does not check
	// timestamps. With it, an entry can be made equal to an entry of another server.
	Kept bool
	// Accounts lets the client set account attributes that normally only the server sets (see
	// OfAccounts).
	Accounts bool
	// Together checks only at the end of the transaction that values which must name entries do
	// so. So entries that name each other can be added one by one.
	Together bool
	// Sees reports whether the client sees an entry. If it is not nil, new values of attributes whose
	// values follow entries must name entries that the client sees.
	Sees func(ctx context.Context, id entry.ID) (bool, error)
	// Trial means that the transaction never commits. Therefore a change of the schema is
	// checked against the existing entries at once, without steps.
	Trial bool
}

// given specifies which attributes a request to add an entry may contain although
// normally only the server sets them.
type given uint8

const (
	givenNone     given = iota
	givenByServer       // account attributes
	givenByRelax        // the types that Rules.Relaxed names, and account attributes
	GivenByImport       // all types
)

// The method "takes" reports whether a request may contain values of a type that users cannot
// modify.
func (g given) takes(k *catalog.Types, t *schema.AttributeType) bool {
	return g == GivenByImport || g >= givenByServer && OfAccounts(t) || g == givenByRelax && (t == k.EntryUUID || relaxable(k, t))
}

// passwordPolicy is the arc of draft-behera-ldap-password-policy.
const passwordPolicy = "1.3.6.1.4.1.42.2.27.8.1."

// OfAccounts reports whether a type is an account attribute: a type of the password policy
// draft, or a secret type that users cannot modify.
func OfAccounts(t *schema.AttributeType) bool {
	return strings.HasPrefix(t.OID, passwordPolicy) || t.NoUserModification && t.Secret()
}

// relaxable reports whether only the server normally sets a type, but Rules.Relaxed lets a
// Modify change it.
func relaxable(k *catalog.Types, t *schema.AttributeType) bool {
	switch t {
	case k.CreatorsName, k.CreateTimestamp, k.ModifiersName, k.ModifyTimestamp:
		return true
	}
	return false
}

// checkTimes returns an error for impossible times: a modification before the creation,
// or a time in the future. created and modified are keys. A nil key means that the time
// is unknown.
func (st *stamper) checkTimes(created, modified []byte) error {
	t := st.tx.Catalog
	now, err := catalog.KeyOf(t.ModifyTimestamp, schema.AppendTime(nil, st.now()))
	if err != nil {
		return err
	}
	switch {
	case bytes.Compare(created, now) > 0:
		return catalog.Errorf(catalog.Constraint, "createTimestamp is in the future")
	case bytes.Compare(modified, now) > 0:
		return catalog.Errorf(catalog.Constraint, "modifyTimestamp is in the future")
	case modified != nil && bytes.Compare(created, modified) > 0:
		return catalog.Errorf(catalog.Constraint, "createTimestamp is later than modifyTimestamp")
	}
	return nil
}

// key returns the key of an attribute's first value, or nil if the entry has no value.
func (e *NewEntry) key(t *schema.AttributeType) []byte {
	if a := e.find(t, ""); a != nil {
		return a.Keys[0]
	}
	return nil
}

// setsStamp reports whether the request sets a type that the method stamp would otherwise set.
func (m *modification) setsStamp(t *schema.AttributeType) bool {
	return slices.Contains(m.given, t) && m.Edit(t).presentAfter()
}

// checkGiven checks the values that the change sets under relaxed rules.
func (m *modification) checkGiven() error {
	if len(m.given) == 0 || m.tx.Rules.Kept {
		return nil
	}
	t := m.tx.Catalog
	for _, g := range []*schema.AttributeType{t.CreatorsName, t.CreateTimestamp} {
		if slices.Contains(m.given, g) && !m.Edit(g).presentAfter() {
			return catalog.Errorf(catalog.Constraint, "attribute %s cannot be deleted: every entry has it", g.Name())
		}
	}
	var modified []byte // nil: the time of this change
	if m.setsStamp(t.ModifyTimestamp) {
		modified = m.Edit(t.ModifyTimestamp).key()
	}
	return m.tx.checkTimes(m.Edit(t.CreateTimestamp).key(), modified)
}

// key returns the key of a SINGLE-VALUE type after the change, or nil if there is no
// value.
func (e *edited) key() []byte {
	if v := e.values(""); len(v.now) > 0 {
		return v.now[0].key
	}
	return nil
}
