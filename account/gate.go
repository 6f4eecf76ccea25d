package account

import (
	"context"
	"slices"
	"time"
)

// A Ledger holds the failures of one account. Many servers share it.
type Ledger interface {
	// Failures returns the failures that this server shows.
	Failures(ctx context.Context) ([]time.Time, error)
	// Refresh has this server show everything that any server has published.
	Refresh(ctx context.Context) error
	// Fail publishes a failure, and removes those that no longer count. It returns the
	// time of the failure, which no other failure has. By then this server shows it.
	Fail(ctx context.Context, p *Policy) (time.Time, error)
	// Forget deletes failures. It does not wait; a failure that stays only counts once
	// too often.
	Forget(failures []time.Time)
	Now() time.Time
}

// A Match is the result of comparing a password with an account's.
type Match int

// OldMatch is a password that was replaced, and that the policy does not count as a
// failure.
const (
	Mismatch Match = iota
	OldMatch
	Fits
)

// A Verdict is the result of an attempt. Clients cannot distinguish Wrong from Locked.
type Verdict int

const (
	Wrong Verdict = iota
	Locked
	Right
)

// A Trial verifies the credentials of an attempt.
type Trial struct {
	// Verify verifies all credentials, even if the first is wrong.
	Verify func(ctx context.Context) (Match, error)
	// Pretend does the work that Verify does for a failure, without the account.
	Pretend func(ctx context.Context) error
	// Wait takes as long as recording a failure.
	Wait func(ctx context.Context) error
}

// Attempt verifies the credentials of one attempt. Each server calls it for one attempt
// on an account at a time. Of the wrong attempts within an interval, at any number of
// servers, it verifies at most MaxFailure - 1 and one for each server; with LockoutStrict
// it verifies MaxFailure. It writes nothing for a locked account, nor for a right attempt
// on an account without failures.
//
// The first failure at a server is recorded when it is known. If there are failures
// already, an attempt is reserved: its failure is published first, and then all published
// failures are counted. Of concurrent attempts, the one that is published k-th sees the k
// - 1 others.
func (p *Policy) Attempt(ctx context.Context, l Ledger, t Trial) (Verdict, error) {
	if !p.Counts() {
		return unguarded(ctx, t)
	}
	seen, err := l.Failures(ctx)
	if err != nil {
		return Wrong, err
	}
	now := l.Now()
	lock := p.Lock(seen, now)
	if lock.Refuses(now) {
		return p.refuse(ctx, t)
	}
	if len(lock.Kept) > 0 || p.LockoutStrict {
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

// refuse refuses an attempt without looking at the credentials, after the same work.
func (p *Policy) refuse(ctx context.Context, t Trial) (Verdict, error) {
	if err := t.Pretend(ctx); err != nil {
		return Locked, err
	}
	return Locked, t.Wait(ctx)
}

// reserved performs an attempt whose failure is published before the credentials are
// verified.
func (p *Policy) reserved(ctx context.Context, l Ledger, t Trial) (Verdict, error) {
	own, err := l.Fail(ctx, p)
	if err != nil {
		return Wrong, err
	}
	all, now, err := newest(ctx, l)
	if err != nil {
		return Wrong, err
	}
	others := slices.DeleteFunc(slices.Clone(all), own.Equal)
	if lock := p.Lock(others, now); lock.Refuses(now) {
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

// confirm checks, for a right attempt that was not reserved, whether guesses at other
// servers have locked the account.
func (p *Policy) confirm(ctx context.Context, l Ledger) (Verdict, error) {
	all, now, err := newest(ctx, l)
	if err != nil {
		return Wrong, err
	}
	if lock := p.Lock(all, now); lock.Refuses(now) {
		return Locked, nil
	}
	if len(all) > 0 {
		l.Forget(all)
	}
	return Right, nil
}

// newest returns all failures that any server has published, and the time.
func newest(ctx context.Context, l Ledger) ([]time.Time, time.Time, error) {
	if err := l.Refresh(ctx); err != nil {
		return nil, time.Time{}, err
	}
	all, err := l.Failures(ctx)
	return all, l.Now(), err
}
