package settings

import (
	"sync/atomic"
	"time"

	"github.com/seed-4dac0d86/ldapd/directory/access"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
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
	// judged is the ordinal of the last state in which a check found the account usable.
	// The account stays usable until its entry changes, but not beyond the time in ends.
	judged atomic.Uint64
	ends   atomic.Int64 // in Unix nanoseconds; 0: the time does not matter
}

// SetUsable records that the account is usable in the state with the given ordinal. The
// parameter ends is the time at which the account becomes unusable, or zero if there is no
// such time.
func (i *Identity) SetUsable(ordinal uint64, ends time.Time) {
	at := int64(0)
	if !ends.IsZero() {
		at = ends.UnixNano()
	}
	i.ends.Store(at)
	i.judged.Store(ordinal)
}

// UsableSince returns the ordinal of the last state in which a check found the account
// usable. It returns 0 if the caller must check the account again.
func (i *Identity) UsableSince() uint64 {
	if ends := i.ends.Load(); ends != 0 && time.Now().UnixNano() >= ends {
		return 0
	}
	return i.judged.Load()
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
