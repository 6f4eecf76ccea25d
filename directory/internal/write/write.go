// Package write runs updates. Each update runs in one transaction, on one state, except
// that the deletion of a large tree runs in several transactions.
package write

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/directory/internal/locate"
	"github.com/seed-4dac0d86/ldapd/directory/internal/password"
	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/directory/internal/virtual"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
)

// Run runs an update.
func Run(ctx context.Context, req *request.Request, r op.Request) error {
	if done, err := runBranch(ctx, req, r); done {
		return err
	}
	if d, ok := r.(*op.Delete); ok && req.Controls.TreeDelete {
		err := deleteTree(ctx, req, d)
		if err == nil {
			sendToken(req)
		}
		return err
	}
	u, err := plan(ctx, req, r, &preparation{})
	if err != nil {
		return err
	}
	if err = u.run(ctx, req); err == nil {
		sendToken(req)
	}
	return err
}

// plan returns the update that a request contains.
func plan(ctx context.Context, req *request.Request, r op.Request, p *preparation) (*update, error) {
	switch r := r.(type) {
	case *op.Add:
		return planAdd(ctx, req, r, p)
	case *op.Modify:
		return planModify(ctx, req, r, p)
	case *op.Delete:
		return planDelete(ctx, req, r, p)
	case *op.ModifyDN:
		return planModifyDN(ctx, req, r)
	case *op.Extended:
		return planPasswordModify(ctx, req, r.Value, p)
	}
	return nil, op.Errorf(op.ProtocolError, "the request is not an update")
}

// target parses the name of an entry to change. It returns an error if the name is invalid or
// belongs to a source of package virtual.
func target(s string) (dn.DN, error) {
	name, err := dn.Parse(s)
	if err != nil {
		return nil, op.Errorf(op.InvalidDNSyntax, "%v", err)
	}
	return name, virtual.RefuseWrite(name)
}

// planAdd plans the addition of an entry (RFC 4511, 4.7).
func planAdd(ctx context.Context, req *request.Request, r *op.Add, p *preparation) (*update, error) {
	name, err := target(r.Name)
	if err != nil {
		return nil, err
	}
	rules, plain := givenRules(req, r.Attributes)
	given := slices.ContainsFunc(plain, func(a op.PartialAttribute) bool { return password.GivesServers(req, a.Description) })
	u := &update{name: name, adds: true, attributes: r.Attributes, settings: len(rules) > 0, prepared: p}
	u.policy = slices.ContainsFunc(plain, func(a op.PartialAttribute) bool {
		return ofPolicies(a.Description) && !strings.EqualFold(a.Description, "objectClass")
	})
	secret := len(name) > 0 && hashes(req, plain)
	if secret {
		u.prepare = func() (err error) {
			p.attributes, err = password.HashAttributes(ctx, req, plain)
			return err
		}
	}
	u.change = func(tx *partition.Tx) (err error) {
		attributes := plain
		if secret {
			if attributes, err = p.checkNew(ctx, req, u, plain); err != nil {
				return err
			}
		}
		tx.Rules.Accounts = !given || tx.Rules.Relaxed
		id, err := tx.Add(ctx, name, attributes, false)
		if err != nil {
			return err
		}
		return changeRules(ctx, req, tx, id, name, rules)
	}
	return u, nil
}

// planDelete plans the deletion of a leaf (RFC 4511, 4.8). Within an LDAP transaction, it
// also plans the deletion of a tree, for a Delete with the tree delete control.
func planDelete(ctx context.Context, req *request.Request, r *op.Delete, p *preparation) (*update, error) {
	name, err := target(r.Name)
	if err != nil {
		return nil, err
	}
	if req.Controls.TreeDelete {
		return planDeleteTree(ctx, name, p), nil
	}
	return &update{name: name, allowed: mayDelete, change: func(tx *partition.Tx) error { return tx.Delete(ctx, name) }}, nil
}

// planModifyDN plans the rename or the move of an entry (RFC 4511, 4.9).
func planModifyDN(ctx context.Context, req *request.Request, r *op.ModifyDN) (*update, error) {
	name, err := target(r.Name)
	if err != nil {
		return nil, err
	}
	rdn, err := parseNewRDN(r)
	if err != nil {
		return nil, err
	}
	superior, err := newSuperior(r)
	if err != nil {
		return nil, err
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
	return u, nil
}

func parseNewRDN(r *op.ModifyDN) (dn.RDN, error) {
	rdn, err := dn.ParseRDN(r.NewRDN)
	if err != nil {
		return nil, op.Errorf(op.InvalidDNSyntax, "newrdn: %v", err)
	}
	return rdn, nil
}

// newSuperior parses the name of the new superior. It returns nil if the request has no
// new superior.
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

// checkSuperior returns an error if another server holds the new superior, because the move
// would then concern two servers (RFC 3296, 5.6.2).
func checkSuperior(ctx context.Context, req *request.Request, superior dn.DN) error {
	err := locate.CheckReferral(ctx, req, superior, "")
	var result *op.Result
	if errors.As(err, &result) {
		return op.Errorf(op.AffectsMultipleDSAs, "the new superior is held by another server")
	}
	return err
}
