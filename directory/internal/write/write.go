// Package write runs updates. Each runs in one transaction, on one state.
package write

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/acl"
	"github.com/seed-4dac0d86/ldapd/directory/internal/locate"
	"github.com/seed-4dac0d86/ldapd/directory/internal/password"
	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/directory/internal/virtual"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/partition"
)

// Run runs an update.
func Run(ctx context.Context, req *request.Request, r op.Request) (err error) {
	switch r := r.(type) {
	case *op.Add:
		err = add(ctx, req, r)
	case *op.Modify:
		err = modify(ctx, req, r)
	case *op.Delete:
		err = remove(ctx, req, r)
	case *op.ModifyDN:
		err = modifyDN(ctx, req, r)
	}
	if err == nil {
		sendToken(req)
	}
	return err
}

// target parses the name of an entry to be changed.
func target(s string) (dn.DN, error) {
	name, err := dn.Parse(s)
	if err != nil {
		return nil, op.Errorf(op.InvalidDNSyntax, "%v", err)
	}
	return name, virtual.RefuseWrite(name)
}

// add adds an entry (RFC 4511, 4.7).
func add(ctx context.Context, req *request.Request, r *op.Add) error {
	name, err := target(r.Name)
	if err != nil {
		return err
	}
	rules, plain := givenRules(req, r.Attributes)
	attributes := plain
	given := slices.ContainsFunc(attributes, func(a op.PartialAttribute) bool { return password.GivesServers(req, a.Description) })
	u := &update{name: name, adds: true, attributes: r.Attributes, rules: len(rules) > 0, change: func(tx *partition.Tx) error {
		tx.Rules.Accounts = !given || tx.Rules.Relaxed
		id, err := tx.Add(ctx, name, attributes, false)
		if err != nil {
			return err
		}
		return changeRules(ctx, req, tx, id, name, rules)
	}}
	u.policy = slices.ContainsFunc(attributes, func(a op.PartialAttribute) bool {
		return ofPolicies(a.Description) && !strings.EqualFold(a.Description, "objectClass")
	})
	if slices.ContainsFunc(attributes, func(a op.PartialAttribute) bool { return password.Is(req, a.Description) }) {
		u.prepare = func() (err error) {
			if attributes, err = password.HashAttributes(ctx, req, plain); err != nil {
				return err
			}
			checked, err := password.CheckNew(ctx, req, name, plain, proposed(req, name[0], plain))
			attributes = append(attributes, checked[min(len(plain), len(checked)):]...)
			return err
		}
	}
	return u.run(ctx, req)
}

// remove deletes a leaf (RFC 4511, 4.8), or a tree.
func remove(ctx context.Context, req *request.Request, r *op.Delete) error {
	name, err := target(r.Name)
	if err != nil {
		return err
	}
	if req.Controls.TreeDelete {
		return deleteTree(ctx, req, name)
	}
	u := &update{name: name, allowed: mayDelete, change: func(tx *partition.Tx) error { return tx.Delete(ctx, name) }}
	return u.run(ctx, req)
}

// modifyDN renames and moves an entry (RFC 4511, 4.9).
func modifyDN(ctx context.Context, req *request.Request, r *op.ModifyDN) error {
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
	u.allowed = func(ctx context.Context, req *request.Request, at partition.Located, d *acl.Decision) error {
		return u.mayRename(ctx, req, at, d, rdn, superior)
	}
	if superior != nil {
		u.check = func() error { return checkSuperior(ctx, req, *superior) }
	}
	return u.run(ctx, req)
}

// newSuperior parses the name of the new superior. It returns nil if the entry stays.
func newSuperior(r *op.ModifyDN) (*dn.DN, error) {
	if r.NewSuperior == nil {
		return nil, nil
	}
	p, err := dn.Parse(*r.NewSuperior)
	if err != nil {
		return nil, op.Errorf(op.InvalidDNSyntax, "newSuperior: %v", err)
	}
	return &p, virtual.RefuseBelow(p)
}

// checkSuperior refuses to move an entry below a name that another server holds: that
// would take two servers (RFC 3296, 5.6.2).
func checkSuperior(ctx context.Context, req *request.Request, superior dn.DN) error {
	err := locate.CheckReferral(ctx, req, superior, "")
	var result *op.Result
	if errors.As(err, &result) {
		return op.Errorf(op.AffectsMultipleDSAs, "the new superior is held by another server")
	}
	return err
}
