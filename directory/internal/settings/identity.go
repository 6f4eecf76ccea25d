package settings

import (
	"sync/atomic"

	"github.com/seed-4dac0d86/ldapd/access"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/entry"
)

// Identity is who is bound. A nil one is anonymous.
type Identity struct {
	Name  *dn.Name
	ID    entry.ID // entry.Root: there is no entry
	Admin bool

	Bound  string // the mechanism that it is bound by, in lower case
	limits atomic.Pointer[foundLimits]
	asker  atomic.Pointer[access.Who]
	Reset  atomic.Bool // the password must be changed before anything else
	// Judged is the ordinal of a state in which the account could be used.
	Judged atomic.Uint64
}

// IsAdmin reports whether it is the administrator.
func (i *Identity) IsAdmin() bool { return i != nil && i.Admin }

// HasEntry reports whether it has an entry.
func (i *Identity) HasEntry() bool { return i != nil && i.ID != entry.Root }

// DN is the authorization identity's name, "" for the anonymous.
func (i *Identity) DN() string {
	if i == nil {
		return ""
	}
	return i.Name.String()
}

// AuthzID is an authorization identity in the form of RFC 4513, 5.2.1.8, empty
// for the anonymous.
func (i *Identity) AuthzID() []byte {
	if i == nil {
		return []byte{}
	}
	return []byte("dn:" + i.Name.String())
}

// Mechanism is that of the bind, "" of the anonymous.
func (i *Identity) Mechanism() string {
	if i == nil {
		return ""
	}
	return i.Bound
}

// Asker is the identity as access rules know it. It must not be nil.
func (i *Identity) Asker(r *access.Rules) *access.Who {
	w := i.asker.Load()
	if w == nil {
		w = r.Who(i.Name, i.ID)
		i.asker.Store(w)
	}
	return w
}
