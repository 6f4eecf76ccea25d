package account

import (
	"slices"
	"time"
)

// Locks reports whether failures can lock an account.
func (p *Policy) Locks() bool { return p != nil && p.Lockout && p.MaxFailure > 0 }

// Counts reports whether failures of the account are recorded.
func (p *Policy) Counts() bool { return p.Locks() || p != nil && p.MinDelay > 0 }

// A Lock is the effect of an account's failures at a given time.
type Lock struct {
	Locked bool
	Since  time.Time // the time of the failure that locked the account
	Until  time.Time // zero: the account is locked until the failures are deleted
	// Held is the time before which attempts are refused because of the delay after a
	// failure (the draft, 7.7).
	Held time.Time
	// Kept are the failures that still count: the failures that led to the current lock and
	// those since, or the failures that count towards the next lock. All other failures can
	// be deleted.
	Kept []time.Time
}

// maxDelayed is the largest number of failures that a policy with delays but without lockout
// keeps. A delay that has doubled maxDelayed times has reached pwdMaxDelay, whatever the value
// of pwdMaxDelay is.
const maxDelayed = 32

// Lock returns the effect of failures at the given time. MaxFailure failures within an
// interval lock the account. Failures during a lock do not count, and counting begins
// again at 0 after the lock (the draft, 7.6).
func (p *Policy) Lock(failures []time.Time, now time.Time) Lock {
	if len(failures) == 0 {
		return Lock{}
	}
	all := slices.SortedFunc(slices.Values(failures), time.Time.Compare)
	var l Lock
	for _, t := range all {
		if l.covers(t) {
			l.Kept = append(l.Kept, t)
			continue
		}
		l = Lock{Kept: append(p.counting(l.behind(), t), t)}
		if p.Locks() && len(l.Kept) >= p.MaxFailure {
			l.Locked, l.Since = true, t
			if p.LockoutDuration > 0 {
				l.Until = t.Add(p.LockoutDuration)
			}
		}
	}
	if l.covers(now) {
		return l
	}
	l = Lock{Kept: p.counting(l.behind(), now)}
	l.Held = p.held(l.Kept)
	return l
}

// covers reports whether l locks the account at the time t.
func (l *Lock) covers(t time.Time) bool { return l.Locked && (l.Until.IsZero() || t.Before(l.Until)) }

// behind returns the failures that still count when l has ended: none if l locked the
// account, and otherwise all of l.Kept.
func (l *Lock) behind() []time.Time {
	if l.Locked {
		return nil
	}
	return l.Kept
}

// counting returns the failures that count at the given time.
func (p *Policy) counting(failures []time.Time, now time.Time) []time.Time {
	if p.FailureCountInterval > 0 {
		from := now.Add(-p.FailureCountInterval)
		failures = slices.DeleteFunc(slices.Clone(failures), func(t time.Time) bool { return !t.After(from) })
	}
	if !p.Locks() && len(failures) > maxDelayed {
		failures = failures[len(failures)-maxDelayed:]
	}
	return failures
}

// held returns the time before which attempts are refused. The delay after the last
// failure doubles with each failure, up to MaxDelay.
func (p *Policy) held(failures []time.Time) time.Time {
	if p.MinDelay == 0 || len(failures) == 0 {
		return time.Time{}
	}
	delay := p.MinDelay
	for range failures[1:] {
		if delay >= p.MaxDelay {
			break
		}
		delay *= 2
	}
	return failures[len(failures)-1].Add(min(delay, p.MaxDelay))
}

// Refuses reports whether an attempt at the given time is refused without verifying the
// credentials.
func (l *Lock) Refuses(now time.Time) bool { return l.Locked || now.Before(l.Held) }
