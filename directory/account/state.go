package account

import (
	"slices"
	"time"
)

// A State is the stored state of an account, except its failures.
type State struct {
	Disabled bool
	// LockedSince is the time at which somebody locked the account by setting
	// pwdAccountLockedTime; zero means that nobody has. The lock lasts as long as a lock
	// by failures.
	LockedSince time.Time
	Start, End  time.Time // the account is valid from Start until End; zero: no limit
	Changed     time.Time // when the password was changed; zero: unknown
	// Expires is when the password expires, unless the policy makes it expire earlier.
	// Zero: only the policy decides.
	Expires   time.Time
	Reset     bool
	GraceUses []time.Time
	// Success is the time of the last recorded success; zero means that there is none.
	Success time.Time
	// ResetUses is the number of binds since the password was reset.
	ResetUses int
}

// Usable reports whether, at the given time, the account is enabled, not locked by
// LockedSince, and valid according to Start and End. The mechanism of the bind does not
// matter.
func (p *Policy) Usable(s *State, now time.Time) bool {
	return !s.Disabled && !p.locked(s, now) && !now.Before(s.Start) && (s.End.IsZero() || now.Before(s.End))
}

// locked reports whether somebody has locked the account, and the lock still lasts.
func (p *Policy) locked(s *State, now time.Time) bool {
	return !s.LockedSince.IsZero() && (p == nil || p.LockoutDuration == 0 || now.Before(s.LockedSince.Add(p.LockoutDuration)))
}

// An Outcome is the result of a bind with the right password.
type Outcome struct {
	// Refused is the reason why the bind fails, or None.
	Refused Refusal
	// MustChange means that the user must change the password before other operations.
	MustChange bool
	// Grace means that the password has expired, but the bind is allowed. The policy limits
	// the number of such binds.
	Grace bool
	// Warn is the time until the password expires, if the server must warn the user, and
	// otherwise zero.
	Warn time.Duration
}

// A Refusal is the reason why a bind with the right password fails.
type Refusal int

// Unusable is reported to clients in the same way as a wrong password.
const (
	None Refusal = iota
	Unusable
	ResetOver // the password was reset too long ago, or used too often since the reset
	Expired
)

// AfterPassword returns the outcome of a bind with the right password (the draft, 7.1 to
// 7.5 and 8.1). A nil policy has no requirements.
func (p *Policy) AfterPassword(s *State, now time.Time) Outcome {
	if !p.Usable(s, now) || p.idle(s, now) {
		return Outcome{Refused: Unusable}
	}
	if p.mustChange(s) {
		if p.resetOver(s, now) {
			return Outcome{Refused: ResetOver}
		}
		return Outcome{MustChange: true}
	}
	expires := p.Expiry(s)
	switch {
	case expires.IsZero():
		return Outcome{}
	case !now.Before(expires):
		if p.GraceLeft(s, s.GraceUses, now) > 0 {
			return Outcome{Grace: true}
		}
		return Outcome{Refused: Expired}
	case p != nil && p.ExpireWarning > 0 && expires.Sub(now) <= p.ExpireWarning:
		return Outcome{Warn: expires.Sub(now)}
	}
	return Outcome{}
}

// idle reports whether the account has been unused for MaxIdle (7.1).
func (p *Policy) idle(s *State, now time.Time) bool {
	return p != nil && p.MaxIdle > 0 && !s.Success.IsZero() && !now.Before(s.Success.Add(p.MaxIdle))
}

// mustChange reports whether the user must change the password (7.2). Without a policy,
// pwdReset alone decides.
func (p *Policy) mustChange(s *State) bool { return s.Reset && (p == nil || p.MustChange) }

func (p *Policy) resetOver(s *State, now time.Time) bool {
	return p != nil && (p.MaxResetAge > 0 && !s.Changed.IsZero() && !now.Before(s.Changed.Add(p.MaxResetAge)) ||
		p.MaxResetUse > 0 && s.ResetUses >= p.MaxResetUse)
}

// Expiry returns the time at which the password of an account expires (7.3). Zero means
// that the password never expires.
func (p *Policy) Expiry(s *State) time.Time {
	at := s.Expires
	if p != nil && p.MaxAge > 0 && !s.Changed.IsZero() {
		if by := s.Changed.Add(p.MaxAge); at.IsZero() || by.Before(at) {
			at = by
		}
	}
	return at
}

// GraceLeft returns how many more binds with the expired password are allowed (7.4).
func (p *Policy) GraceLeft(s *State, uses []time.Time, now time.Time) int {
	if p == nil || p.GraceExpiry > 0 && !now.Before(p.Expiry(s).Add(p.GraceExpiry)) {
		return 0
	}
	return max(0, p.GraceLimit-len(uses))
}

// RecordsSuccess reports whether a success at the given time must be recorded.
func (p *Policy) RecordsSuccess(s *State, now time.Time) bool {
	if p == nil {
		return false
	}
	return p.LastSuccess && (s.Success.IsZero() || now.Sub(s.Success) >= p.LastSuccessInterval)
}

// CountsAsSecond reports whether the policy accepts a mechanism as a second factor.
func (p *Policy) CountsAsSecond(way string) bool {
	return p != nil && slices.Contains(p.SecondFactor, way)
}
