package directory

import (
	"context"
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/partition"
)

// modify changes an entry (RFC 4511, 4.6). Users may change their own password
// by it.
func modify(ctx context.Context, o *operation, r *op.Modify) error {
	name, err := dn.Parse(r.Name)
	if err != nil {
		return op.Errorf(op.InvalidDNSyntax, "%v", err)
	}
	if partition.IsSubschema(name) {
		return modifySubschema(ctx, o, name, r)
	}
	if err := refuseVirtual(name); err != nil {
		return err
	}
	changes := r.Changes
	u := &update{
		name:   name,
		own:    isPasswordChange(o, changes),
		change: func(tx *partition.Tx) error { return modifyIn(ctx, o, tx, name, changes) },
	}
	if slices.ContainsFunc(changes, func(c op.Modification) bool { return o.isPassword(c.Description) }) {
		u.prepare = func() (err error) {
			changes, err = o.hashChanges(ctx, changes)
			return err
		}
	}
	err = u.run(ctx, o)
	if err == nil {
		o.changedPassword() // what else could a user have modified
	}
	return err
}

// modifySubschema changes the schema (RFC 4512, 4.4: servers may allow it).
func modifySubschema(ctx context.Context, o *operation, name dn.DN, r *op.Modify) error {
	u := &update{name: name, change: func(tx *partition.Tx) error { return tx.Modify(ctx, name, r.Changes) }}
	return u.run(ctx, o)
}

func modifyIn(ctx context.Context, o *operation, tx *partition.Tx, name dn.DN, changes []op.Modification) error {
	changes, err := o.storedDeletes(ctx, name, changes)
	if err != nil {
		return err
	}
	if changes, err = o.renewed(ctx, name, changes); err != nil {
		return err
	}
	return tx.Modify(ctx, name, changes)
}

// isPasswordChange reports whether the requester is a user, and the changes are
// those of a user's own password: replaced, or the old value deleted and a new
// one added. None of them leaves the entry without a password.
func isPasswordChange(o *operation, changes []op.Modification) bool {
	if o.who == nil {
		return false
	}
	var kinds []op.ModKind
	for i := range changes {
		c := &changes[i]
		if !o.isPassword(c.Description) || strings.Contains(c.Description, ";") || len(c.Values) == 0 {
			return false
		}
		kinds = append(kinds, c.Kind)
	}
	slices.Sort(kinds)
	return slices.Equal(kinds, []op.ModKind{op.ModReplace}) ||
		slices.Equal(kinds, []op.ModKind{op.ModAdd, op.ModDelete})
}
