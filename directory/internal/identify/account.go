package identify

import (
	"bytes"
	"context"
	"time"

	"github.com/seed-4dac0d86/ldapd/directory/account"
	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/directory/internal/wellknown"
	"github.com/seed-4dac0d86/ldapd/directory/settings"
	"github.com/seed-4dac0d86/ldapd/ldap/control"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// StateOf returns the account state in the entry of an identity. It also returns the entry,
// with only the attributes that describe the account. For the administrator and for an
// identity without an entry, StateOf returns the zero State, because these identities can
// always be used. If the entry no longer exists, the account is disabled.
func StateOf(ctx context.Context, req *request.Request, who *settings.Identity) (account.State, *entry.Entry, error) {
	if !who.HasEntry() || who.Admin {
		return account.State{}, nil, nil
	}
	i, err := req.Snapshot.Item(ctx, who.ID)
	if err != nil || i == nil {
		return account.State{Disabled: true}, nil, err
	}
	if i.LacksAll(req.Known.Account.All) {
		return account.State{}, undescribed, nil
	}
	e, err := req.Snapshot.EntryOf(ctx, who.ID, i, false, req.Known.Account.All)
	if err != nil {
		return account.State{Disabled: true}, nil, err
	}
	return State(&req.Known.Account, e), e, nil
}

// undescribed is an entry without attributes that describe an account.
var undescribed = &entry.Entry{}

// State reads the account state from an entry.
func State(a *wellknown.AccountTypes, e *entry.Entry) account.State {
	s := account.State{
		Disabled: isTrue(e, a.Lock) || isTrue(e, a.DsDisabled),
		Start:    latest(times(e, a.Start)),
		End:      earliest(append(times(e, a.End), times(e, a.DsEnd)...)),
		Changed:  latest(times(e, a.Changed)),
		Reset:    isTrue(e, a.Reset),
		Expires:  earliest(times(e, a.Expiration)),
	}
	for _, t := range times(e, a.LockedTime) {
		s.Disabled = s.Disabled || t.Year() < 1 // 000001010000Z disables the account
		s.LockedSince = t
	}
	if !s.Expires.IsZero() && s.Expires.Unix() == 0 {
		s.Reset, s.Expires = true, time.Time{}
	}
	return s
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

// times returns the values of a type. An unreadable value becomes a time long ago.
func times(e *entry.Entry, t *schema.AttributeType) (ts []time.Time) {
	if t == nil {
		return nil
	}
	for _, v := range e.Values(t) {
		at, err := schema.Time(v) // no error is expected, because stored values are valid
		if err != nil {
			at = time.Unix(1, 0)
		}
		ts = append(ts, at)
	}
	return ts
}

func latest(ts []time.Time) (last time.Time) {
	for _, t := range ts {
		if t.After(last) {
			last = t
		}
	}
	return last
}

// earliest returns the earliest time, or the zero time if there is none.
func earliest(ts []time.Time) (first time.Time) {
	for _, t := range ts {
		if first.IsZero() || t.Before(first) {
			first = t
		}
	}
	return first
}

// MustChange reports whether a request must be refused because the requester must first
// change their own password. It returns false for a Modify and a Password Modify, because
// these operations check later that they change only the requester's own password. The
// parameter r may be nil.
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

// ChangedPassword records that the requester has changed their password, so that other
// operations are allowed again.
func ChangedPassword(req *request.Request) {
	if req.Who != nil {
		req.Who.Reset.Store(false)
	}
}
