package write

import (
	"context"
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/directory/internal/virtual"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition/branch"
)

// runBranch runs an update of the entry of a branch: it makes, changes, merges, parks or
// discards the branch. It returns false for all other updates.
func runBranch(ctx context.Context, req *request.Request, r op.Request) (done bool, err error) {
	text := op.NameOf(r)
	if text == nil || !strings.Contains(strings.ToLower(*text), "branches") && !strings.ContainsAny(*text, `\#`) {
		return false, nil // this cannot be the name of a branch's entry, so it need not be parsed
	}
	name, err := dn.Parse(*text)
	if err != nil {
		return false, nil // a malformed name is refused later
	}
	branch, ok := virtual.IsBranch(name)
	if !ok {
		return false, nil
	}
	if err := mayRunBranch(req); err != nil {
		return true, err
	}
	switch r := r.(type) {
	case *op.Add:
		err = addBranch(ctx, req, branch, r)
	case *op.Modify:
		err = modifyBranch(ctx, req, branch, r)
	case *op.Delete:
		err = deleteBranch(ctx, req, branch)
	default:
		err = op.Errorf(op.UnwillingToPerform, "a branch keeps its name")
	}
	if err == nil {
		sendToken(req)
	}
	return true, err
}

// mayRunBranch returns an error if the requester may not work with branches, or if the
// request has a control that is only for updates of stored entries.
func mayRunBranch(req *request.Request) error {
	if err := req.MayBranch(); err != nil {
		return err
	}
	c := &req.Controls
	if c.NoOp || c.Assertion != nil || c.PreRead != nil || c.PostRead != nil {
		return op.Errorf(op.UnwillingToPerform, "an update of a branch itself takes neither assertions nor no-op, pre-read or post-read controls")
	}
	return nil
}

// addBranch makes a branch.
func addBranch(ctx context.Context, req *request.Request, name string, r *op.Add) error {
	o := branch.Options{Name: name, By: by(req)}
	if !slices.ContainsFunc(r.Attributes, func(a op.PartialAttribute) bool { return strings.EqualFold(a.Description, "objectClass") }) {
		return errBranchClass
	}
	for _, a := range r.Attributes {
		values := a.Values
		switch strings.ToLower(a.Description) {
		case "objectclass":
			if err := checkBranchClasses(values); err != nil {
				return err
			}
		case "cn", "commonname":
			if len(values) != 1 || string(values[0]) != name {
				return op.Errorf(op.NamingViolation, "cn: its only value must be the name of the branch")
			}
		case "description":
			if len(values) != 1 {
				return op.Errorf(op.ConstraintViolation, "description: a new branch can have only one value")
			}
			o.Description = string(values[0])
		default:
			return op.Errorf(op.ObjectClassViolation, "%s: a new branch can have a description and nothing else", a.Description)
		}
	}
	_, err := branch.Create(ctx, req.Server.Part, o)
	return err
}

func checkBranchClasses(values [][]byte) error {
	is := false
	for _, v := range values {
		switch strings.ToLower(string(v)) {
		case "branch":
			is = true
		case "top":
		default:
			return op.Errorf(op.ObjectClassViolation, "below %s there are entries of the class branch only", request.BranchContext)
		}
	}
	if !is {
		return errBranchClass
	}
	return nil
}

var errBranchClass = op.Errorf(op.ObjectClassViolation, "objectClass: the class branch is missing")

// modifyBranch merges or parks a branch, or changes its description.
func modifyBranch(ctx context.Context, req *request.Request, name string, r *op.Modify) error {
	b, err := req.BranchNamed(ctx, name)
	if err != nil {
		return err
	}
	if len(r.Changes) != 1 {
		return op.Errorf(op.UnwillingToPerform, "a modify of a branch must have exactly one change: it merges or parks the branch, or changes its description")
	}
	c := &r.Changes[0]
	switch strings.ToLower(c.Description) {
	case "branchstate":
		if c.Kind != op.ModReplace || len(c.Values) != 1 || !slices.Contains([]string{"merged", "parked"}, strings.ToLower(string(c.Values[0]))) {
			return op.Errorf(op.UnwillingToPerform, "branchState: only its replacement by %q or %q is possible, which merges or parks the branch", "merged", "parked")
		}
		if strings.EqualFold(string(c.Values[0]), "parked") {
			return b.Park(ctx)
		}
		req.Seen.Committed, err = b.Merge(ctx, by(req))
		return err
	case "description":
		if len(c.Values) > 1 || c.Kind == op.ModIncrement || c.Kind == op.ModAdd && len(c.Values) == 0 {
			return op.Errorf(op.ConstraintViolation, "description: a branch can have only one value")
		}
		text := ""
		if c.Kind != op.ModDelete && len(c.Values) == 1 {
			text = string(c.Values[0])
		}
		return b.Describe(ctx, by(req), text)
	}
	return op.Errorf(op.UnwillingToPerform, "%s: only branchState and description of a branch can be changed", c.Description)
}

// deleteBranch discards a branch.
func deleteBranch(ctx context.Context, req *request.Request, name string) error {
	b, err := req.BranchNamed(ctx, name)
	if err != nil {
		return err
	}
	return b.Discard(ctx)
}
