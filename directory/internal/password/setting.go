package password

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/seed-4dac0d86/ldapd/directory/account"
	"github.com/seed-4dac0d86/ldapd/directory/auth"
	"github.com/seed-4dac0d86/ldapd/directory/internal/accountcheck"
	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/directory/settings"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// A Setting is a change of an entry's passwords in progress. Slow work, such as hashing, is
// done before the transaction begins, with the passwords that are stored at that time.
type Setting struct {
	account *accountcheck.Account
	own     func(attribute string) []string // returns the values of an attribute of the account's entry
	change  account.Change
	was     [][]byte // passwords stored when the change was prepared
	// Changes are the modifications that the transaction makes.
	Changes []op.Modification
	// Resets is set by Touch if the account's owner must change the new password.
	Resets bool
}

// Open begins a change of the passwords of an entry. It reads the entry's account from the
// state that the request reads.
func Open(ctx context.Context, req *request.Request, name dn.DN) (*Setting, error) {
	at, err := req.Snapshot.Find(ctx, name)
	if err != nil {
		return nil, err
	}
	s := &Setting{}
	if s.account, err = accountcheck.Open(ctx, req.On(req.Snapshot), &settings.Identity{Name: at.Name, ID: at.ID}, at.Name.String()); err != nil {
		return nil, err
	}
	s.change.Reset = !req.Who.HasEntry() || req.Who.ID != at.ID
	s.change.Relaxed = req.Controls.Rules.Relaxed
	s.was = s.stored(req, "userPassword")
	if s.account.Policy != nil {
		s.own = s.account.Own(ctx)
	}
	return s, nil
}

// stored returns the stored values of userPassword with the description's options.
func (s *Setting) stored(req *request.Request, description string) [][]byte {
	return storedIn(req, s.account.Secrets, description)
}

// Set prepares changes of the entry that include changes of its passwords.
func (s *Setting) Set(ctx context.Context, req *request.Request, changes []op.Modification) error {
	return s.prepare(req, func() (err error) {
		if s.Changes, err = s.namedOld(ctx, req, changes); err != nil {
			return err
		}
		if err := s.check(ctx, req, clearIn(req, changes), hashIn(req, changes)); err != nil {
			return err
		}
		s.Changes, err = HashChanges(ctx, req, s.Changes)
		return err
	})
}

// Replace prepares a change that replaces all passwords of the entry by a new password,
// even if the new password looks like a hash. The parameter old is nil if the client sent
// no old password.
func (s *Setting) Replace(ctx context.Context, req *request.Request, old, clear []byte) error {
	return s.prepare(req, func() (err error) {
		if old != nil {
			if _, err := s.verifyOld(ctx, old); err != nil {
				return op.Errorf(op.UnwillingToPerform, "the old password is wrong")
			}
		}
		if err := s.check(ctx, req, [][]byte{clear}, false); err != nil {
			return err
		}
		s.Changes, err = New(ctx, req, clear)
		return err
	})
}

// Vouch makes the change count as one with the right old password: the requester has proved otherwise
// to be the owner of the account.
func (s *Setting) Vouch() { s.change.OldGiven = true }

func (s *Setting) prepare(req *request.Request, make func() error) error {
	defer s.account.Detach()
	if err := make(); err != nil {
		return accountcheck.Refusal(req, err)
	}
	return nil
}

var errOld = op.Errorf(op.NoSuchAttribute, "the old password is wrong")

// verifyOld returns the stored value that an old password fits. Package gate verifies the
// password.
func (s *Setting) verifyOld(ctx context.Context, old []byte) ([]byte, error) {
	v, stored, err := s.account.Verify(ctx, old)
	switch {
	case err != nil:
		return nil, err
	case v != account.Right:
		return nil, errOld
	}
	s.change.OldGiven, s.change.Candidate.Old = true, string(old)
	return stored, nil
}

