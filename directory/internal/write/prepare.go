package write

import (
	"context"

	"github.com/seed-4dac0d86/ldapd/directory/internal/password"
	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/op"
)

// A preparation is what an update does outside transactions, since it takes so long that
// no transaction waits for it: hashes. It outlives the attempts of the update.
type preparation struct {
	done       bool
	attributes []op.PartialAttribute // of a new entry, passwords hashed
	set        *password.Setting     // of an entry's passwords

	// Of an operation of a transaction:
	kept      bool
	generated []byte // the new password that its client was told
	left      *int   // entries of trees that the transaction may still delete
}

// isOwn reports whether the requester has changed their own password.
func (p *preparation) isOwn() bool { return p.set != nil && p.set.IsOwn() }

// hashes reports whether attributes of a new entry are among those that have to be hashed.
func hashes(req *request.Request, attributes []op.PartialAttribute) bool {
	for i := range attributes {
		if password.Is(req, attributes[i].Description) {
			return true
		}
	}
	return false
}

// checkNew returns what the transaction is to store of a new entry with passwords. Before
// they are hashed that is what the client gave, for a transaction that will not commit.
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
