package directory

import (
	"bytes"
	"context"
	"time"

	"github.com/seed-4dac0d86/ldapd/control"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/schema"
)

// An account is what an entry says of its use in binds.
type account struct {
	disabled bool // for every mechanism, and as an authorization identity
	expired  bool // no bind with the password
	reset    bool // after a bind with the password it must be changed
}

// accountOf judges the account of somebody as it is in a state. The
// administrator, and who has no entry, can always be used.
func (o *operation) accountOf(ctx context.Context, who *identity) (account, error) {
	if !who.hasEntry() || who.admin {
		return account{}, nil
	}
	e, err := o.s.Some(ctx, who.id, o.known.account.all)
	if err != nil || e == nil {
		return account{disabled: true}, err
	}
	return o.known.account.judge(e, time.Now()), nil
}

func (a *accountTypes) judge(e *entry.Entry, now time.Time) account {
	expiration := times(e, a.expiration)
	reset := isTrue(e, a.reset)
	if len(expiration) == 1 && expiration[0].Unix() == 0 {
		reset, expiration = true, nil
	}
	return account{
		disabled: len(times(e, a.lockedTime)) > 0 || isTrue(e, a.lock) || isTrue(e, a.dsDisabled) ||
			anyAfter(times(e, a.start), now) || anyUntil(times(e, a.end), now) || anyUntil(times(e, a.dsEnd), now),
		expired: anyUntil(expiration, now),
		reset:   reset,
	}
}

func isTrue(e *entry.Entry, t *schema.AttributeType) bool {
	if t == nil {
		return false
	}
	for _, v := range e.Values(t) {
		if bytes.EqualFold(bytes.TrimSpace(v), []byte("TRUE")) {
			return true
		}
	}
	return false
}

// times are the values of a type. One that cannot be read is the zero time.
func times(e *entry.Entry, t *schema.AttributeType) (ts []time.Time) {
	if t == nil {
		return nil
	}
	for _, v := range e.Values(t) {
		at, _ := schema.Time(v) // values were validated
		ts = append(ts, at)
	}
	return ts
}

func anyAfter(ts []time.Time, now time.Time) bool {
	for _, t := range ts {
		if t.After(now) {
			return true
		}
	}
	return false
}

func anyUntil(ts []time.Time, now time.Time) bool {
	for _, t := range ts {
		if !t.After(now) {
			return true
		}
	}
	return false
}

// errMustChange refuses all but a new password (draft-behera-ldap-password-policy,
// 8.1).
var errMustChange = op.Errorf(op.InsufficientAccessRights, "the password was reset: change it first")

// mustChange reports whether the requester has to change their own password
// before anything else, and a request is not for that. What else users may not
// modify is refused later.
func mustChange(o *operation, r op.Request) bool {
	if o.who == nil || !o.who.reset.Load() {
		return false
	}
	switch r := r.(type) {
	case *op.Modify:
		return false
	case *op.Extended:
		return r.OID != control.OIDPasswordModify
	}
	return true
}

// changedPassword lets a requester do more who had to change their own password.
func (o *operation) changedPassword() {
	if o.who != nil {
		o.who.reset.Store(false)
	}
}

// renewed adds to the changes of a password those of what was said of the old
// one: until when it may be used and, where users change their own, that they have
// to.
func (o *operation) renewed(ctx context.Context, name dn.DN, changes []op.Modification) ([]op.Modification, error) {
	touches := func(t *schema.AttributeType) bool {
		for i := range changes {
			if o.known.isOf(changes[i].Description, t) {
				return true
			}
		}
		return false
	}
	if !touches(o.known.userPassword) {
		return changes, nil
	}
	at, err := o.s.Find(ctx, name)
	if err != nil {
		return nil, err
	}
	a := &o.known.account
	e, err := o.s.Some(ctx, at.ID, a.all)
	if err != nil || e == nil {
		return changes, err
	}
	for _, t := range []*schema.AttributeType{a.expiration, a.reset} {
		if t == nil || t == a.reset && o.who.isAdmin() || len(e.Values(t)) == 0 || touches(t) {
			continue
		}
		changes = append(changes[:len(changes):len(changes)], replace(t))
	}
	return changes, nil
}
