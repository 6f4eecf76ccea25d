// Package transfer contains the operations that imports and exports of whole directories
// use: bulk loads, a walk in the order of the tree, and the definitions that a directory
// has in addition to the built-in schema.
package transfer

import (
	"context"
	"iter"

	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/configure"
	"github.com/seed-4dac0d86/ldapd/partition/internal/load"
	"github.com/seed-4dac0d86/ldapd/partition/internal/onlineschema"
	"github.com/seed-4dac0d86/ldapd/partition/internal/search"
	"github.com/seed-4dac0d86/ldapd/partition/internal/verify"
	"github.com/seed-4dac0d86/ldapd/partition/internal/write"
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

// Founder is the creatorsName of the entries that a new directory begins with. An import may
// replace these entries as long as neither they nor the entries below them have been changed.
const Founder = write.Founder

// Load begins a load. Unless o.CheckOnly is set, no other transaction can commit until the
// load is committed or aborted.
func Load(ctx context.Context, p *partition.Partition, o LoadOptions) (*Loader, error) {
	return load.Load(ctx, p.Keeper(), o)
}

// Walk streams the entries that match a query, each entry before the entries below it.
func Walk(ctx context.Context, s *partition.Snapshot, q partition.Query) iter.Seq2[*partition.Result, error] {
	return search.Walk(ctx, s.State(), q)
}

// Salvage streams all readable entries of a damaged store, each entry before the entries below
// it. It calls the function lost for everything that it cannot read. The first argument of that
// call describes a range of rows, or is as much of an entry's name as is known. If an entry is
// lost but its name is known, the entries below the lost entry keep their names. If the name is
// lost too, the entries below the lost entry come last. In their names, the entryUUID of the
// lost entry takes the place of the lost name. Salvage omits entries that are below themselves,
// and the entries below those. It keeps the names of all entries in memory.
func Salvage(ctx context.Context, s *partition.Snapshot, lost func(what string, err error) error) iter.Seq2[*partition.Result, error] {
	return verify.Salvage(ctx, s.State(), lost)
}

// Config returns the shared configuration for reads of a state. The result contains only the
// indexes that are complete in the state. For a state of the past, the naming contexts are the
// present ones.
func Config(s *partition.Snapshot) partition.Config { return s.State().Config() }

// Unique returns the unique attributes of a state. For a state of the past, it returns the
// present ones.
func Unique(s *partition.Snapshot) []configure.Unique { return s.State().Unique() }

// References returns the reference attributes of a state: the attributes whose values follow
// the entries that they name. For a state of the past, it returns the present ones.
func References(s *partition.Snapshot) []configure.Reference {
	return s.State().Catalog.Header.References
}

// Empty reports whether a state has no entries.
func Empty(ctx context.Context, s *partition.Snapshot) (bool, error) { return s.State().Empty(ctx) }

// RemovedDefinitions is the attribute of the subschema's entry whose values name the
// built-in definitions that a directory has removed.
const RemovedDefinitions = onlineschema.RemovedDefinitions

// OwnDefinitions compares the schema of a state with the built-in schema. The result added
// contains the definitions that were added or replaced. The result removed contains the
// built-in definitions that were removed.
func OwnDefinitions(s *partition.Snapshot) (added, removed []schema.Definition) {
	return onlineschema.OwnDefinitions(s.State())
}

// Lacking returns the change to the schema of a state that adds every definition in the list
// added and removes every definition in the list removed.
func Lacking(s *partition.Snapshot, added, removed []schema.Definition) (add, remove []schema.Definition, err error) {
	return onlineschema.Lacking(s.State(), added, removed)
}

// LackingAt is Lacking for a remote server, whose subschema's attributes the caller has
// read.
func LackingAt(subschema []op.PartialAttribute, added, removed []schema.Definition) (add, remove []schema.Definition, err error) {
	return onlineschema.LackingAt(subschema, added, removed)
}

// CommitSize returns the number of records to import in one commit while others write to the
// directory. On an embedded store, other commits wait while the changes of a commit are made.
// With 100 entries in a commit, one update in a hundred waited 55 ms. With 25 entries, one in a
// hundred waited 17 to 31 ms, and the import took a tenth longer. On a shared store, each
// commit takes several round trips, and other commits do not wait.
func CommitSize(p *partition.Partition) int {
	if p.Keeper().DB.Shared() {
		return 100
	}
	return 25
}
