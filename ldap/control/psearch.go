package control

import "github.com/seed-4dac0d86/ldapd/ldap/ber"

// These are the OIDs of PersistentSearch and EntryChange.
const (
	OIDPersistentSearch = "2.16.840.1.113730.3.4.3"
	OIDEntryChange      = "2.16.840.1.113730.3.4.7"
)

// These are the types of changes. PersistentSearch.Types is the sum of some of these
// types.
const (
	ChangeAdd    = 1
	ChangeDelete = 2
	ChangeModify = 4
	ChangeModDN  = 8

	changeAny = ChangeAdd | ChangeDelete | ChangeModify | ChangeModDN
)

// PersistentSearch is the value of the persistent search control.
//
// See draft-ietf-ldapext-psearch-03, section 2:
//
//	PersistentSearch ::= SEQUENCE {
//		changeTypes INTEGER,
//		changesOnly BOOLEAN,
//		returnECs BOOLEAN
//	}
type PersistentSearch struct {
	Types       int64
	ChangesOnly bool
	ReturnECs   bool // each changed entry is sent with an EntryChange
}

// ParsePersistentSearch parses the value of a request.
func ParsePersistentSearch(value []byte) (p PersistentSearch, err error) {
	err = parse(value, func(r *ber.Reader) {
		p.Types = r.IntIn(ber.Integer, 1, changeAny)
		p.ChangesOnly = r.Bool(ber.Boolean)
		p.ReturnECs = r.Bool(ber.Boolean)
	})
	return p, err
}

// EntryChange is the value of the entry change notification control. EntryChange has no
// changeNumber, because a change gets its number only when it is settled, which is later.
//
// See draft-ietf-ldapext-psearch-03, section 5:
//
//	EntryChangeNotification ::= SEQUENCE {
//		changeType ENUMERATED {
//			add             (1),
//			delete          (2),
//			modify          (4),
//			modDN           (8)
//		},
//		previousDN   LDAPDN OPTIONAL,     -- modifyDN ops. only
//		changeNumber INTEGER OPTIONAL     -- if supported
//	}
type EntryChange struct {
	Type       int64
	PreviousDN string // "": absent
}

// Encode returns the value.
func (e EntryChange) Encode() []byte {
	b := ber.Open(nil, ber.Sequence)
	b = ber.AppendInt(b, ber.Enumerated, e.Type)
	if e.PreviousDN != "" {
		b = ber.AppendString(b, ber.OctetString, e.PreviousDN)
	}
	return ber.Close(b, 0)
}
