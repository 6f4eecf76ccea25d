// Package accountcheck controls every attempt to authenticate with a password or a SCRAM proof: in a
// bind, in a comparison with userPassword, and in a password change that contains the old
// password. It counts failures as the account's policy requires.
package accountcheck

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/seed-4dac0d86/ldapd/directory/account"
	"github.com/seed-4dac0d86/ldapd/directory/auth"
	"github.com/seed-4dac0d86/ldapd/directory/internal/accountlog"
	"github.com/seed-4dac0d86/ldapd/directory/internal/identify"
	"github.com/seed-4dac0d86/ldapd/directory/internal/policies"
	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/directory/settings"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// An Account is the account that a client tries to authenticate as, in the state that the
// request reads. For an unknown identity there is also an Account, so that the server does
// the same work as for a known identity.
type Account struct {
	Who     *settings.Identity // nil: no such identity
	Policy  *account.Policy    // nil: no policy applies
	State   account.State
	Secrets []entry.Attribute

	own    *entry.Entry // the entry, if it is not stored yet (OpenNew)
	req    *request.Request
	asked  string // the name that the client sent
	ledger *accountlog.Ledger
	set    *policies.Set
	stored [][]byte // stored values of userPassword, or the administrator's configured password
	fits   []byte   // the password of the attempt, if it fits a stored value; otherwise nil
	second *token   // nil: the account has no token
	factor error    // why no attempt can succeed: there is no usable second factor; nil: attempts can succeed
}

// Open reads the account of an identity. The parameter asked is the name that the client
// sent.
func Open(ctx context.Context, req *request.Request, who *settings.Identity, asked string) (*Account, error) {
	a := &Account{Who: who, req: req, asked: asked}
	if who.IsAdmin() {
		a.stored = [][]byte{[]byte(req.Server.Settings().AdminPassword)}
		return a, nil
	}
	var err error
	if a.set, err = req.Server.Policies.Set(ctx, req.Snapshot, req.Known); err != nil || !who.HasEntry() {
		return a, err
	}
	found, err := req.Server.Policies.In(ctx, req.Snapshot, req.Known, a.set, partition.Located{ID: who.ID, Name: who.Name})
	if err != nil {
		return nil, err
	}
	a.Policy = found.Policy
	if a.Secrets, err = req.Snapshot.Secrets(ctx, who.ID); err != nil {
		return nil, err
	}
	a.ledger = req.Server.Ledgers.Of(req.Known, who.ID)
	a.ledger.Read(req.Snapshot, a.Secrets)
	for i := range a.Secrets {
		if a.Secrets[i].Type == req.Known.UserPassword {
			a.stored = append(slices.Clip(a.Secrets[i].Values), a.stored...) // no copy if these are all
		}
	}
	return a, a.readState(ctx)
}

// OpenNew is like Open for an entry that is not stored yet, but reads only the policy.
func OpenNew(ctx context.Context, req *request.Request, name dn.DN, e *entry.Entry) (*Account, error) {
	a := &Account{req: req, asked: name.String()}
	var err error
	if a.set, err = req.Server.Policies.Set(ctx, req.Snapshot, req.Known); err != nil || a.set == nil {
		return a, err
	}
	found, err := req.Server.Policies.OfNew(ctx, req.Snapshot, req.Known, name, e)
	a.Policy, a.own = found.Policy, e
	a.Detach()
	return a, err
}

// Governed reports whether the directory has any password policy. It returns false for the
// administrator.
func (a *Account) Governed() bool { return a.set != nil }

// Detach drops the request, so that the Account no longer refers to the state of the
// request.
func (a *Account) Detach() { a.req = nil }

// Own returns a function that reads the values of an attribute of the account's entry.
func (a *Account) Own(ctx context.Context) func(attribute string) []string {
	e := a.own
	if e == nil && a.Who.HasEntry() {
		// If the entry cannot be read, there are no values to compare with.
		e, _ = a.req.Snapshot.Entry(ctx, a.Who.ID, false)
	}
	return func(attribute string) (values []string) {
		if e == nil {
			return nil
		}
		for i := range e.Attributes {
			if slices.ContainsFunc(e.Attributes[i].Type.Names, func(n string) bool { return strings.EqualFold(n, attribute) }) {
				for _, v := range e.Attributes[i].Values {
					values = append(values, string(v))
				}
			}
		}
		return values
	}
}

