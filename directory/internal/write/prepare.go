package write

import (
	"context"

	"github.com/seed-4dac0d86/ldapd/directory/internal/password"
	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
)

// A preparation is the result of the slow work of an update, which is hashing. The update
// does this work outside of transactions. All attempts of the update use one preparation.
type preparation struct {
	done       bool
	attributes []op.PartialAttribute // attributes of a new entry, with hashed passwords
	set        *password.Setting     // change of an entry's passwords
	resets     bool                  // the owner of a new account must change its password

	// The fields kept and left are set only for an operation of an LDAP transaction.
	kept      bool
	generated []byte // the new password, if the server has generated it
	left      *int   // how many entries the tree deletions of the transaction may still delete
}

// isOwn reports whether the update changes the requester's own password.
func (p *preparation) isOwn() bool { return p.set != nil && p.set.IsOwn() }

// mustChange reports whether the update has set a password that the account's owner must change,
// without having been told so by the client.
func (p *preparation) mustChange() bool {
	return p != nil && (p.resets || p.set != nil && p.set.Resets)
}

// hashes reports whether a new entry has passwords, so that the update needs a preparation.
func hashes(req *request.Request, attributes []op.PartialAttribute) bool {
	for i := range attributes {
		if password.Is(req, attributes[i].Description) {
			return true
		}
	}
	return false
}

// checkNew checks the passwords of a new entry, and returns the attributes to store. Before
// the passwords are hashed, checkNew returns the client's passwords. They are never stored,
// because the transaction does not commit before the passwords are hashed.
func (p *preparation) checkNew(ctx context.Context, req *request.Request, u *update, plain []op.PartialAttribute) ([]op.PartialAttribute, error) {
	hashed := plain
	if p.done {
		hashed = p.attributes
	}
	checked, resets, err := password.CheckNew(ctx, req, u.name, plain, proposed(req, u.name[0], plain))
	if err != nil {
		return nil, err
	}
	p.resets = resets
	return append(hashed[:len(hashed):len(hashed)], checked[len(plain):]...), nil
}
