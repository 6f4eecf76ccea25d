package write

import (
	"bytes"
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/partition/internal/catalog"
	"github.com/seed-4dac0d86/ldapd/schema"
)

// Rules are those that changes in a transaction are judged by. The zero Rules
// are RFC 4511's and 4512's.
type Rules struct {
	// Permissive lets a Modify add values that are there already and delete
	// some that are not: they change nothing.
	Permissive bool
	// Relaxed takes values of creatorsName, createTimestamp, modifiersName and
	// modifyTimestamp as given, and with Add of entryUUID too. Obsolete types and
	// classes count as active.
	Relaxed bool
	// Accounts takes what the server keeps of accounts: see ofAccounts.
	Accounts bool
	// Trial says that the transaction will not commit, whatever comes: a change of
	// the schema is judged by the entries there are, without steps.
	Trial bool
}

// given says which of the server's own attributes come with a new entry.
type given uint8

const (
	givenNone     given = iota
	givenByServer       // those of accounts
	givenByRelax        // those that Rules.Relaxed names, and those of accounts
	GivenByImport       // all
)

// takes reports whether a type that users cannot modify may come.
func (g given) takes(k *catalog.Types, t *schema.AttributeType) bool {
	return g == GivenByImport || g >= givenByServer && ofAccounts(t) || g == givenByRelax && (t == k.EntryUUID || relaxable(k, t))
}

// passwordPolicy is the arc of draft-behera-ldap-password-policy.
const passwordPolicy = "1.3.6.1.4.1.42.2.27.8.1."

// ofAccounts reports whether a type is one that the server keeps of accounts.
func ofAccounts(t *schema.AttributeType) bool {
	return strings.HasPrefix(t.OID, passwordPolicy) || t.NoUserModification && t.Secret()
}

// relaxable reports whether Rules.Relaxed lets a Modify change a type. All others
// that users cannot modify say what is so, whoever says otherwise.
func relaxable(k *catalog.Types, t *schema.AttributeType) bool {
	switch t {
	case k.CreatorsName, k.CreateTimestamp, k.ModifiersName, k.ModifyTimestamp:
		return true
	}
	return false
}

// checkTimes refuses times that cannot be, by their keys: a change before the
// making, or one to come. Nil: not known.
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

// key returns the key of an attribute's first value, nil if there is none.
func (e *NewEntry) key(t *schema.AttributeType) []byte {
	if a := e.find(t, ""); a != nil {
		return a.Keys[0]
	}
	return nil
}

// gives reports whether the change sets a type that would be stamped.
func (m *modification) gives(t *schema.AttributeType) bool {
	return slices.Contains(m.given, t) && m.Edit(t).presentAfter()
}

// checkGiven tests what relaxed rules let the change give.
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
	var modified []byte // nil: becomes now
	if m.gives(t.ModifyTimestamp) {
		modified = m.Edit(t.ModifyTimestamp).key()
	}
	return m.tx.checkTimes(m.Edit(t.CreateTimestamp).key(), modified)
}

// key returns the key that a SINGLE-VALUE type has in the end, nil if it has none.
func (e *edited) key() []byte {
	if v := e.values(""); len(v.now) > 0 {
		return v.now[0].key
	}
	return nil
}
