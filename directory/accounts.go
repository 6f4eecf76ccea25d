package directory

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/pquerna/otp/totp"

	"github.com/seed-4dac0d86/ldapd/directory/account"
	"github.com/seed-4dac0d86/ldapd/directory/auth"
	"github.com/seed-4dac0d86/ldapd/directory/internal/accountcheck"
	"github.com/seed-4dac0d86/ldapd/directory/internal/accountlog"
	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/directory/settings"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/ldap/control"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
)

// RecommendedPolicy returns the default password policy that new directories begin with. It demands a strength, for
// which a program imports package directory/account/strength.
func RecommendedPolicy() (policy []catalog.PolicyAttribute) {
	for _, v := range account.Recommended {
		policy = catalog.AddPolicyValue(policy, v.Name, v.Value)
	}
	return policy
}

// Accounts reports on accounts and changes them for an operator, with the administrator's
// rights.
type Accounts struct {
	d *Directory
	s *Session
}

// NewAccounts returns the accounts of a partition. The parameter by is the author of the
// changes that the methods make.
func NewAccounts(p *partition.Partition, by string) (*Accounts, error) {
	// Reset generates random passwords, which are in no list of known passwords.
	d, err := New(p, Options{Listed: func([]byte) bool { return false }})
	if err != nil {
		return nil, err
	}
	s := d.NewSession(nil)
	s.s.Who.Store(&settings.Identity{Name: dn.NewName(by), Admin: true})
	return &Accounts{d, s}, nil
}

// Close ends background work.
func (a *Accounts) Close() { a.d.Close() }

// An AccountReport describes the state of an account.
type AccountReport struct {
	Policy *account.Policy // nil: the account has no policy
	Why    string          // why Policy applies
	State  account.State
	Lock   account.Lock

	HasPassword bool
	Scheme      string // scheme of the stored password
	Expires     time.Time
	Old         int // number of old passwords kept
	NeedsCode   bool
	Usable      bool
}

// Report describes the state of an account.
func (a *Accounts) Report(ctx context.Context, name dn.DN) (*AccountReport, error) {
	req := request.New(a.d.server)
	req.Begin(&a.s.s, 0)
	defer req.Now().Close()
	at, err := req.Snapshot.Find(ctx, name)
	if err != nil {
		return nil, err
	}
	found, err := a.d.server.Policies.Of(ctx, req.Snapshot, req.Known, at)
	if err != nil {
		return nil, err
	}
	g, err := accountcheck.At(ctx, req, at)
	if err != nil {
		return nil, err
	}
	r := &AccountReport{Policy: found.Policy, Why: found.Why, State: g.State, Lock: g.Lock(), HasPassword: g.HasPassword(),
		Expires: found.Policy.Expiry(&g.State), Old: len(g.Pasts()), NeedsCode: g.NeedsCode(), Usable: g.Usable()}
	for i := range g.Secrets {
		if g.Secrets[i].Type == req.Known.UserPassword {
			r.Scheme, _ = auth.Usable(g.Secrets[i].Values[0])
		}
	}
	if last := accountlog.Times(g.Secrets, "pwdLastSuccess"); len(last) > 0 {
		r.State.Success = last[0]
	}
	return r, nil
}

// Unlock deletes the failures that lock an account, and removes pwdAccountLockedTime.
func (a *Accounts) Unlock(ctx context.Context, name dn.DN) error {
	return a.modify(ctx, name, false, op.Change(op.ModReplace, "pwdAccountLockedTime"))
}

// Disable makes an account unusable.
func (a *Accounts) Disable(ctx context.Context, name dn.DN) error {
	return a.modify(ctx, name, false, op.Change(op.ModReplace, "pwdAccountLockedTime", "000001010000Z"))
}

// Enable removes the attributes that lock or disable an account.
func (a *Accounts) Enable(ctx context.Context, name dn.DN) error {
	return a.modify(ctx, name, false, op.Change(op.ModReplace, "pwdAccountLockedTime"),
		op.Change(op.ModReplace, "nsAccountLock"), op.Change(op.ModReplace, "ds-pwp-account-disabled"))
}

// Reset sets a new password and returns it. It also sets pwdReset. If no policy applies to the
// account, or if the policy sets pwdMustChange, the user must then change the password.
func (a *Accounts) Reset(ctx context.Context, name dn.DN) (string, error) {
	generated := auth.Generate()
	err := a.modify(ctx, name, false, op.Change(op.ModReplace, "userPassword", string(generated)), op.Change(op.ModReplace, "pwdReset", "TRUE"))
	return string(generated), err
}

// StartTOTP creates a secret for time-based codes and returns the secret's URI, which
// authenticator applications read. From then on, a code must follow the account's
// password in a bind.
func (a *Accounts) StartTOTP(ctx context.Context, name dn.DN, issuer string) (string, error) {
	key, err := totp.Generate(totp.GenerateOpts{Issuer: issuer, AccountName: name.String(), SecretSize: 20})
	if err != nil {
		return "", err
	}
	secret, err := account.DecodeSecret(key.Secret())
	if err != nil {
		return "", err
	}
	return key.URL(), a.modify(ctx, name, true, RequireTOTP(name.String(), secret)...)
}

// EndTOTP removes the secret for time-based codes.
func (a *Accounts) EndTOTP(ctx context.Context, name dn.DN) error {
	return a.modify(ctx, name, true, DropTOTP()...)
}

// RequireTOTP returns the changes from which on an account needs time-based codes. Some may be in effect already.
func RequireTOTP(name string, secret []byte) []op.Modification {
	return []op.Modification{op.Change(op.ModAdd, "objectClass", "oathTOTPUser", "oathTOTPToken"),
		op.Change(op.ModReplace, "oathTOTPToken", name), op.Change(op.ModReplace, "oathSecret", string(secret))}
}

// DropTOTP returns the changes from which on an account needs no codes.
func DropTOTP() []op.Modification {
	return []op.Modification{op.Change(op.ModReplace, "oathTOTPToken"), op.Change(op.ModReplace, "oathSecret"),
		op.Change(op.ModDelete, "objectClass", "oathTOTPUser", "oathTOTPToken")}
}

// modify changes an entry. If permissive is set, changes that are already in effect are
// no errors.
func (a *Accounts) modify(ctx context.Context, name dn.DN, permissive bool, changes ...op.Modification) error {
	var known []op.Modification
	for _, c := range changes {
		if a.d.server.Part.Schema().Attribute(c.Description) == nil && len(c.Values) == 0 {
			continue // the schema lacks the attribute, so there is nothing to remove
		}
		known = append(known, c)
	}
	m := &op.Message{Request: &op.Modify{Name: name.String(), Changes: known}}
	if permissive {
		m.Controls = []op.Control{{OID: control.OIDPermissiveModify, Critical: true}}
	}
	var out lastAnswer
	if a.s.Serve(ctx, m, &out); out.r.Code != op.Success {
		return fmt.Errorf("%s: %w", strings.TrimSpace(name.String()), &out.r.Result)
	}
	return nil
}

// lastAnswer is a sink that keeps the result of a request.
type lastAnswer struct{ r op.Response }

func (*lastAnswer) Entry(*op.SearchEntry) error                     { return nil }
func (*lastAnswer) Reference([]string, []op.Control) error          { return nil }
func (*lastAnswer) Intermediate(string, []byte, []op.Control) error { return nil }
func (l *lastAnswer) Done(r *op.Response) error                     { l.r = *r; return nil }
