package directory

import (
	"sync/atomic"

	"github.com/seed-4dac0d86/ldapd/entry"
)

// identity is who is bound. A nil one is anonymous.
type identity struct {
	name  string
	id    entry.ID // entry.Root: there is no entry
	admin bool

	limits atomic.Pointer[foundLimits]
	reset  atomic.Bool // the password must be changed before anything else
}

func (i *identity) isAdmin() bool { return i != nil && i.admin }

func (i *identity) hasEntry() bool { return i != nil && i.id != entry.Root }

// dn is the authorization identity's name, "" for the anonymous.
func (i *identity) dn() string {
	if i == nil {
		return ""
	}
	return i.name
}

// authzID is an authorization identity in the form of RFC 4513, 5.2.1.8, empty
// for the anonymous.
func (i *identity) authzID() []byte {
	if i == nil {
		return []byte{}
	}
	return []byte("dn:" + i.name)
}
