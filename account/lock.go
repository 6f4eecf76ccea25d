package account

import (
	"slices"
	"time"
)

// Locks reports whether failures lock an account.
func (p *Policy) Locks() bool { return p != nil && p.Lockout && p.MaxFailure > 0 }

// Counts reports whether failures are recorded.
func (p *Policy) Counts() bool { return p.Locks() || p != nil && p.MinDelay > 0 }

// A Lock is the effect of an account's failures at a point in time.
type Lock struct {
	Locked bool
	Since  time.Time // of the failure that locked it
	Until  time.Time // zero: until the failures are deleted
	// Held is the time until which attempts are refused (the draft, 7.7).
	Held time.Time
	// Kept are the failures that still count: towards the next lock, or as the cause of
	// this one. The others can be deleted.
	Kept []time.Time
}

// maxDelayed bounds the failures that a policy with delays but without lockout keeps. A
// delay that has doubled so often has reached any pwdMaxDelay.
const maxDelayed = 32

// Lock returns the effect of failures. MaxFailure of them within an interval lock the
// account. During a lock none counts, and counting begins again after it (the draft,
// 7.6).
func (p *Policy) Lock(failures []time.Time, now time.Time) Lock {
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

// covers reports whether l locks the account at a time.
func (l *Lock) covers(t time.Time) bool { return l.Locked && (l.Until.IsZero() || t.Before(l.Until)) }

// behind returns the failures that still count after the lock, or all if there is no
// lock.
func (l *Lock) behind() []time.Time {
	if l.Locked {
		return nil
	}
	return l.Kept
}

// counting returns the failures that count at a time.
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

// held returns the time until which attempts are refused. The delay doubles with each
// failure.
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

// Refuses reports whether an attempt at a time is refused without being verified.
func (l *Lock) Refuses(now time.Time) bool { return l.Locked || now.Before(l.Held) }
