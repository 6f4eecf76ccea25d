package accountcheck

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/seed-4dac0d86/ldapd/directory/account"
	"github.com/seed-4dac0d86/ldapd/directory/internal/accountlog"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// A token generates the codes of an account. The entries that define a token have the
// classes of OpenLDAP's slapo-otp: an oathTOTPUser names an oathTOTPToken, which names
// oathTOTPParams.
type token struct {
	account.Generator
	id   entry.ID
	used int64 // the last step whose code was accepted
}

// algorithmOIDs maps the OIDs of RFC 8018, B.1 to algorithms.
var algorithmOIDs = map[string]string{
	"1.2.840.113549.2.7": "SHA1", "1.2.840.113549.2.9": "SHA256", "1.2.840.113549.2.11": "SHA512",
}

// readToken reads from the account's entry and policy whether the account needs a second
// factor, and how to compute the code.
func (a *Account) readToken(ctx context.Context, e *entry.Entry) error {
	if k := &a.req.Known.Account; k.TOTPToken != nil {
		if e == nil {
			return nil
		}
		if names := e.Values(k.TOTPToken); len(names) > 0 {
			if err := a.openToken(ctx, string(names[0])); err != nil {
				return err
			}
		}
	}
	if p := a.Policy; p != nil && len(p.SecondFactor) > 0 && (a.second == nil || !p.CountsAsSecond(account.Code)) {
		a.factor = errors.New("the policy requires a second factor, and a code after the password does not count as one here")
	}
	return nil
}

// openToken reads a token. If the token cannot generate codes, every attempt on the
// account is refused.
func (a *Account) openToken(ctx context.Context, name string) error {
	a.second = &token{Generator: account.Generator{Digits: 6, Period: 30 * time.Second, Algorithm: "SHA1"}, used: -1}
	at, e, err := a.entryNamed(ctx, name)
	if err != nil {
		return err
	}
	if e == nil {
		a.factor = errors.New("oathTOTPToken names no entry")
		return nil
	}
	a.second.id = at.ID
	secrets, err := a.req.Snapshot.Secrets(ctx, at.ID)
	if err != nil {
		return err
	}
	a.second.used = max(accountlog.UsedStep(secrets), number(a.first(e, "oathTOTPLastTimeStep"), -1))
	a.second.Secret = a.first(&entry.Entry{Attributes: secrets}, "oathSecret")
	if params := a.first(e, "oathTOTPParams"); params != nil {
		if err := a.readParams(ctx, string(params)); err != nil {
			return err
		}
	}
	a.factor = a.second.Check()
	return nil
}

func (a *Account) readParams(ctx context.Context, name string) error {
	_, e, err := a.entryNamed(ctx, name)
	if err != nil || e == nil {
		return err
	}
	a.second.Digits = int(number(a.first(e, "oathOTPLength"), 6))
	a.second.Period = time.Duration(number(a.first(e, "oathTOTPTimeStepPeriod"), 30)) * time.Second
	if oid := a.first(e, "oathHMACAlgorithm"); oid != nil {
		a.second.Algorithm = algorithmOIDs[string(oid)]
	}
	return nil
}

// entryNamed reads the entry with a name. It returns a nil entry if no entry has the name.
func (a *Account) entryNamed(ctx context.Context, text string) (at partition.Located, e *entry.Entry, err error) {
	name, err := dn.Parse(text)
	if err != nil {
		return at, nil, nil
	}
	at, err = a.req.Snapshot.Find(ctx, name)
	if partition.Is(err, partition.NoSuchEntry) {
		return at, nil, nil
	}
	if err == nil {
		e, err = a.req.Snapshot.Entry(ctx, at.ID, false)
	}
	return at, e, err
}

// first returns the first value of an attribute, or nil if the attribute has no value.
func (a *Account) first(e *entry.Entry, name string) []byte {
	t := a.req.Schema.Attribute(name)
	if t == nil {
		return nil
	}
	if vs := e.Values(t); len(vs) > 0 {
		return vs[0]
	}
	return nil
}

func number(b []byte, otherwise int64) int64 {
	if n, err := strconv.ParseInt(string(b), 10, 64); err == nil {
		return n
	}
	return otherwise
}

// NeedsCode reports whether the account needs more than a password.
func (a *Account) NeedsCode() bool { return a.second != nil || a.factor != nil }

// split removes the code from the end of a password, if the account has a token. It returns no
// code if the password is shorter than a code.
func (a *Account) split(given []byte) (password []byte, code string) {
	if a.second == nil || len(given) < a.second.Digits {
		return given, ""
	}
	at := len(given) - a.second.Digits
	return given[:at], string(given[at:])
}

// withCode verifies the code that follows a password. It does this even if the password is
// wrong, so that the work is the same. It records that the code was used if both the
// password and the code are right.
func (a *Account) withCode(ctx context.Context, m account.Match, code string) (account.Match, error) {
	if a.second == nil {
		return m, nil
	}
	step, fits := a.second.Step(code, time.Now(), a.second.used)
	switch {
	case m == account.OldMatch:
		return m, nil
	case m != account.Fits || !fits:
		return account.Mismatch, nil
	}
	switch err := a.req.Server.Ledgers.Of(a.req.Known, a.second.id).UseStep(ctx, step); {
	case errors.Is(err, accountlog.ErrUsed):
		return account.Mismatch, nil
	case err != nil:
		return account.Mismatch, recorded(err)
	}
	return account.Fits, nil
}
