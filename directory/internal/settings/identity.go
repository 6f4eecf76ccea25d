package settings

import (
	"sync/atomic"

	"github.com/seed-4dac0d86/ldapd/access"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/entry"
)

// Identity is the identity that a session is bound as. A nil Identity is anonymous.
type Identity struct {
	Name  *dn.Name
	ID    entry.ID // entry.Root: the identity has no entry
	Admin bool

	Bound  string // mechanism of the bind, in lower case
	limits atomic.Pointer[foundLimits]
	asker  atomic.Pointer[access.Who]
	Reset  atomic.Bool // the password must be changed before any other operation
	// Judged is the ordinal of the last state in which the account was found usable.
	Judged atomic.Uint64
}

// IsAdmin reports whether the identity is the administrator.
func (i *Identity) IsAdmin() bool { return i != nil && i.Admin }

// HasEntry reports whether the identity has an entry.
func (i *Identity) HasEntry() bool { return i != nil && i.ID != entry.Root }

// DN returns the identity's name, or "" if the identity is anonymous.
func (i *Identity) DN() string {
	if i == nil {
		return ""
	}
	return i.Name.String()
}

// AuthzID returns the identity in the form of RFC 4513, 5.2.1.8. The result is empty if
// the identity is anonymous.
func (i *Identity) AuthzID() []byte {
	if i == nil {
		return []byte{}
	}
	return []byte("dn:" + i.Name.String())
}

// Mechanism returns the mechanism of the bind, or "" if the identity is anonymous.
func (i *Identity) Mechanism() string {
	if i == nil {
		return ""
	}
	return i.Bound
}

// Asker returns the identity in the form that access rules use. The identity must not be
// nil.
func (i *Identity) Asker(r *access.Rules) *access.Who {
	w := i.asker.Load()
	if w == nil {
		w = r.Who(i.Name, i.ID)
		i.asker.Store(w)
	}
	return w
}
