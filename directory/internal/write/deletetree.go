package write

import (
	"context"
	"fmt"

	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
)

// maxTreeCommit is the largest number of entries that one commit deletes. The deletion of a
// larger tree takes several commits, because one very large commit would delay other commits
// for too long.
const maxTreeCommit = 5000

// deleteTree deletes an entry and everything below it. Referrals and aliases below the
// entry are deleted as ordinary entries. The diagnostic reports the number of commits.
func deleteTree(ctx context.Context, req *request.Request, r *op.Delete) error {
	name, err := target(r.Name)
	if err != nil {
		return err
	}
	deleted, commits, most := 0, 0, maxTreeCommit
	var read []op.Control
	for whole := false; !whole; commits++ {
		n := 0
		u := &update{name: name, allowed: mayDeleteTree, change: func(tx *partition.Tx) (err error) {
			n, whole, err = tx.DeleteTree(ctx, name, most)
			return err
		}}
		err := u.run(ctx, req)
		for partition.Is(err, partition.TooMany) && most > 1 { // too many values name these entries
			most /= 2
			err = u.run(ctx, req)
		}
		if request.IsMissing(err) && commits > 0 {
			break // another client has deleted the rest
		}
		if err != nil {
			return leftHalf(ctx, req, err, deleted)
		}
		if deleted += n; commits == 0 {
			// The assertion and the pre-read apply to the tree before the first commit.
			read = req.Response.Controls
			rest := *req
			rest.Controls.Assertion, rest.Controls.PreRead = nil, nil
			req = &rest
		}
	}
	req.Response.Controls = read
	req.Response.Diagnostic = fmt.Sprintf("deleted %d entries in one commit", deleted)
	if commits > 1 {
		req.Response.Diagnostic = fmt.Sprintf("deleted %d entries in %d commits", deleted, commits)
	}
	return nil
}

// leftHalf adds to the diagnostic of err the number of entries that earlier commits have
// deleted.
func leftHalf(ctx context.Context, req *request.Request, err error, deleted int) error {
	if deleted == 0 {
		return err
	}
	r := req.Server.ToResult(ctx, err)
	r.Diagnostic = fmt.Sprintf("%s; %d entries were deleted before, the deepest first: the rest is a tree", r.Diagnostic, deleted)
	return &r
}

// planDeleteTree plans the deletion of a tree in an LDAP transaction. All trees that the
// transaction deletes are deleted in one commit, and together may have at most maxTreeCommit
// entries.
func planDeleteTree(ctx context.Context, name dn.DN, p *preparation) *update {
	return &update{name: name, allowed: mayDeleteTree, change: func(tx *partition.Tx) error {
		n, whole, err := tx.DeleteTree(ctx, name, max(*p.left, 1))
		if err == nil && (!whole || n > *p.left) {
			err = op.Errorf(op.AdminLimitExceeded, "the trees to be deleted have more than %d entries, which is the limit of a transaction", maxTreeCommit)
		}
		*p.left -= n
		return err
	}}
}
