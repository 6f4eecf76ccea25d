package account

import (
	"context"
	"slices"
	"time"
)

// A Ledger has the failures of one account, which many servers share.
type Ledger interface {
	// Failures returns those that this server shows.
	Failures(ctx context.Context) ([]time.Time, error)
	// Refresh has the server show all that any server has published.
	Refresh(ctx context.Context) error
	// Fail publishes a failure, and drops those that count no more. The server shows it
	// when Fail returns its time, which no other failure has.
	Fail(ctx context.Context, p *Policy) (time.Time, error)
	// Forget deletes failures. It does not wait: one that stays is one too many.
	Forget(failures []time.Time)
	Now() time.Time
}

// A Match is what a password is to an account.
type Match int

// Matches. An old password is one that was replaced, and that the policy ignores.
const (
	Mismatch Match = iota
	OldMatch
	Fits
)

// A Verdict is what an attempt comes to. Wrong and Locked look alike from outside.
type Verdict int

// Verdicts.
const (
	Wrong Verdict = iota
	Locked
	Right
)

// A Trial is how the credentials of an attempt are verified.
type Trial struct {
	// Verify looks at all of them, whatever the first said.
	Verify func(ctx context.Context) (Match, error)
	// Pretend does the work of Verify without the account, as a failure would.
	Pretend func(ctx context.Context) error
	// Wait takes as long as the record of a failure.
	Wait func(ctx context.Context) error
}

// Attempt verifies the credentials of one attempt. At a server it is called for one
// attempt on an account at a time. Of all wrong ones within an interval, at no matter how
// many servers, it verifies at most MaxFailure - 1 and one a server; with LockoutStrict
// it verifies MaxFailure. It writes nothing of a locked account, and nothing of a right
// attempt on an account without failures.
//
// The first failure at a server is recorded when it is known. Where there are failures
// already an attempt is reserved: its failure is published first, and then all that are
// published are counted. Of attempts side by side the one published k-th sees the k - 1
// others.
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

// refuse answers without a look at the credentials, after as much work.
func (p *Policy) refuse(ctx context.Context, t Trial) (Verdict, error) {
	if err := t.Pretend(ctx); err != nil {
		return Locked, err
	}
	return Locked, t.Wait(ctx)
}

// reserved is an attempt whose failure is published before the credentials are verified.
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

// confirm looks whether guesses elsewhere have locked the account of a right attempt that
// was not reserved.
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

// newest returns all failures that any server has published.
func newest(ctx context.Context, l Ledger) ([]time.Time, time.Time, error) {
	if err := l.Refresh(ctx); err != nil {
		return nil, time.Time{}, err
	}
	all, err := l.Failures(ctx)
	return all, l.Now(), err
}
