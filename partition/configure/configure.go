// Package configure changes the configuration that all servers of a directory share: its naming
// contexts, indexes, unique attributes, references, access rules and default password policy.
// On a shared store, some changes take several commits. Each of these commits is made only when
// every server applies the commit before it.
package configure

import (
	"context"
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/internal/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/internal/onlineschema"
	"github.com/seed-4dac0d86/ldapd/partition/internal/state"
	"github.com/seed-4dac0d86/ldapd/partition/internal/write"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// Name is the name of the entry that shows the access rules of the whole directory and
// the default password policy. In an export, the entry contains the whole configuration.
const Name = "cn=config"

// Is reports whether a name is Name.
func Is(name dn.DN) bool { return len(name) == 1 && name[0].IsCN("config") }

type (
	// An Index names an indexed attribute and the layout of its index.
	Index = catalog.Index
	// A Layout specifies how an index is stored.
	Layout = catalog.Layout
	// Unique makes an attribute unique in a scope: no two entries in the scope may have
	// the same value of the attribute.
	Unique = catalog.Unique
	// A Reference is an attribute whose values follow the entries that they name:
	// renaming an entry changes the values, and deleting an entry removes them.
	Reference = catalog.Reference
	// A Policy is the password policy of entries that no other policy applies to.
	Policy = catalog.DefaultPolicy
	// A PolicyAttribute is an attribute of a Policy.
	PolicyAttribute = catalog.PolicyAttribute
)

// The layouts of indexes.
const (
	RowLayout    = catalog.RowLayout
	ColumnLayout = catalog.ColumnLayout
)

// DefaultIndexes returns the indexes of a new directory if its creator specifies none.
func DefaultIndexes() []Index { return catalog.DefaultIndexes() }

// SetSuffixes replaces the naming contexts. It refuses to remove a naming context that
// contains entries.
func SetSuffixes(ctx context.Context, p *partition.Partition, suffixes []string) error {
	return onlineschema.SetSuffixes(ctx, p.Keeper(), suffixes)
}

// AddSuffixes adds naming contexts. If all of them exist already, AddSuffixes writes nothing
// and succeeds even on a read-only server.
func AddSuffixes(ctx context.Context, p *partition.Partition, suffixes []string) error {
	return onlineschema.AddSuffixes(ctx, p.Keeper(), suffixes)
}

// SetIndexes replaces the set of indexes and fills the indexes that did not exist before.
func SetIndexes(ctx context.Context, p *partition.Partition, indexes []Index) error {
	return onlineschema.SetIndexes(ctx, p.Keeper(), indexes)
}

// UniqueAttributes returns the unique attributes.
func UniqueAttributes(p *partition.Partition) ([]Unique, error) {
	return onlineschema.Unique(p.Keeper())
}

// SetUnique makes an attribute unique in a scope. If on is false, the attribute is no
// longer unique in the scope.
func SetUnique(ctx context.Context, p *partition.Partition, u Unique, on bool) error {
	return SetUniques(ctx, p, []Unique{u}, on)
}

// DefaultReferences returns the references that a server gives a new directory.
func DefaultReferences() []Reference { return catalog.DefaultReferences() }

// References returns the attributes whose values follow the entries that they name.
func References(p *partition.Partition) ([]Reference, error) {
	return onlineschema.References(p.Keeper())
}

// SetReference makes the values of an attribute follow the entries that they name. If on
// is false, the values no longer follow entries.
func SetReference(ctx context.Context, p *partition.Partition, r Reference, on bool) error {
	return SetReferences(ctx, p, []Reference{r}, on)
}

// SetReferences is SetReference for several attributes: the setting of all of them changes, or none.
func SetReferences(ctx context.Context, p *partition.Partition, rs []Reference, on bool) error {
	return onlineschema.SetReferences(ctx, p.Keeper(), rs, on)
}

// SetUniques is SetUnique for several attributes: the setting of all of them changes, or none.
func SetUniques(ctx context.Context, p *partition.Partition, us []Unique, on bool) error {
	return onlineschema.SetUnique(ctx, p.Keeper(), us, on)
}

// RepairReferences removes the values of a reference attribute that name no entry. It
// returns the number of removed values.
func RepairReferences(ctx context.Context, p *partition.Partition, attribute string, by partition.By) (int, error) {
	return onlineschema.RepairReferences(ctx, p.Keeper(), attribute, by)
}

// SetAccess replaces the access rules. The caller passes change, a function that receives the
// present rules and returns the new rules.
func SetAccess(ctx context.Context, p *partition.Partition, by partition.By, change func(s *partition.Snapshot, old []partition.AccessRule) ([]partition.AccessRule, error)) error {
	return onlineschema.SetAccess(ctx, p.Keeper(), by, func(st *state.Snapshot, old []partition.AccessRule) ([]partition.AccessRule, error) {
		return change(partition.Show(st), old)
	})
}

// SetAccessIn replaces the access rules in a transaction of Partition.UpdateSettings.
func SetAccessIn(tx *partition.Tx, rules []partition.AccessRule) error {
	return tx.Writer().SetAccess(rules)
}

// SetPolicy replaces the default password policy. The caller passes change, a function that
// receives the present policy and returns the new policy. A nil policy means that there is no
// policy.
func SetPolicy(ctx context.Context, p *partition.Partition, by partition.By, change func(s *partition.Snapshot, old []PolicyAttribute) ([]PolicyAttribute, error)) error {
	return onlineschema.SetPolicy(ctx, p.Keeper(), by, func(st *state.Snapshot, old []PolicyAttribute) ([]PolicyAttribute, error) {
		return change(partition.Show(st), old)
	})
}

// SetPolicyIn replaces the default password policy in a transaction of
// Partition.UpdateSettings.
func SetPolicyIn(tx *partition.Tx, policy []PolicyAttribute) error {
	return tx.Writer().SetPolicy(policy)
}

// DefaultPolicy returns the password policy in force for entries that no other policy applies
// to. It returns nil if there is no such policy. If two states return the same pointer, they
// have the same policy and the same schema. For a state of the past, DefaultPolicy returns the
// present policy.
func DefaultPolicy(s *partition.Snapshot) *Policy { return s.State().Catalog.Policy }

// PolicyAt returns the default password policy that a state shows. It returns nil if the state
// shows none. For a state of the past this is the policy of that time.
func PolicyAt(ctx context.Context, s *partition.Snapshot) ([]PolicyAttribute, error) {
	st := s.State()
	return st.Catalog.PolicyAt(ctx, st.Reader)
}

// PolicyValues returns the values of an attribute of a policy.
func PolicyValues(policy []PolicyAttribute, attribute string) []string {
	for _, a := range policy {
		if strings.EqualFold(a.Name, attribute) {
			return a.Values
		}
	}
	return nil
}

// AddPolicyValue adds a value of an attribute to a policy, as append does to a slice.
func AddPolicyValue(policy []PolicyAttribute, attribute, value string) []PolicyAttribute {
	i := slices.IndexFunc(policy, func(a PolicyAttribute) bool { return a.Name == attribute })
	if i < 0 {
		i = len(policy)
		policy = append(policy, PolicyAttribute{Name: attribute})
	}
	policy[i].Values = append(policy[i].Values, value)
	return policy
}

// Secret returns the secret of the directory, which all its servers share. The first call
// creates the secret.
func Secret(ctx context.Context, p *partition.Partition) ([]byte, error) {
	return write.Secret(ctx, p.Keeper())
}

// AccessAt returns the access rules that a state shows. For a state of the past these are the
// rules of that time. AccessAt returns nil if the directory had never had access rules until
// then.
func AccessAt(ctx context.Context, s *partition.Snapshot) ([]partition.AccessRule, error) {
	st := s.State()
	return st.Catalog.AccessAt(ctx, st.Reader)
}

// Since returns the revision of the commit that wrote the settings in a state. It returns 0 if
// these are the settings with which the directory was created.
func Since(ctx context.Context, s *partition.Snapshot) (table.Revision, error) {
	st := s.State()
	return st.Catalog.SettingsSince(ctx, st.Reader)
}
