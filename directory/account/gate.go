package account

import (
	"context"
	"slices"
	"time"
)

// A Ledger records the failures of one account. All servers of a store share these
// failures. A failure is the time of an attempt with a wrong password, or of a reserved
// attempt whose password is not verified yet: see [Policy.Attempt].
type Ledger interface {
	// Failures returns the failures that this server has read.
	Failures(ctx context.Context) ([]time.Time, error)
	// Refresh reads all failures that any server has published.
	Refresh(ctx context.Context) error
	// Fail publishes a failure and removes the failures that no longer count. It returns
	// the time of the failure, which differs from the times of all other failures. After
	// Fail has returned, Failures returns the failure on this server. If the policy is not
	// strict and the failure cannot be published, Fail succeeds, and only this server counts
	// the failure.
	Fail(ctx context.Context, p *Policy) (time.Time, error)
	// Forget deletes failures and does not wait for the deletion. If a failure cannot be
	// deleted, it still counts.
	Forget(failures []time.Time)
	// ByClock returns the times of the failures by the clock that Now reads. The returned times
	// differ from the given times if the clock of the server that published the failures was
	// ahead.
	ByClock(failures []time.Time) []time.Time
	Now() time.Time
}

// A Match is the result of comparing a password with the passwords of an account.
type Match int

// OldMatch means that the password is an earlier password of the account, and that the
// policy does not count it as a failure.
const (
	Mismatch Match = iota
	OldMatch
	Fits
)

// A Verdict is the result of an attempt to authenticate. Clients can distinguish the verdicts
// Wrong and Locked only if the policy has Tell.
type Verdict int

const (
	Wrong Verdict = iota
	Locked
	Right
)

// A Trial contains the functions that Attempt calls to verify credentials, or to take as long
// as a verification.
type Trial struct {
	// Verify verifies all credentials, even if the first one is wrong.
	Verify func(ctx context.Context) (Match, error)
	// Pretend does the work of a Verify that fails, without reading the account.
	Pretend func(ctx context.Context) error
	// Wait waits as long as a call of the Ledger's method Fail takes.
	Wait func(ctx context.Context) error
}

// Attempt verifies the credentials of one attempt. A server must not run two attempts on the
// same account at the same time. Let n be the number of servers. Within one
// FailureCountInterval, all servers together verify at most MaxFailure - 1 + n wrong attempts,
// or at most MaxFailure if LockoutStrict is set. While a server cannot publish failures, the
// other servers do not count its failures. If LockoutStrict is set and Fail returns an error,
// Attempt verifies nothing and returns the error. Attempt writes nothing for an account that
// this server knows to be locked. Without LockoutStrict, it also writes nothing for a right
// attempt on an account without failures.
//
// If this server has read no failures that still count, and LockoutStrict is not set, Attempt
// records a failure only after it has verified the credentials. Otherwise Attempt reserves the
// attempt: it publishes the failure first, and then counts all published failures. If attempts
// are concurrent, the attempt whose failure is published k-th counts at least the k - 1
// failures that were published before it.
func (p *Policy) Attempt(ctx context.Context, l Ledger, t Trial) (Verdict, error) {
	if !p.Counts() {
		return unguarded(ctx, t)
	}
	seen, err := l.Failures(ctx)
	if err != nil {
		return Wrong, err
	}
	refused, kept := p.refuses(l, seen)
	if refused {
		return p.refuse(ctx, t)
	}
	if kept > 0 || p.LockoutStrict {
		return p.reserved(ctx, l, t)
	}
	m, err := t.Verify(ctx)
	switch {
	case err != nil:
		return Wrong, err
	case m == OldMatch:
		return Wrong, t.Wait(ctx)
	case m == Mismatch:
		_, err = l.Fail(ctx, p)
		return Wrong, err
	}
	return p.confirm(ctx, l)
}

func unguarded(ctx context.Context, t Trial) (Verdict, error) {
	m, err := t.Verify(ctx)
	if err != nil || m != Fits {
		return Wrong, err
	}
	return Right, nil
}

// refuse refuses an attempt without verifying the credentials. It does the same work as
// an attempt that fails.
func (p *Policy) refuse(ctx context.Context, t Trial) (Verdict, error) {
	if err := t.Pretend(ctx); err != nil {
		return Locked, err
	}
	return Locked, t.Wait(ctx)
}

// reserved performs an attempt. It publishes the failure of the attempt before it
// verifies the credentials.
func (p *Policy) reserved(ctx context.Context, l Ledger, t Trial) (Verdict, error) {
	own, err := l.Fail(ctx, p)
	if err != nil {
		return Wrong, err
	}
	all, err := newest(ctx, l)
	if err != nil {
		return Wrong, err
	}
	others := slices.DeleteFunc(slices.Clone(all), own.Equal)
	if refused, _ := p.refuses(l, others); refused {
		return Locked, t.Pretend(ctx)
	}
	m, err := t.Verify(ctx)
	switch {
	case err != nil || m == Mismatch:
		return Wrong, err
	case m == OldMatch:
		l.Forget([]time.Time{own})
		return Wrong, nil
	}
	l.Forget(all)
	return Right, nil
}

// confirm returns the verdict on a right attempt that was not reserved. The verdict is Locked
// if the attempt must be refused because of failures at other servers.
func (p *Policy) confirm(ctx context.Context, l Ledger) (Verdict, error) {
	all, err := newest(ctx, l)
	if err != nil {
		return Wrong, err
	}
	if refused, _ := p.refuses(l, all); refused {
		return Locked, nil
	}
	if len(all) > 0 {
		l.Forget(all)
	}
	return Right, nil
}

// newest returns all failures that any server has published.
func newest(ctx context.Context, l Ledger) ([]time.Time, error) {
	if err := l.Refresh(ctx); err != nil {
		return nil, err
	}
	return l.Failures(ctx)
}

// refuses reports whether the failures cause an attempt to be refused now, and returns the
// number of failures that count. Without failures it does not read the clock, because
// reading the clock costs as much as the rest of a login without failures.
func (p *Policy) refuses(l Ledger, failures []time.Time) (refused bool, kept int) {
	if len(failures) == 0 {
		return false, 0
	}
	now := l.Now()
	lock := p.Lock(l.ByClock(failures), now)
	return lock.Refuses(now), len(lock.Kept)
}
