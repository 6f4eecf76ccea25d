package write

import (
	"github.com/seed-4dac0d86/ldapd/partition/subschema"

	"context"
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/acl"
	"github.com/seed-4dac0d86/ldapd/directory/internal/identify"
	"github.com/seed-4dac0d86/ldapd/directory/internal/password"
	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/directory/internal/virtual"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/schema"
)

// modify changes an entry (RFC 4511, 4.6). Users may change their own password
// by it.
func modify(ctx context.Context, req *request.Request, r *op.Modify) error {
	name, err := dn.Parse(r.Name)
	if err != nil {
		return op.Errorf(op.InvalidDNSyntax, "%v", err)
	}
	if subschema.Is(name) {
		return modifySubschema(ctx, req, name, r)
	}
	if err := virtual.RefuseWrite(name); err != nil {
		return err
	}
	changes := r.Changes
	u := &update{
		name: name,
		allowed: func(_ context.Context, req *request.Request, _ partition.Located, d *acl.Decision) error {
			return mayModify(req, d, r.Changes)
		},
		change: func(tx *partition.Tx) error { return modifyIn(ctx, req, tx, name, changes) },
	}
	if slices.ContainsFunc(changes, func(c op.Modification) bool { return password.Is(req, c.Description) }) {
		u.prepare = func() (err error) {
			changes, err = password.HashChanges(ctx, req, changes)
			return err
		}
	}
	err = u.run(ctx, req)
	if err == nil && touchesPassword(req, r.Changes) {
		identify.ChangedPassword(req)
	}
	return err
}

// modifySubschema changes the schema (RFC 4512, 4.4: servers may allow it).
func modifySubschema(ctx context.Context, req *request.Request, name dn.DN, r *op.Modify) error {
	u := &update{name: name, change: func(tx *partition.Tx) error { return tx.Modify(ctx, name, r.Changes) }}
	return u.run(ctx, req)
}

func modifyIn(ctx context.Context, req *request.Request, tx *partition.Tx, name dn.DN, changes []op.Modification) error {
	changes, err := password.StoredDeletes(ctx, req, name, changes)
	if err != nil {
		return err
	}
	if changes, err = renewed(ctx, req, name, changes); err != nil {
		return err
	}
	return tx.Modify(ctx, name, changes)
}

// isPasswordChange reports whether the requester is a user, and the changes are
// those of a user's own password: replaced, or the old value deleted and a new
// one added. None of them leaves the entry without a password.
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

// renewed adds to the changes of a password those of what was said of the old
// one: until when it may be used and, where users change their own, that they have
// to.
func renewed(ctx context.Context, req *request.Request, name dn.DN, changes []op.Modification) ([]op.Modification, error) {
	touches := func(t *schema.AttributeType) bool {
		for i := range changes {
			if req.Known.IsOf(changes[i].Description, t) {
				return true
			}
		}
		return false
	}
	if !touches(req.Known.UserPassword) {
		return changes, nil
	}
	at, err := req.Snapshot.Find(ctx, name)
	if err != nil {
		return nil, err
	}
	a := &req.Known.Account
	e, err := req.Snapshot.Some(ctx, at.ID, a.All)
	if err != nil || e == nil {
		return changes, err
	}
	for _, t := range []*schema.AttributeType{a.Expiration, a.Reset} {
		if t == nil || t == a.Reset && req.Who.IsAdmin() || len(e.Values(t)) == 0 || touches(t) {
			continue
		}
		changes = append(changes[:len(changes):len(changes)], password.Replace(t))
	}
	return changes, nil
}
