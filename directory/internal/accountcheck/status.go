package accountcheck

import (
	"context"
	"time"

	"github.com/seed-4dac0d86/ldapd/directory/account"
	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/directory/settings"
	"github.com/seed-4dac0d86/ldapd/ldap/control"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/schema"
)

// At returns the account of an entry that was found by name.
func At(ctx context.Context, req *request.Request, at partition.Located) (*Account, error) {
	return Open(ctx, req, &settings.Identity{Name: at.Name, ID: at.ID}, at.Name.String())
}

// HasPassword reports whether the account has a value of userPassword.
func (a *Account) HasPassword() bool { return len(a.stored) > 0 }

// Lock returns the lock that results now from the account's failures.
func (a *Account) Lock() account.Lock {
	if a.ledger == nil {
		return account.Lock{}
	}
	return a.ledger.Lock(a.Policy, a.Secrets)
}

// Computed returns the values of an attribute that the entry does not store. The values come
// from the account's failures, policy or secrets.
func (a *Account) Computed(t *schema.AttributeType) [][]byte {
	if a.ledger == nil {
		return nil
	}
	return a.ledger.Computed(t, a.Policy, a.Secrets)
}

// Control returns the value of the account usable response control.
func (a *Account) Control() control.AccountUsable {
	now := time.Now()
	o := a.Policy.AfterPassword(&a.State, now)
	lock := a.Lock()
	if o.Refused == account.None && !o.MustChange && !o.Grace && !lock.Locked {
		c := control.AccountUsable{Usable: true, Expires: -1}
		if expires := a.Policy.Expiry(&a.State); !expires.IsZero() {
			c.Expires = expires.Sub(now)
		}
		return c
	}
	c := control.AccountUsable{Inactive: o.Refused == account.Unusable || lock.Locked, Reset: o.MustChange || o.Refused == account.ResetOver,
		Expired: o.Refused == account.Expired || o.Grace}
	if o.Grace {
		left := a.Policy.GraceLeft(&a.State, a.State.GraceUses, now)
		c.Grace = &left
	}
	if lock.Locked && !lock.Until.IsZero() {
		left := lock.Until.Sub(now)
		c.Unlock = &left
	}
	return c
}
