package directory

import (
	"context"
	"errors"
	"slices"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/partition"
)

// runWrite runs an update.
func runWrite(ctx context.Context, o *operation, r op.Request) (err error) {
	switch r := r.(type) {
	case *op.Add:
		err = add(ctx, o, r)
	case *op.Modify:
		err = modify(ctx, o, r)
	case *op.Delete:
		err = remove(ctx, o, r)
	case *op.ModifyDN:
		err = modifyDN(ctx, o, r)
	}
	if err == nil {
		tellToken(o)
	}
	return err
}

// target parses the name of an entry to be changed.
func target(s string) (dn.DN, error) {
	name, err := dn.Parse(s)
	if err != nil {
		return nil, op.Errorf(op.InvalidDNSyntax, "%v", err)
	}
	return name, refuseVirtual(name)
}

// add makes an entry (RFC 4511, 4.7).
func add(ctx context.Context, o *operation, r *op.Add) error {
	name, err := target(r.Name)
	if err != nil {
		return err
	}
	attributes := r.Attributes
	u := &update{name: name, adds: true, change: func(tx *partition.Tx) error {
		_, err := tx.Add(ctx, name, attributes, false)
		return err
	}}
	if slices.ContainsFunc(attributes, func(a op.PartialAttribute) bool { return o.isPassword(a.Description) }) {
		u.prepare = func() (err error) {
			attributes, err = o.hashAttributes(ctx, attributes)
			return err
		}
	}
	return u.run(ctx, o)
}

// remove deletes a leaf (RFC 4511, 4.8), or a tree.
func remove(ctx context.Context, o *operation, r *op.Delete) error {
	name, err := target(r.Name)
	if err != nil {
		return err
	}
	if o.controls.treeDelete {
		return deleteTree(ctx, o, name)
	}
	u := &update{name: name, change: func(tx *partition.Tx) error { return tx.Delete(ctx, name) }}
	return u.run(ctx, o)
}

// modifyDN renames and moves an entry (RFC 4511, 4.9).
func modifyDN(ctx context.Context, o *operation, r *op.ModifyDN) error {
	name, err := target(r.Name)
	if err != nil {
		return err
	}
	rdn, err := dn.ParseRDN(r.NewRDN)
	if err != nil {
		return op.Errorf(op.InvalidDNSyntax, "newrdn: %v", err)
	}
	superior, err := newSuperior(r)
	if err != nil {
		return err
	}
	u := &update{name: name, change: func(tx *partition.Tx) error {
		return tx.Rename(ctx, name, rdn, r.DeleteOldRDN, superior)
	}}
	if superior != nil {
		u.check = func() error { return checkSuperior(ctx, o, *superior) }
	}
	return u.run(ctx, o)
}

// newSuperior parses the name that an entry is to be moved below; nil: it stays.
func newSuperior(r *op.ModifyDN) (*dn.DN, error) {
	if r.NewSuperior == nil {
		return nil, nil
	}
	p, err := dn.Parse(*r.NewSuperior)
	if err != nil {
		return nil, op.Errorf(op.InvalidDNSyntax, "newSuperior: %v", err)
	}
	return &p, refuseBelow(p)
}

// checkSuperior keeps entries from being moved to where another server is
// responsible: that would take two of them (RFC 3296, 5.6.2).
func checkSuperior(ctx context.Context, o *operation, superior dn.DN) error {
	err := o.checkReferral(ctx, superior, "")
	var result *op.Result
	if errors.As(err, &result) {
		return op.Errorf(op.AffectsMultipleDSAs, "the new superior is held by another server")
	}
	return err
}
