package request

import (
	"context"

	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/branch"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/partition/write"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// BranchContext is the name of the entry above the branches.
const BranchContext = "cn=branches"

// errBranches is the answer to requesters who may not work in branches.
var errBranches = op.Errorf(op.InsufficientAccessRights, "only the administrator may work in branches")

// MayBranch returns an error unless the requester may make branches and work in them. Only
// the administrator may, because a merge writes all changes of the branch, whoever made
// them.
func (req *Request) MayBranch() error {
	if !req.Who.IsAdmin() {
		return errBranches
	}
	return nil
}

// Enter makes the request read and change a branch.
func (req *Request) Enter(ctx context.Context, name string) (err error) {
	if err := req.MayBranch(); err != nil {
		return err
	}
	switch c := &req.Controls; {
	case c.At != nil:
		return op.Errorf(op.UnwillingToPerform, "a branch can be read only as it is now, not in a past state")
	case c.Waits():
		return op.Errorf(op.UnwillingToPerform, "a search in a branch cannot wait for changes")
	case c.Rights != nil:
		return op.Errorf(op.UnwillingToPerform, "effective rights cannot be read in a branch")
	}
	req.Seen.Branch = name
	req.Branch, err = req.BranchNamed(ctx, name)
	return err
}

// BranchNamed returns the branch with a name. It also finds a branch that another server has
// just made.
func (req *Request) BranchNamed(ctx context.Context, name string) (*branch.Branch, error) {
	b, err := branch.Find(req.Server.Part, name)
	if !IsMissing(err) {
		return b, err
	}
	if err := req.Server.Part.CatchUp(ctx); err != nil {
		return nil, err
	}
	return branch.Find(req.Server.Part, name)
}

// Earlier returns the state at the revision r, which is the state that the earlier pages of
// the search showed.
func (req *Request) Earlier(ctx context.Context, r table.Revision) (*partition.Snapshot, error) {
	if req.Branch != nil {
		return req.Branch.At(ctx, r)
	}
	s := state.Newest(req.Server.Part)
	if r == s.Revision() {
		return s, nil
	}
	s.Close()
	return state.At(ctx, req.Server.Part, r)
}

// Update runs a transaction that changes entries. If the request is in a branch, the
// transaction is in that branch.
func (req *Request) Update(ctx context.Context, by partition.By, fn func(*partition.Tx) error) (table.Revision, error) {
	if req.Branch != nil {
		return req.Branch.Update(ctx, by, fn)
	}
	return write.Update(ctx, req.Server.Part, by, fn)
}

// Named returns the name of an entry as the client sees it.
func (req *Request) Named(name string) string {
	if req.Suffix == "" || name == "" {
		return name
	}
	return name + "," + req.Suffix
}
