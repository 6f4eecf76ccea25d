package write

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/directory/account"
	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/directory/internal/accountcheck"
	"github.com/seed-4dac0d86/ldapd/directory/internal/identify"
	"github.com/seed-4dac0d86/ldapd/directory/internal/password"
	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/directory/internal/virtual"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// planModify plans a change of an entry (RFC 4511, 4.6).
func planModify(ctx context.Context, req *request.Request, r *op.Modify, p *preparation) (*update, error) {
	name, err := dn.Parse(r.Name)
	if err != nil {
		return nil, op.Errorf(op.InvalidDNSyntax, "%v", err)
	}
	if identify.MustChange(req, nil) && !isOwnPassword(req, name, r.Changes) {
		return nil, accountcheck.Refusal(req, account.ErrMustChange)
	}
	if catalog.IsSubschema(name) {
		return modifySubschema(ctx, name, r), nil
	}
	if catalog.IsConfig(name) {
		return modifyConfig(ctx, req, name, r), nil
	}
	if err := virtual.RefuseWrite(name); err != nil {
		return nil, err
	}
	rules, changes := ruleChanges(req, r.Changes)
	u := &update{
		name:     name,
		settings: len(rules) > 0,
		prepared: p,
		allowed: func(_ context.Context, req *request.Request, _ partition.Located, d *acl.Decision) error {
			return mayModify(req, d, r.Changes)
		},
		change: func(tx *partition.Tx) error {
			if err := modifyIn(ctx, req, tx, name, changes, p.set); err != nil || len(rules) == 0 {
				return err
			}
			at, err := tx.Find(ctx, name)
			if err != nil {
				return err
			}
			return changeRules(ctx, req, tx, at.ID, name, rules)
		},
	}
	u.policy = slices.ContainsFunc(r.Changes, func(c op.Modification) bool { return ofPolicies(c.Description) })
	if touchesPassword(req, r.Changes) {
		u.setsPassword(ctx, req, func() error { return p.set.Set(ctx, req, r.Changes) })
	}
	return u, nil
}

// setsPassword sets the functions of the update that a change of passwords needs before and
// after the transaction. The function prepare does the slow work of the change.
func (u *update) setsPassword(ctx context.Context, req *request.Request, prepare func() error) {
	u.prepare = prepare
	u.open = func() (err error) {
		u.prepared.set, err = password.Open(ctx, req, u.name)
		return err
	}
	u.ended = func() {
		if u.prepared.isOwn() {
			identify.ChangedPassword(req)
		}
	}
}

// isOwnPassword reports whether all changes are changes of the requester's own password.
func isOwnPassword(req *request.Request, name dn.DN, changes []op.Modification) bool {
	return isOwn(req, name) && isPasswordChange(req, changes)
}

// modifySubschema returns the update that changes the schema. RFC 4512, 4.4 permits servers
// to allow this.
func modifySubschema(ctx context.Context, name dn.DN, r *op.Modify) *update {
	return &update{name: name, change: func(tx *partition.Tx) error { return onlineschema.Modify(ctx, tx, name, r.Changes) }}
}

// modifyIn makes changes in a transaction. If the changes include passwords, set is the
// prepared change of the passwords.
func modifyIn(ctx context.Context, req *request.Request, tx *partition.Tx, name dn.DN, changes []op.Modification, set *password.Setting) error {
	given := slices.ContainsFunc(changes, func(c op.Modification) bool { return password.GivesServers(req, c.Description) })
	tx.Rules.Accounts = !given || tx.Rules.Relaxed
	if set == nil && !unlocks(req, changes) {
		return onlineschema.Modify(ctx, tx, name, changes)
	}
	at, err := req.Snapshot.Find(ctx, name)
	if err != nil {
		return err
	}
	e, err := req.Snapshot.Some(ctx, at.ID, req.Known.Account.All)
	if err != nil || e == nil {
		return err
	}
	if set != nil {
		if current, err := set.Current(ctx, req, at.ID); err != nil || !current {
			return errors.Join(err, errPrepareAgain)
		}
		changes = append(slices.Clip(set.Changes), set.Touch(req, e)...)
	}
	return onlineschema.Modify(ctx, tx, name, unlocked(req, e, changes))
}

// unlocks reports whether changes delete pwdAccountLockedTime.
func unlocks(req *request.Request, changes []op.Modification) bool {
	return slices.ContainsFunc(changes, func(c op.Modification) bool {
		return req.Known.IsOf(c.Description, req.Known.Account.LockedTime) && (c.Kind == op.ModDelete || c.Kind == op.ModReplace && len(c.Values) == 0)
	})
}

// unlocked extends changes that delete pwdAccountLockedTime. It adds the deletion of the
// failures, because failures lock an account even if pwdAccountLockedTime is not stored. It
// drops the deletion of a pwdAccountLockedTime that is not stored, so that the modify does
// not fail.
func unlocked(req *request.Request, e *entry.Entry, changes []op.Modification) []op.Modification {
	k := &req.Known.Account
	if !unlocks(req, changes) || k.Failure == nil || slices.ContainsFunc(changes, func(c op.Modification) bool { return req.Known.IsOf(c.Description, k.Failure) }) {
		return changes
	}
	if len(e.Values(k.LockedTime)) == 0 {
		changes = slices.DeleteFunc(slices.Clone(changes), func(c op.Modification) bool {
			return req.Known.IsOf(c.Description, k.LockedTime) && c.Kind == op.ModDelete
		})
	}
	return append(slices.Clip(changes), password.Replace(k.Failure))
}

// isPasswordChange reports whether the requester is bound and the changes have one of two
// forms: they replace the password, or they delete the old value and add a new value. Users
// change their passwords in these two forms. After both forms, the entry has a password.
func isPasswordChange(req *request.Request, changes []op.Modification) bool {
	if req.Who == nil {
		return false
	}
	var kinds []op.ModKind
	for i := range changes {
		c := &changes[i]
		if !password.Is(req, c.Description) || strings.Contains(c.Description, ";") || len(c.Values) == 0 {
			return false
		}
		kinds = append(kinds, c.Kind)
	}
	slices.Sort(kinds)
	return slices.Equal(kinds, []op.ModKind{op.ModReplace}) ||
		slices.Equal(kinds, []op.ModKind{op.ModAdd, op.ModDelete})
}
