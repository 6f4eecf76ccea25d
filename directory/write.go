package directory

import (
	"context"
	"errors"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/partition"
)

var errAccess = op.Errorf(op.InsufficientAccessRights, "only the administrator may do this")

// target parses the name of an entry to be changed.
func target(s string) (dn.DN, error) {
	name, err := dn.Parse(s)
	if err != nil {
		return nil, op.Errorf(op.InvalidDNSyntax, "%v", err)
	}
	return name, refuseVirtual(name)
}

// mayWrite refuses who may not write what a name leads to. A referral comes
// before the refusal, since it is the other server that decides.
func (o *operation) mayWrite(ctx context.Context, name dn.DN) error {
	s := o.now()
	defer s.Close()
	if err := o.checkReferral(ctx, s, name, ""); err != nil {
		return err
	}
	if !o.who.isAdmin() {
		return errAccess
	}
	return nil
}

// add makes an entry (RFC 4511, 4.7).
func (o *operation) add(ctx context.Context, r *op.Add) error {
	name, err := target(r.Name)
	if err != nil {
		return err
	}
	if err := o.mayWrite(ctx, name); err != nil {
		return err
	}
	attributes, err := o.hashAttributes(ctx, r.Attributes)
	if err != nil {
		return err
	}
	return o.update(ctx, &update{name: name, adds: true, change: func(tx *partition.Tx) error {
		_, err := tx.Add(ctx, name, attributes, false)
		return err
	}})
}

// delete removes a leaf (RFC 4511, 4.8).
func (o *operation) delete(ctx context.Context, r *op.Delete) error {
	name, err := target(r.Name)
	if err != nil {
		return err
	}
	if err := o.mayWrite(ctx, name); err != nil {
		return err
	}
	if o.controls.treeDelete {
		return o.deleteTree(ctx, name)
	}
	return o.update(ctx, &update{name: name, change: func(tx *partition.Tx) error { return tx.Delete(ctx, name) }})
}

// modifyDN renames and moves an entry (RFC 4511, 4.9).
func (o *operation) modifyDN(ctx context.Context, r *op.ModifyDN) error {
	name, err := target(r.Name)
	if err != nil {
		return err
	}
	rdn, err := dn.ParseRDN(r.NewRDN)
	if err != nil {
		return op.Errorf(op.InvalidDNSyntax, "newrdn: %v", err)
	}
	var superior *dn.DN
	if r.NewSuperior != nil {
		p, err := dn.Parse(*r.NewSuperior)
		if err != nil {
			return op.Errorf(op.InvalidDNSyntax, "newSuperior: %v", err)
		}
		if partition.IsSubschema(p) || isChangelog(p) || isMonitor(p) {
			return op.Errorf(op.UnwillingToPerform, "nothing can stand below %s", p)
		}
		superior = &p
	}
	if err := o.mayWrite(ctx, name); err != nil {
		return err
	}
	if superior != nil {
		if err := o.checkSuperior(ctx, *superior); err != nil {
			return err
		}
	}
	return o.update(ctx, &update{name: name, change: func(tx *partition.Tx) error {
		return tx.Rename(ctx, name, rdn, r.DeleteOldRDN, superior)
	}})
}

// checkSuperior keeps entries from being moved to where another server is
// responsible: that would take two of them (RFC 3296, 5.6.2).
func (o *operation) checkSuperior(ctx context.Context, superior dn.DN) error {
	s := o.now()
	defer s.Close()
	err := o.checkReferral(ctx, s, superior, "")
	var result *op.Result
	if errors.As(err, &result) {
		return op.Errorf(op.AffectsMultipleDSAs, "the new superior is held by another server")
	}
	return err
}

// modify changes an entry (RFC 4511, 4.6). Users may change their own password
// by it.
func (o *operation) modify(ctx context.Context, r *op.Modify) error {
	name, err := dn.Parse(r.Name)
	if err != nil {
		return op.Errorf(op.InvalidDNSyntax, "%v", err)
	}
	if partition.IsSubschema(name) {
		return o.modifySubschema(ctx, name, r)
	}
	if err := refuseVirtual(name); err != nil {
		return err
	}
	if err := o.mayWrite(ctx, name); err != nil && (!errors.Is(err, errAccess) || !o.isPasswordChange(r.Changes)) {
		return err
	}
	changes, err := o.hashChanges(ctx, r.Changes)
	if err != nil {
		return err
	}
	err = o.update(ctx, &update{
		name:   name,
		allow:  func(tx *partition.Tx) error { return o.mayModify(ctx, tx, name) },
		change: func(tx *partition.Tx) error { return o.modifyIn(ctx, tx, name, changes) },
	})
	if err == nil {
		o.changedPassword() // what else could a user have modified
	}
	return err
}

// mayModify refuses who is neither the administrator nor the entry itself.
func (o *operation) mayModify(ctx context.Context, tx *partition.Tx, name dn.DN) error {
	if o.who.isAdmin() {
		return nil
	}
	at, err := tx.Find(ctx, name)
	switch {
	case isMissing(err):
		return errAccess
	case err != nil:
		return err
	case o.who == nil || at.ID != o.who.id:
		return errAccess
	}
	return nil
}

func (o *operation) modifyIn(ctx context.Context, tx *partition.Tx, name dn.DN, changes []op.Modification) error {
	changes, err := o.storedDeletes(ctx, &tx.Snapshot, name, changes)
	if err != nil {
		return err
	}
	if changes, err = o.renewed(ctx, &tx.Snapshot, name, changes); err != nil {
		return err
	}
	return tx.Modify(ctx, name, changes)
}
