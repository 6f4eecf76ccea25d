package identify

import (
	"bytes"
	"context"
	"time"

	"github.com/seed-4dac0d86/ldapd/control"
	"github.com/seed-4dac0d86/ldapd/directory/internal/known"
	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/directory/internal/settings"
	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/schema"
)

// An account is what an entry says of its use in binds.
type account struct {
	Disabled bool // for every mechanism, and as an authorization identity
	Expired  bool // no bind with the password
	Reset    bool // after a bind with the password it must be changed
}

// AccountOf judges the account of somebody as it is in a state. The
// administrator, and who has no entry, can always be used.
func AccountOf(ctx context.Context, req *request.Request, who *settings.Identity) (account, error) {
	if !who.HasEntry() || who.Admin {
		return account{}, nil
	}
	e, err := req.Snapshot.Some(ctx, who.ID, req.Known.Account.All)
	if err != nil || e == nil {
		return account{Disabled: true}, err
	}
	return judge(&req.Known.Account, e, time.Now()), nil
}

func judge(a *known.AccountTypes, e *entry.Entry, now time.Time) account {
	expiration := times(e, a.Expiration)
	reset := isTrue(e, a.Reset)
	if len(expiration) == 1 && expiration[0].Unix() == 0 {
		reset, expiration = true, nil
	}
	return account{
		Disabled: len(times(e, a.LockedTime)) > 0 || isTrue(e, a.Lock) || isTrue(e, a.DsDisabled) ||
			anyAfter(times(e, a.Start), now) || anyUntil(times(e, a.End), now) || anyUntil(times(e, a.DsEnd), now),
		Expired: anyUntil(expiration, now),
		Reset:   reset,
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

// ErrMustChange refuses all but a new password (draft-behera-ldap-password-policy,
// 8.1).
var ErrMustChange = op.Errorf(op.InsufficientAccessRights, "the password was reset: change it first")

// MustChange reports whether the requester has to change their own password
// before anything else, and a request is not for that. What else users may not
// modify is refused later.
func MustChange(req *request.Request, r op.Request) bool {
	if req.Who == nil || !req.Who.Reset.Load() {
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

// ChangedPassword lets a requester do more who had to change their own password.
func ChangedPassword(req *request.Request) {
	if req.Who != nil {
		req.Who.Reset.Store(false)
	}
}