// namedOld lets a user delete an old password by its clear text. In the changes that delete
// a password in clear, it replaces the clear text by the stored value that the password
// fits. Only the administrator may name a stored value itself. If other users could name it,
// a stolen stored value would be as good as the password.
func (s *Setting) namedOld(ctx context.Context, req *request.Request, changes []op.Modification) ([]op.Modification, error) {
	changes = slices.Clone(changes)
	for i := range changes {
		c := &changes[i]
		if c.Kind != op.ModDelete || len(c.Values) == 0 || !Is(req, c.Description) {
			continue
		}
		c.Values = slices.Clone(c.Values)
		for j, given := range c.Values {
			if req.Who.IsAdmin() {
				stored, err := s.named(ctx, req, c.Description, given)
				if err != nil {
					return nil, err
				}
				c.Values[j] = stored
				continue
			}
			stored, err := s.verifyOld(ctx, given)
			if err != nil {
				return nil, err
			}
			c.Values[j] = stored
		}
	}
	return changes, nil
}

// named returns the stored value that the parameter given denotes. The parameter is either the
// stored value itself, or the password from which the stored value was computed. If there is no
// such stored value, named returns the parameter.
func (s *Setting) named(ctx context.Context, req *request.Request, description string, given []byte) ([]byte, error) {
	for _, v := range s.stored(req, description) {
		if bytes.Equal(v, given) {
			return v, nil
		}
		ok, err := req.Server.Passwords.Verify(ctx, req.Session.Channel, v, given)
		if ok {
			return v, nil
		}
		if err != nil && !errors.Is(err, auth.ErrScheme) {
			return nil, err
		}
	}
	return given, nil
}

// check returns an error if the policy does not allow the new passwords.
func (s *Setting) check(ctx context.Context, req *request.Request, clear [][]byte, hashed bool) error {
	if slices.ContainsFunc(clear, func(c []byte) bool { return len(c) > auth.MaxPassword }) {
		return auth.ErrLong
	}
	p := s.account.Policy
	if p == nil || len(clear) == 0 && !hashed {
		return nil
	}
	if len(clear) > 1 {
		return op.Errorf(op.ConstraintViolation, "the password policy allows an account only one password")
	}
	if err := p.MayChange(&s.account.State, &s.change, time.Now()); err != nil {
		return err
	}
	if s.change.Hashed = hashed; len(clear) > 0 {
		s.change.Candidate.Password = string(clear[0])
	}
	s.change.Candidate.Own, s.change.Candidate.Listed = s.own, req.Server.Settings().Listed
	if err := p.Check(&s.change); err != nil {
		return err
	}
	if hashed || s.change.Relaxed {
		return nil
	}
	return s.checkHistory(ctx, req, clear[0])
}

// checkHistory refuses a password that is one of the account's current passwords or one
// of its last Policy.InHistory earlier passwords. If InHistory is zero, it refuses only the current
// passwords, and only if the user must change the password: the user who keeps the password would be
// free of this duty.
func (s *Setting) checkHistory(ctx context.Context, req *request.Request, clear []byte) error {
	n := s.account.Policy.InHistory
	must := s.IsOwn() && s.account.Policy.AfterPassword(&s.account.State, time.Now()).MustChange
	if n == 0 && !must {
		return nil
	}
	used := slices.Clone(s.was)
	for _, old := range s.account.Pasts() {
		if len(used) >= n+len(s.was) {
			break
		}
		used = append(used, old.Hash)
	}
	for _, v := range used {
		ok, err := req.Server.Passwords.Verify(ctx, req.Session.Channel, v, clear)
		if ok {
			return account.ErrInHistory
		}
		if err != nil && !errors.Is(err, auth.ErrScheme) {
			return err
		}
	}
	return nil
}

// IsOwn reports whether the requester changes their own password.
func (s *Setting) IsOwn() bool { return !s.change.Reset }

// Current reports whether the passwords in the state that the request reads are still the
// passwords with which the change was prepared.
func (s *Setting) Current(ctx context.Context, req *request.Request, id entry.ID) (bool, error) {
	secrets, err := req.Snapshot.Secrets(ctx, id)
	return slices.EqualFunc(storedIn(req, secrets, "userPassword"), s.was, bytes.Equal), err
}

