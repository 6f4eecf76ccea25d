package directory

import (
	"context"
	"strings"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/partition"
)

// identity is who is bound. A nil one is anonymous.
type identity struct {
	name  string
	id    entry.ID
	admin bool
}

func (i *identity) isAdmin() bool { return i != nil && i.admin }

// dn is the authorization identity's name, "" for the anonymous.
func (i *identity) dn() string {
	if i == nil {
		return ""
	}
	return i.name
}

// identify gives who an authorization identity names (RFC 4513, 5.2.1.8): ""
// the anonymous, "dn:..." the administrator or an entry. The error is a *Result
// or of the store; it is errNobody for a name that nobody has.
func (o *operation) identify(ctx context.Context, s *partition.Snapshot, authzID string) (*identity, error) {
	if authzID == "" {
		return nil, nil
	}
	kind, rest, _ := strings.Cut(authzID, ":")
	if !strings.EqualFold(kind, "dn") {
		return nil, errNobody
	}
	if rest == "" {
		return nil, nil
	}
	name, err := dn.Parse(rest)
	if err != nil {
		return nil, errNobody
	}
	if o.d.isAdmin(name) {
		return &identity{name: o.d.o.Admin, admin: true}, nil
	}
	at, err := s.Find(ctx, name)
	if isMissing(err) {
		return nil, errNobody
	}
	if err != nil {
		return nil, err
	}
	return &identity{name: at.Name, id: at.ID}, nil
}

// errNobody: an authorization identity that is malformed or that nobody has.
var errNobody = op.Errorf(op.InvalidCredentials, "not an authorization identity that is known here")
