package write

import (
	"context"

	"github.com/seed-4dac0d86/ldapd/directory/internal/password"
	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/op"
)

// A preparation is the result of the slow work that an update does outside transactions,
// which is hashing. All attempts of the update share one preparation.
type preparation struct {
	done       bool
	attributes []op.PartialAttribute // attributes of a new entry, with hashed passwords
	set        *password.Setting     // change of an entry's passwords

	// The fields kept and left are set only for an operation of an LDAP transaction.
	kept      bool
	generated []byte // the new password, if the server has generated it
	left      *int   // number of entries of trees that the transaction may still delete
}

// isOwn reports whether the requester has changed their own password.
func (p *preparation) isOwn() bool { return p.set != nil && p.set.IsOwn() }

// hashes reports whether a new entry has passwords, which must be hashed.
func hashes(req *request.Request, attributes []op.PartialAttribute) bool {
	for i := range attributes {
		if password.Is(req, attributes[i].Description) {
			return true
		}
	}
	return false
}

// checkNew returns the attributes that the transaction stores for a new entry with
// passwords. Before the passwords are hashed, checkNew returns the client's values. They
// are not stored, because the transaction then does not commit.
func (p *preparation) checkNew(ctx context.Context, req *request.Request, u *update, plain []op.PartialAttribute) ([]op.PartialAttribute, error) {
	hashed := plain
	if p.done {
		hashed = p.attributes
	}
	checked, err := password.CheckNew(ctx, req, u.name, plain, proposed(req, u.name[0], plain))
	if err != nil {
		return nil, err
	}
	return append(hashed[:len(hashed):len(hashed)], checked[len(plain):]...), nil
}