func (a *Account) readState(ctx context.Context) error {
	s, e, err := identify.StateOf(ctx, a.req, a.Who)
	if err != nil {
		return err
	}
	a.State = s
	if len(a.Secrets) > 0 {
		a.State.GraceUses = accountlog.Times(a.Secrets, "pwdGraceUseTime")
		a.State.ResetUses = len(accountlog.Times(a.Secrets, "pwdResetUseTime"))
		if last := accountlog.Times(a.Secrets, "pwdLastSuccess"); len(last) > 0 {
			a.State.Success = last[0]
		}
	}
	return a.readToken(ctx, e)
}

// Usable reports whether the account may be used. Otherwise all credentials for the account
// count as wrong.
func (a *Account) Usable() bool { return a.Who.IsAdmin() || a.Policy.Usable(&a.State, time.Now()) }

// Verify verifies a password. If the account needs a code, the code must follow the
// password. The result stored is the value of userPassword that the password fits.
func (a *Account) Verify(ctx context.Context, password []byte) (v account.Verdict, stored []byte, err error) {
	password, code := a.split(password)
	t := a.trial(password)
	t.Verify = func(ctx context.Context) (account.Match, error) {
		m, which, err := a.match(ctx, password)
		stored = which
		if err != nil {
			return m, err
		}
		return a.withCode(ctx, m, code)
	}
	v, err = a.Attempt(ctx, t)
	if err == nil && v != account.Right {
		err = a.moreIfFits(ctx)
	}
	return v, stored, err
}

// moreIfFits makes a refused attempt with the right password cost as much as an attempt with
// a wrong password. If the password was right, it computes the hashes that a wrong password
// would have cost.
func (a *Account) moreIfFits(ctx context.Context) error {
	if a.fits == nil {
		return nil
	}
	attempt := a.req.Server.Passwords.Attempt(a.req.Session.Channel, a.fits)
	return a.more(ctx, &attempt, 0)
}

// Attempt verifies the credentials of a trial. If any policy counts failures, this server
// verifies only one attempt on each account at a time. The administrator's account is not
// limited in this way.
func (a *Account) Attempt(ctx context.Context, t account.Trial) (account.Verdict, error) {
	if a.set.Counts() {
		leave, err := a.req.Server.Ledgers.Turns.Enter(ctx, a.req.Session.Channel, a.key())
		if err != nil {
			return account.Wrong, err
		}
		defer leave()
	}
	if a.Who == nil || !a.Usable() || a.factor != nil {
		return a.refuse(ctx, t)
	}
	p := a.Policy
	if p.Counts() && a.ledger != nil && a.req.Known.Account.Failure != nil {
		return p.Attempt(ctx, a.ledger, t)
	}
	m, err := t.Verify(ctx)
	if err != nil || m == account.Fits {
		return account.Right, err
	}
	return account.Wrong, t.Wait(ctx)
}

// refuse refuses an attempt without verifying it. It takes as long as a failed attempt.
func (a *Account) refuse(ctx context.Context, t account.Trial) (account.Verdict, error) {
	if err := t.Pretend(ctx); err != nil {
		return account.Wrong, err
	}
	return account.Wrong, t.Wait(ctx)
}

// key returns a text that identifies the account, so that attempts on one account take
// turns. If the account has no entry, key returns the name that the client sent, normalized if
// it is a DN.
func (a *Account) key() string {
	if a.Who.HasEntry() {
		return string(a.Who.ID[:])
	}
	if key, err := a.req.Parse(a.asked); err == nil {
		return key
	}
	return a.asked
}

// trial returns the trial of a password. The caller must set the field Verify of the result.
func (a *Account) trial(password []byte) account.Trial {
	return account.Trial{
		Pretend: func(ctx context.Context) error {
			attempt := a.req.Server.Passwords.Attempt(a.req.Session.Channel, password)
			return a.fail(ctx, &attempt, 0)
		},
		Wait: a.wait,
	}
}

