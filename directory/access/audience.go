package access

import (
	"context"
	"fmt"
	"strings"

	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// An Audience is a set of identities, described in the language of access rules.
type Audience struct{ set *acl.Set }

// belongs is a name that no control, operation or matching rule has. The rule of an
// audience allows the members of the audience to "use" it. So MayUse(belongs) reports
// whether an identity belongs to the audience.
const belongs = "audience"

// NewAudience parses a description of identities: groups, names, and "below" followed by a
// name. Whether an identity belongs to the audience does not depend on the identity's
// connection.
func NewAudience(sch *schema.Schema, contexts []dn.DN, who []string) (*Audience, error) {
	text := "audience: allow " + strings.Join(who, ", ") + " to use " + belongs
	rule, err := acl.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", strings.Join(who, ", "), err)
	}
	set, err := acl.NewSet(sch, contexts, []acl.Placed{{Rule: rule}})
	if err != nil {
		return nil, err
	}
	return &Audience{set}, nil
}

// Has reports whether an identity belongs to the audience in a state. The call still(later)
// reports whether the identity and its groups are unchanged in a later state. If they are
// unchanged, the result has is also right for the later state.
func (a *Audience) Has(ctx context.Context, s *partition.Snapshot, name *dn.Name, id entry.ID) (has bool, still func(*partition.Snapshot) bool, err error) {
	w := &Who{Name: name, ID: id}
	found := &answer{set: a.set, asOf: s.Ordinal()}
	who, err := w.identity(ctx, s, found)
	if err != nil {
		return false, nil, err
	}
	p, err := a.set.Program(who)
	if err != nil {
		return false, nil, err
	}
	return p.MayUse(belongs), func(s *partition.Snapshot) bool { return w.same(s, found) }, nil
}
