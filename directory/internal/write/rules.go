package write

import (
	"context"

	"github.com/seed-4dac0d86/ldapd/directory/access"
	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/directory/internal/policies"
	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/directory/internal/virtual"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/ldap/control"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// isRule reports whether a description is the attribute of access rules. The access rules at
// an entry are not stored in the entry. A requester who manages the entry can still change
// the rules and the other attributes in one commit.
func isRule(req *request.Request, description string) bool {
	return req.Known.IsOf(description, req.Known.AccessRule)
}

// ruleChanges splits changes into the changes of access rules and all other changes.
func ruleChanges(req *request.Request, changes []op.Modification) (rules, rest []op.Modification) {
	for _, c := range changes {
		if isRule(req, c.Description) {
			rules = append(rules, c)
		} else {
			rest = append(rest, c)
		}
	}
	return rules, rest
}

// givenRules splits the attributes of a new entry into access rules, which it returns as
// changes, and all other attributes.
func givenRules(req *request.Request, attributes []op.PartialAttribute) (rules []op.Modification, rest []op.PartialAttribute) {
	for _, a := range attributes {
		if isRule(req, a.Description) {
			rules = append(rules, op.Modification{Kind: op.ModAdd, PartialAttribute: a})
		} else {
			rest = append(rest, a)
		}
	}
	return rules, rest
}

// modifyConfig returns the update that changes the access rules of the whole directory, its
// naming contexts and the default password policy.
func modifyConfig(ctx context.Context, req *request.Request, name dn.DN, r *op.Modify) *update {
	rules, rest := ruleChanges(req, r.Changes)
	contexts, policy := contextChanges(req, rest)
	return &update{name: name, settings: true, change: func(tx *partition.Tx) error {
		if err := changeRules(ctx, req, tx, entry.Root, nil, rules); err != nil {
			return err
		}
		if err := changeContexts(ctx, req, tx, contexts); err != nil {
			return err
		}
		return changePolicy(req, tx, policy)
	}}
}

// changePolicy changes the default password policy, in a transaction.
func changePolicy(req *request.Request, tx *partition.Tx, changes []op.Modification) error {
	if len(changes) == 0 {
		return nil
	}
	var old []catalog.PolicyAttribute
	if d := (&tx.Snapshot).Catalog.Policy; d != nil {
		old = d.Attributes
	}
	policy, err := policies.ApplyDefault(req.Known, old, changes, req.Controls.Rules.Permissive)
	if err != nil {
		return err
	}
	return tx.SetPolicy(policy)
}

// mayConfigure returns an error if the requester does not have the right to manage
// cn=config.
func mayConfigure(ctx context.Context, req *request.Request, name dn.DN) error {
	v, err := virtual.Config(ctx, req)
	switch {
	case err != nil:
		return err
	case v == nil:
		return &partition.Error{Problem: partition.NoSuchEntry, Text: "no entry " + name.String()}
	}
	d, err := req.Judge.DecideNew(ctx, name, &v.Entry)
	if err != nil {
		return err
	}
	return refuseUnless(req, d, acl.Manage)
}

// changeRules changes the access rules at a place, in a transaction.
func changeRules(ctx context.Context, req *request.Request, tx *partition.Tx, place entry.ID, name dn.DN, changes []op.Modification) error {
	if len(changes) == 0 {
		return nil
	}
	for _, c := range changes {
		if _, options := req.Schema.Describe(c.Description); options != "" {
			return op.Errorf(op.ConstraintViolation, "accessRule takes no options")
		}
	}
	ed := access.Editor{State: &tx.Snapshot, Rules: tx.Catalog.Access.Rules, Place: place, Name: name, Find: req.Judge.Find, Permissive: req.Controls.Rules.Permissive}
	rules, err := ed.Apply(ctx, changes)
	if err != nil {
		return err
	}
	if err := staysManaged(ctx, req, tx, rules); err != nil {
		return err
	}
	if req.Controls.AccessDiff {
		if err := showDiff(ctx, req, tx, rules); err != nil {
			return err
		}
	}
	return tx.SetAccess(rules)
}

// showDiff adds to the response who gains and loses which rights by new rules. The difference depends on rules of
// the whole directory.
func showDiff(ctx context.Context, req *request.Request, tx *partition.Tx, rules []partition.AccessRule) error {
	if !req.Judge.Everywhere().Manages() {
		return op.Errorf(op.InsufficientAccessRights, "access diff control: only who manages the whole directory may see what a change of rules changes")
	}
	before, err := access.Placed(ctx, &tx.Snapshot)
	if err != nil {
		return err
	}
	after, err := access.Read(ctx, &tx.Snapshot, rules)
	if err != nil {
		return err
	}
	found, err := access.Diff(&tx.Snapshot, before, after)
	if err != nil {
		return op.Errorf(op.AdminLimitExceeded, "access diff control: %v", err)
	}
	var diff control.AccessDiff
	for _, d := range found {
		diff = append(diff, control.AccessChange(d))
	}
	req.Respond(control.OIDAccessDiff, diff.Encode())
	return nil
}

// staysManaged returns an error if no administrator is configured, the present rules let
// somebody manage the whole directory, and the new rules let nobody do so.
func staysManaged(ctx context.Context, req *request.Request, tx *partition.Tx, rules []partition.AccessRule) error {
	if req.Server.Settings().AdminKey != "" {
		return nil
	}
	before, err := access.Placed(ctx, &tx.Snapshot)
	if err != nil {
		return err
	}
	after, err := access.Read(ctx, &tx.Snapshot, rules)
	if err != nil {
		return err
	}
	if access.Managed(before) && !access.Managed(after) {
		return op.Errorf(op.UnwillingToPerform, "nobody would manage %s any more, and no administrator is configured", catalog.ConfigName)
	}
	return nil
}

// mayGiveRules returns an error if the description is the attribute of access rules and the
// requester does not have the right to manage the entry.
func mayGiveRules(req *request.Request, d *acl.Decision, description string) error {
	if isRule(req, description) {
		return refuseUnless(req, d, acl.Manage)
	}
	return nil
}
