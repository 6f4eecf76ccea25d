// Package transfer has what imports and exports of whole directories need of a
// partition: bulk loads, a walk in the order of the tree, and the definitions that a
// directory has in addition to the built-in schema.
package transfer

import (
	"context"
	"iter"

	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/configure"
	"github.com/seed-4dac0d86/ldapd/partition/internal/evolve"
	"github.com/seed-4dac0d86/ldapd/partition/internal/load"
	"github.com/seed-4dac0d86/ldapd/partition/internal/search"
	"github.com/seed-4dac0d86/ldapd/partition/internal/verify"
	"github.com/seed-4dac0d86/ldapd/schema"
)

type (
	// A Loader adds many entries that become visible at once.
	Loader = load.Loader
	// LoadOptions are the options of a Loader.
	LoadOptions = load.LoadOptions
	// A Loading is an entry being loaded.
	Loading = load.Loading
)

// Load begins a load. No other transaction can commit until it is committed or aborted.
func Load(ctx context.Context, p *partition.Partition, o LoadOptions) (*Loader, error) {
	return load.Load(ctx, p.Keeper(), o)
}

// Walk streams the entries of a query, each before those below it.
func Walk(ctx context.Context, s *partition.Snapshot, q partition.Query) iter.Seq2[*partition.Result, error] {
	return search.Walk(ctx, s.State(), q)
}

// Salvage streams all readable entries of a damaged store, each before those below it,
// and reports the rest to lost: an entry by its name, as far as it is known, or a range
// of rows. Entries whose parent is lost come last, below the parent's entryUUID. It
// holds the names of all entries in memory.
func Salvage(ctx context.Context, s *partition.Snapshot, lost func(what string, err error) error) iter.Seq2[*partition.Result, error] {
	return verify.Salvage(ctx, s.State(), lost)
}

// Config returns the shared configuration of a state.
func Config(s *partition.Snapshot) partition.Config { return s.State().Config() }

// Unique returns the unique attributes of a state.
func Unique(s *partition.Snapshot) []configure.Unique { return s.State().Unique() }

// References returns the attributes whose values follow, in a state, the entries that they
// name.
func References(s *partition.Snapshot) []configure.Reference {
	return s.State().Catalog.Header.References
}

// Empty reports whether a state has no entries.
func Empty(ctx context.Context, s *partition.Snapshot) (bool, error) { return s.State().Empty(ctx) }

// RemovedDefinitions is the attribute of the subschema's entry that names what a
// directory has removed from the built-in schema.
const RemovedDefinitions = evolve.RemovedDefinitions

// OwnDefinitions returns what the schema of a state adds to the built-in one, and what
// it removes from it.
func OwnDefinitions(s *partition.Snapshot) (added, removed []schema.Definition) {
	return evolve.OwnDefinitions(s.State())
}

// Lacking returns the change that adds to a state some definitions that it does not have
// yet.
func Lacking(s *partition.Snapshot, added, removed []schema.Definition) (add, remove []schema.Definition, err error) {
	return evolve.Lacking(s.State(), added, removed)
}

// LackingAt is Lacking for a server whose subschema was read.
func LackingAt(subschema []op.PartialAttribute, added, removed []schema.Definition) (add, remove []schema.Definition, err error) {
	return evolve.LackingAt(subschema, added, removed)
}