// Touch returns the modifications of other attributes that a change of passwords makes. They
// delete passwordExpirationTime. Depending on the policy and on who makes the change, they also
// change pwdReset, pwdChangedTime and pwdHistory, and delete the failures and uses recorded for
// the old passwords. Touch leaves out attributes that the request itself changes.
func (s *Setting) Touch(req *request.Request, e *entry.Entry) (more []op.Modification) {
	k := &req.Known.Account
	set := func(t *schema.AttributeType, values ...[]byte) {
		if t != nil && (len(values) > 0 || len(e.Values(t)) > 0) {
			more = append(more, Replace(t, values...))
		}
	}
	given := func(t *schema.AttributeType) bool {
		return slices.ContainsFunc(s.Changes, func(c op.Modification) bool { return req.Known.IsOf(c.Description, t) })
	}
	if !given(k.Expiration) {
		set(k.Expiration)
	}
	p := s.account.Policy
	s.Resets = !given(k.Reset) && p.ResetAfter(&s.change)
	switch {
	case given(k.Reset):
	case s.Resets:
		set(k.Reset, []byte("TRUE"))
	case !s.change.Reset || p != nil:
		set(k.Reset)
	}
	if !s.account.Governed() {
		return more
	}
	if !given(k.Changed) {
		set(k.Changed, schema.AppendTime(nil, time.Now()))
	}
	if k.History != nil && p != nil && p.InHistory > 0 {
		more = append(more, Replace(k.History, s.history(p.InHistory)...))
	}
	for _, t := range k.Hot {
		more = append(more, Replace(t))
	}
	return more
}

// history returns the new values of pwdHistory, at most n. The first values are the
// passwords that the change replaces. The older values of pwdHistory follow.
func (s *Setting) history(n int) (values [][]byte) {
	for _, v := range s.was {
		values = append(values, account.NewPast(time.Now(), v).Stored)
	}
	for _, old := range s.account.Pasts() {
		values = append(values, old.Stored)
	}
	return values[:min(n, len(values))]
}

// clearIn returns the new passwords in clear among changes.
func clearIn(req *request.Request, changes []op.Modification) (all [][]byte) {
	for i := range changes {
		c := &changes[i]
		if !Is(req, c.Description) || c.Kind == op.ModDelete {
			continue
		}
		for _, v := range c.Values {
			if !auth.Hashed(v) {
				all = append(all, auth.Clear(v))
			}
		}
	}
	return all
}

// hashIn reports whether changes add a password that is already hashed.
func hashIn(req *request.Request, changes []op.Modification) bool {
	return slices.ContainsFunc(changes, func(c op.Modification) bool {
		return Is(req, c.Description) && c.Kind != op.ModDelete && slices.ContainsFunc(c.Values, auth.Hashed)
	})
}

// CheckNew returns an error if the policy of a new entry does not allow the entry's
// passwords. Otherwise, if the directory has any policy, it adds the account attributes that
// the server maintains. The result resets means that the server has decided that the account's owner
// must change the password.
func CheckNew(ctx context.Context, req *request.Request, name dn.DN, as []op.PartialAttribute, e *entry.Entry) (more []op.PartialAttribute, resets bool, err error) {
	a, err := accountcheck.OpenNew(ctx, req, name, e)
	if err != nil || !a.Governed() {
		return as, false, err
	}
	var changes []op.Modification
	for _, x := range as {
		changes = append(changes, op.Modification{Kind: op.ModAdd, PartialAttribute: x})
	}
	s := &Setting{account: a, own: a.Own(ctx)}
	s.change.Reset, s.change.Relaxed = true, req.Controls.Rules.Relaxed
	if err := s.check(ctx, req, clearIn(req, changes), hashIn(req, changes)); err != nil {
		return nil, false, accountcheck.Refusal(req, err)
	}
	k := &req.Known.Account
	as = addUnlessGiven(req, as, k.Changed, string(schema.AppendTime(nil, time.Now())))
	if !a.Policy.ResetAfter(&s.change) {
		return as, false, nil
	}
	more = addUnlessGiven(req, as, k.Reset, "TRUE")
	return more, len(more) > len(as), nil
}

func addUnlessGiven(req *request.Request, as []op.PartialAttribute, t *schema.AttributeType, value string) []op.PartialAttribute {
	if t == nil || slices.ContainsFunc(as, func(a op.PartialAttribute) bool { return req.Known.IsOf(a.Description, t) }) {
		return as
	}
	return append(slices.Clip(as), op.Attribute(t.Name(), value))
}

// GivesServers reports whether a description is of a type that only the server may write.
func GivesServers(req *request.Request, description string) bool {
	name, _, _ := strings.Cut(description, ";")
	t := req.Schema.Attribute(name)
	return t != nil && t.NoUserModification
}