// Proof returns the trial of credentials other than a password. The function verify must be
// quick. The trial also calls verify for an account that cannot be used, so that an
// unreadable message has the same result for every account.
func (a *Account) Proof(verify func() (account.Match, error)) account.Trial {
	return account.Trial{
		Verify: func(context.Context) (account.Match, error) { return verify() },
		Pretend: func(context.Context) error {
			_, err := verify()
			return err
		},
		Wait: a.wait,
	}
}

// wait waits as long as the recording of a failure takes, if any policy counts failures.
func (a *Account) wait(ctx context.Context) error {
	if !a.set.Counts() {
		return nil
	}
	return a.req.Server.Ledgers.Wait(ctx)
}

// match compares a password with the current passwords. If none fits, match compares the
// password with the newest old passwords, which some policies do not count as failures (see
// matchOld).
func (a *Account) match(ctx context.Context, password []byte) (account.Match, []byte, error) {
	attempt := a.req.Server.Passwords.Attempt(a.req.Session.Channel, password)
	for _, v := range a.stored {
		ok, err := attempt.Try(ctx, v)
		switch {
		case ok:
			a.fits = password
			return account.Fits, v, nil
		case errors.Is(err, auth.ErrScheme):
			a.req.Server.Log.Warn("unreadable userPassword", "dn", a.Who.Name, "error", err)
		case err != nil:
			return account.Mismatch, nil, err
		}
	}
	m, tried, err := a.matchOld(ctx, password)
	if err != nil || m == account.OldMatch {
		return m, nil, err
	}
	return account.Mismatch, nil, a.fail(ctx, &attempt, tried)
}

// matchOld compares a password with the newest old passwords, as many as the account's
// policy ignores: a bind with one of them is refused, but does not count as a failure. The
// result tried is the number of old passwords that were compared.
func (a *Account) matchOld(ctx context.Context, password []byte) (m account.Match, tried int, err error) {
	if a.Policy == nil || a.Policy.IgnoreOld == 0 || a.req.Known.Account.History == nil {
		return account.Mismatch, 0, nil
	}
	for _, old := range a.Pasts() {
		if tried == a.Policy.IgnoreOld {
			break
		}
		ok, err := a.req.Server.Passwords.Verify(ctx, a.req.Session.Channel, old.Hash, password)
		if err != nil && !errors.Is(err, auth.ErrScheme) {
			return account.Mismatch, tried, err
		}
		tried++
		if ok {
			m = account.OldMatch // the loop goes on, so that a match costs as much as a mismatch
		}
	}
	if m == account.OldMatch {
		attempt := a.req.Server.Passwords.Attempt(a.req.Session.Channel, password)
		return m, tried, a.more(ctx, &attempt, tried)
	}
	return m, tried, nil
}

// Pasts returns the account's earlier passwords, newest first.
func (a *Account) Pasts() []account.Past {
	for i := range a.Secrets {
		if a.Secrets[i].Type.Name() == "pwdHistory" {
			return account.Pasts(a.Secrets[i].Values)
		}
	}
	return nil
}

// fail computes the hashes that a failed attempt still lacks, so that the attempt costs as
// much as any other failed attempt. The parameter tried is the number of old passwords that
// the attempt has already hashed.
func (a *Account) fail(ctx context.Context, attempt *auth.Attempt, tried int) error {
	if err := attempt.Fail(ctx); err != nil {
		return err
	}
	return a.more(ctx, attempt, tried)
}

// The method "more" computes further hashes for an attempt that has already hashed the given
// number of old passwords. It stops at the largest number of old passwords that any policy
// ignores. The time of an attempt thus does not reveal whether the account's policy ignores old
// passwords.
func (a *Account) more(ctx context.Context, attempt *auth.Attempt, tried int) error {
	for range max(0, a.set.IgnoreOld()-tried) {
		if err := attempt.Again(ctx); err != nil {
			return err
		}
	}
	return nil
}
