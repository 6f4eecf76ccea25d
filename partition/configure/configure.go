// Package configure changes what all servers of a directory share: its naming contexts,
// indexes, unique attributes and access rules. A change returns when every server goes
// by it.
package configure

import (
	"context"

	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/internal/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/internal/evolve"
	"github.com/seed-4dac0d86/ldapd/partition/internal/state"
	"github.com/seed-4dac0d86/ldapd/partition/internal/write"
	"github.com/seed-4dac0d86/ldapd/table"
)

type (
	// Index is an attribute that is indexed, and how.
	Index = catalog.Index
	// Layout is how an index is laid out.
	Layout = catalog.Layout
	// Unique is an attribute whose values no two entries of a scope share.
	Unique = catalog.Unique
)

// The layouts of indexes.
const (
	RowLayout    = catalog.RowLayout
	ColumnLayout = catalog.ColumnLayout
)

// DefaultIndexes returns the indexes of a directory that is created without any being
// named.
func DefaultIndexes() []Index { return catalog.DefaultIndexes() }

// SetSuffixes changes the naming contexts. One that has entries stays.
func SetSuffixes(ctx context.Context, p *partition.Partition, suffixes []string) error {
	return evolve.SetSuffixes(ctx, p.Keeper(), suffixes)
}

// AddSuffixes adds naming contexts. If all are there already, it needs no right to
// write: a server can start while it has none.
func AddSuffixes(ctx context.Context, p *partition.Partition, suffixes []string) error {
	return evolve.AddSuffixes(ctx, p.Keeper(), suffixes)
}

// SetIndexes changes the indexes and fills new ones.
func SetIndexes(ctx context.Context, p *partition.Partition, indexes []Index) error {
	return evolve.SetIndexes(ctx, p.Keeper(), indexes)
}

// UniqueAttributes returns the unique attributes.
func UniqueAttributes(p *partition.Partition) ([]Unique, error) { return evolve.Unique(p.Keeper()) }

// SetUnique makes an attribute unique in a scope, or no longer so.
func SetUnique(ctx context.Context, p *partition.Partition, u Unique, on bool) error {
	return evolve.SetUnique(ctx, p.Keeper(), u, on)
}

// SetAccess puts other access rules into force: those that change returns for the
// ones of now.
func SetAccess(ctx context.Context, p *partition.Partition, by partition.By, change func(s *partition.Snapshot, old []partition.AccessRule) ([]partition.AccessRule, error)) error {
	return evolve.SetAccess(ctx, p.Keeper(), by, func(st *state.Snapshot, old []partition.AccessRule) ([]partition.AccessRule, error) {
		s, err := partition.NewSnapshot(st, nil)
		if err != nil {
			return nil, err
		}
		return change(s, old)
	})
}

// Secret returns the directory's own secret, which all its servers share. It is made
// when it is first asked for.
func Secret(ctx context.Context, p *partition.Partition) ([]byte, error) {
	return write.Secret(ctx, p.Keeper())
}

// AccessAt returns the access rules that a state shows, also one of the past; nil: there
// never were any.
func AccessAt(ctx context.Context, s *partition.Snapshot) ([]partition.AccessRule, error) {
	st := s.State()
	return st.Catalog.AccessAt(ctx, st.Reader)
}

// Since returns the commit that wrote the settings that a state shows; 0: there is none.
func Since(ctx context.Context, s *partition.Snapshot) (table.Revision, error) {
	st := s.State()
	return st.Catalog.SettingsSince(ctx, st.Reader)
}
