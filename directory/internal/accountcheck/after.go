package accountcheck

import (
	"context"
	"errors"
	"time"

	"github.com/seed-4dac0d86/ldapd/directory/account"
	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/ldap/control"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
)

// ErrCredentials is the answer to a wrong name, to a wrong password, and to the right
// password of an account that may not be used.
var ErrCredentials = &op.Result{Code: op.InvalidCredentials}

// AsWrong refuses a bind with the right credentials. The result and the duration of the bind
// are the same as for wrong credentials.
func AsWrong(ctx context.Context, req *request.Request) error {
	set, err := req.Server.Policies.Set(ctx, req.Snapshot, req.Known)
	if err != nil {
		return err
	}
	a := &Account{req: req, set: set}
	if err := a.wait(ctx); err != nil {
		return err
	}
	return ErrCredentials
}

// AsWrong refuses a bind with the right credentials of the account. The result and the
// amount of work are the same as for wrong credentials.
func (a *Account) AsWrong(ctx context.Context) error {
	if err := a.moreIfFits(ctx); err != nil {
		return err
	}
	if err := a.wait(ctx); err != nil {
		return err
	}
	return ErrCredentials
}

// Compares reports whether a comparison with the right password is true. The comparison is
// false if the password has expired or must be changed, or if the account is idle
// (draft-behera-ldap-password-policy, 9.4). If the password has expired or must be changed,
// and the client requested the password policy control, the response control reports this, as
// after a bind. No grace use is recorded.
func (a *Account) Compares() bool {
	o := a.Policy.AfterPassword(&a.State, time.Now())
	switch {
	case o.MustChange:
		tell(a.req, control.PasswordPolicy{Error: kind(account.ChangeAfterReset)})
	case o.Grace || o.Refused == account.Expired || o.Refused == account.ResetOver:
		tell(a.req, control.PasswordPolicy{Error: kind(account.PasswordExpired)})
	}
	return o.Refused == account.None && !o.MustChange && !o.Grace
}

// Locked returns the result of an attempt on a locked account. The client learns no more
// than after a wrong password, unless the policy lets the server report the lock.
func (a *Account) Locked() error {
	if a.Policy != nil && a.Policy.Tell {
		tell(a.req, control.PasswordPolicy{Error: kind(account.AccountLocked)})
	}
	return ErrCredentials
}

// Enter completes a bind with the right password. It returns an error if the account's state
// forbids the bind. Otherwise it adds warnings to the response, and sets Reset in an
// identity whose password must be changed.
func (a *Account) Enter(ctx context.Context) error {
	if !a.Who.HasEntry() || a.Who.IsAdmin() {
		return nil
	}
	now := time.Now()
	o := a.Policy.AfterPassword(&a.State, now)
	switch {
	case o.Refused == account.Unusable:
		return a.AsWrong(ctx)
	case o.Refused != account.None:
		return a.expired()
	case o.Grace:
		if err := a.useGrace(ctx, now); err != nil {
			return err
		}
	case o.MustChange:
		if err := a.useReset(ctx); err != nil {
			return err
		}
		tell(a.req, control.PasswordPolicy{Error: kind(account.ChangeAfterReset)})
		a.req.Response.Diagnostic = account.ErrMustChange.Error()
		a.old(control.OIDPasswordExpired, []byte(control.PasswordExpiredValue))
	case o.Warn > 0:
		tell(a.req, control.PasswordPolicy{Expires: o.Warn})
		a.old(control.OIDPasswordExpiring, control.PasswordExpiring(o.Warn))
	}
	a.Who.Reset.Store(o.MustChange)
	if a.Policy.RecordsSuccess(&a.State, now) {
		a.ledger.Succeed(a.Policy)
	}
	return nil
}

// SayReset tells the client that the owner of the named account must change the password that the
// request has set, and logs it.
func SayReset(req *request.Request, name string) {
	tell(req, control.PasswordPolicy{Error: kind(account.ChangeAfterReset)})
	req.Response.Diagnostic = "the account's owner must change this password before anything else, because its password policy has pwdMustChange: add pwdReset: FALSE to accounts that no person owns"
	req.Server.Log.Info("a password was set that the account's owner must change before anything else (pwdMustChange)", "dn", name, "by", req.Who.DN())
}

