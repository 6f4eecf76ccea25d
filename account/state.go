package account

import (
	"slices"
	"time"
)

// A State is the stored state of an account, except its failures.
type State struct {
	Disabled bool
	// LockedSince is when somebody locked the account, for as long as failures would lock
	// it; zero: nobody has.
	LockedSince time.Time
	Start, End  time.Time // zero: no bound
	Changed     time.Time // of the password; zero: unknown
	Expires     time.Time // set for this account; zero: by the policy
	Reset       bool
	GraceUses   []time.Time
	// Success is the last one, or zero.
	Success time.Time
	// ResetUses counts the binds since a reset.
	ResetUses int
}

// Usable reports whether an account may be used at a time, by any mechanism.
func (p *Policy) Usable(s *State, now time.Time) bool {
	return !s.Disabled && !p.locked(s, now) && !now.Before(s.Start) && (s.End.IsZero() || now.Before(s.End))
}

// locked reports whether somebody has locked the account and the lock still lasts.
func (p *Policy) locked(s *State, now time.Time) bool {
	return !s.LockedSince.IsZero() && (p == nil || p.LockoutDuration == 0 || now.Before(s.LockedSince.Add(p.LockoutDuration)))
}

// An Outcome is the result of a bind with the right password.
type Outcome struct {
	// Refused is the reason why the bind fails.
	Refused Refusal
	// MustChange means that nothing else is allowed before the password is changed.
	MustChange bool
	// Grace means that the bind takes one of the remaining uses of an expired password.
	Grace bool
	// Warn is how long the password remains valid, if the user is to be warned, else
	// zero.
	Warn time.Duration
}

// A Refusal is the reason why the right password is refused.
type Refusal int

// An Unusable account cannot be distinguished from one with another password.
const (
	None Refusal = iota
	Unusable
	ResetOver // reset too long ago, or used too often since
	Expired
)

// AfterPassword returns the outcome of a bind with the right password (the draft, 7.1 to
// 7.5 and 8.1). A nil policy demands nothing.
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

// idle reports whether the account is idle by the draft's pwdMaxIdle (7.1).
func (p *Policy) idle(s *State, now time.Time) bool {
	return p != nil && p.MaxIdle > 0 && !s.Success.IsZero() && !now.Before(s.Success.Add(p.MaxIdle))
}

// mustChange reports whether the password must be changed (7.2). Without a policy
// pwdReset has the same effect.
func (p *Policy) mustChange(s *State) bool { return s.Reset && (p == nil || p.MustChange) }

func (p *Policy) resetOver(s *State, now time.Time) bool {
	return p != nil && (p.MaxResetAge > 0 && !s.Changed.IsZero() && !now.Before(s.Changed.Add(p.MaxResetAge)) ||
		p.MaxResetUse > 0 && s.ResetUses >= p.MaxResetUse)
}

// Expiry returns when the password of an account expires (7.3); zero: never.
func (p *Policy) Expiry(s *State) time.Time {
	at := s.Expires
	if p != nil && p.MaxAge > 0 && !s.Changed.IsZero() {
		if by := s.Changed.Add(p.MaxAge); at.IsZero() || by.Before(at) {
			at = by
		}
	}
	return at
}

// GraceLeft returns how many further uses of an expired password are allowed (7.4).
func (p *Policy) GraceLeft(s *State, uses []time.Time, now time.Time) int {
	if p == nil || p.GraceExpiry > 0 && !now.Before(p.Expiry(s).Add(p.GraceExpiry)) {
		return 0
	}
	return max(0, p.GraceLimit-len(uses))
}

// RecordsSuccess reports whether a success at a time is to be recorded.
func (p *Policy) RecordsSuccess(s *State, now time.Time) bool {
	if p == nil {
		return false
	}
	return p.LastSuccess && (s.Success.IsZero() || now.Sub(s.Success) >= p.LastSuccessInterval)
}

// CountsAsSecond reports whether a mechanism counts as a second factor.
func (p *Policy) CountsAsSecond(way string) bool {
	return p != nil && slices.Contains(p.SecondFactor, way)
}