// expired refuses an expired password and reports the reason to the client.
func (a *Account) expired() error {
	tell(a.req, control.PasswordPolicy{Error: kind(account.PasswordExpired)})
	a.old(control.OIDPasswordExpired, []byte(control.PasswordExpiredValue))
	return ErrCredentials
}

// useGrace records one grace use of an expired password. It commits this use before it
// counts the uses, so that several servers together allow no more than the limit.
func (a *Account) useGrace(ctx context.Context, now time.Time) error {
	uses, err := account.Use(ctx, a.ledger.Uses(a.req.Known.Account.GraceUse))
	if err != nil {
		return recorded(err)
	}
	if len(uses) > a.Policy.GraceLimit {
		return a.expired()
	}
	left := a.Policy.GraceLeft(&a.State, uses, now)
	tell(a.req, control.PasswordPolicy{Grace: &left})
	a.old(control.OIDPasswordExpired, []byte(control.PasswordExpiredValue))
	return nil
}

// useReset records one use of a password that was reset, and refuses uses above the
// limit. It does nothing if the policy sets no limit.
func (a *Account) useReset(ctx context.Context) error {
	if a.Policy == nil || a.Policy.MaxResetUse == 0 {
		return nil
	}
	uses, err := account.Use(ctx, a.ledger.Uses(a.req.Known.Account.ResetUse))
	if err == nil && len(uses) > a.Policy.MaxResetUse {
		err = a.expired()
	}
	return recorded(err)
}

// recorded turns an error in recording a bind into the result of the bind. A server that
// takes no changes cannot record the use of an expired or reset password, or of a code. It
// refuses such a bind, because the client could repeat the same use at another server. The
// result is no referral, because few clients expect a referral from a bind.
func recorded(err error) error {
	if errors.Is(err, partition.ErrReadOnly) && !errors.Is(err, partition.ErrMoved) {
		return op.Errorf(op.UnwillingToPerform, "this server takes no changes and cannot record this bind: bind at the primary server")
	}
	return err
}

// The method "old" adds a response control of Netscape's servers, if the policy says so. Old
// clients expect this control without a request control.
func (a *Account) old(oid string, value []byte) {
	if a.Policy != nil && a.Policy.Netscape {
		a.req.Respond(oid, value)
	}
}

// tell adds the password policy response control if the client requested the control.
func tell(req *request.Request, p control.PasswordPolicy) {
	if req.Controls.PasswordPolicy {
		req.Respond(control.OIDPasswordPolicy, p.Encode())
	}
}

func kind(k account.ErrorKind) *int {
	n := int(k)
	return &n
}

// codes are the result codes of policy errors (draft-behera-ldap-password-policy, 8.2).
var codes = map[account.ErrorKind]op.Code{
	account.ModNotAllowed:       op.InsufficientAccessRights,
	account.MustSupplyOld:       op.InsufficientAccessRights,
	account.ChangeAfterReset:    op.InsufficientAccessRights,
	account.InsufficientQuality: op.ConstraintViolation,
	account.TooShort:            op.ConstraintViolation,
	account.TooYoung:            op.ConstraintViolation,
	account.InHistory:           op.ConstraintViolation,
}

// Refusal returns the result for a policy error, and adds the response control that reports
// the policy error. It turns account.ErrNoList and account.ErrNoStrength into unwillingToPerform, and returns other
// errors unchanged.
func Refusal(req *request.Request, err error) error {
	if errors.Is(err, account.ErrNoList) || errors.Is(err, account.ErrNoStrength) {
		return op.Errorf(op.UnwillingToPerform, "%v", err)
	}
	var refused *account.Error
	if !errors.As(err, &refused) {
		return err
	}
	tell(req, control.PasswordPolicy{Error: kind(refused.Kind)})
	return op.Errorf(codes[refused.Kind], "%s", refused.Text)
}
