// Package partition is a directory tree in a table store: entries by id
// (package master), names (package tree), indexes and search plans, changed in
// transactions and readable at any revision. It is a library of its own: no server is
// needed.
//
// A [Partition] is an open store. [Partition.Snapshot] reads the newest state,
// [Partition.At] a past one, and [Partition.Update] changes it. Nothing here knows LDAP
// result codes: what can go wrong is an [Error] with a [Problem].
//
// This package is a thin face. What it does is in the packages below internal, each of
// which imports only those before it:
//
//	cache    entries, names and lists of candidates in memory
//	catalog  schema, indexes and settings in force; errors; the open tables
//	state    one state of the directory, read by name and by id
//	search   queries on a state
//	write    transactions: add, modify, rename, delete
//	load     bulk loads
//	verify   checks, rebuilds and fills of what follows from entries
//	evolve   changes of schema, indexes, naming contexts and unique attributes
//	erase    removal of values from the past
//	feed     changes in the order of commits
//
// What only tools need is in the packages beside it: transfer (import and export),
// maintain (checks, indexes, collection of the past) and past (what histories show).
package partition

import (
	"context"
	"iter"

	"github.com/seed-4dac0d86/ldapd/partition/internal/cache"
	"github.com/seed-4dac0d86/ldapd/partition/internal/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/internal/evolve"
	"github.com/seed-4dac0d86/ldapd/partition/internal/feed"
	"github.com/seed-4dac0d86/ldapd/partition/internal/state"
	"github.com/seed-4dac0d86/ldapd/partition/internal/write"
	"github.com/seed-4dac0d86/ldapd/revision"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/table"
)

// Options of a partition; the zero Options are good.
type Options = catalog.Options

// DefaultCache returns the size in bytes of the cache that zero Options have.
func DefaultCache() int64 { return cache.DefaultCache() }

// Partition is an open directory tree.
type Partition struct{ k *catalog.Keeper }

// Open opens the directory in a store. The partition does not own the store.
func Open(ctx context.Context, s table.Store, o Options) (*Partition, error) {
	k, err := evolve.Open(ctx, s, o)
	if err != nil {
		return nil, err
	}
	return &Partition{k}, nil
}

// Keeper returns what packages below this one work on.
func (p *Partition) Keeper() *catalog.Keeper { return p.k }

// Close ends background work and releases the writer's slot.
func (p *Partition) Close(ctx context.Context) error { return p.k.Close(ctx) }

// Schema returns the schema in force: that of the newest snapshot.
func (p *Partition) Schema() *schema.Schema { return p.k.Schema() }

// Config returns what all servers of the directory share.
func (p *Partition) Config() Config { return p.k.Config() }

// Unique returns the unique attributes.
func (p *Partition) Unique() ([]Unique, error) { return evolve.Unique(p.k) }

// Secret returns the directory's own secret, which all its servers share. It is made
// when it is first asked for.
func (p *Partition) Secret(ctx context.Context) ([]byte, error) { return write.Secret(ctx, p.k) }

// Snapshot returns the newest state. Close it.
func (p *Partition) Snapshot() *Snapshot { return &Snapshot{state.Newest(p.k)} }

// At returns the state at a past revision. Close it.
func (p *Partition) At(ctx context.Context, r table.Revision) (*Snapshot, error) {
	return snapshot(state.At(ctx, p.k, r))
}

// AtMoment returns the state at a moment. Close it.
func (p *Partition) AtMoment(ctx context.Context, m Moment) (*Snapshot, error) {
	return snapshot(state.AtMoment(ctx, p.k, m))
}

// AtFrontier returns the state that a frontier describes. Close it.
func (p *Partition) AtFrontier(ctx context.Context, f revision.Frontier) (*Snapshot, error) {
	return snapshot(feed.AtFrontier(ctx, p.k, f))
}

// Settled returns the newest state to which nothing can be added any more. Close it.
func (p *Partition) Settled(ctx context.Context) (*Snapshot, error) {
	return snapshot(feed.Settled(ctx, p.k))
}

func snapshot(s *state.Snapshot, err error) (*Snapshot, error) {
	if err != nil {
		return nil, err
	}
	return &Snapshot{s}, nil
}

// Bounds returns the revisions between which states are kept and settled.
func (p *Partition) Bounds() (first, last table.Revision) { return p.k.DB.Bounds() }

// Horizon returns the newest revision whose predecessors may be gone: states before it
// cannot be read, except those that checkpoints keep.
func (p *Partition) Horizon() table.Revision { return p.k.DB.Horizon() }

// CatchUp returns when a Snapshot shows all that any server of the store had
// committed when it was called.
func (p *Partition) CatchUp(ctx context.Context) error { return p.k.CatchUp(ctx) }

// AtLeast returns when a Snapshot shows a commit that any server of the store has
// acknowledged.
func (p *Partition) AtLeast(ctx context.Context, r table.Revision) error { return p.k.AtLeast(ctx, r) }

// Changes streams the commits after a frontier, and waits for more at the end.
func (p *Partition) Changes(ctx context.Context, after revision.Frontier) iter.Seq2[*Change, error] {
	return feed.Changes(ctx, p.k, after)
}

// Next returns a channel that is closed when the next state can be read.
func (p *Partition) Next() <-chan struct{} { return feed.Next(p.k) }

// Follows reports, by its error, whether the commits after a frontier are still known.
func (p *Partition) Follows(ctx context.Context, f revision.Frontier) error {
	return feed.Follows(ctx, p.k, f)
}

// SetSuffixes changes the naming contexts. One that has entries stays.
func (p *Partition) SetSuffixes(ctx context.Context, suffixes []string) error {
	return evolve.SetSuffixes(ctx, p.k, suffixes)
}

// AddSuffixes adds naming contexts. If all are there already, it needs no right to
// write: a server can start while it has none.
func (p *Partition) AddSuffixes(ctx context.Context, suffixes []string) error {
	return evolve.AddSuffixes(ctx, p.k, suffixes)
}

// SetIndexes changes the indexes and fills new ones.
func (p *Partition) SetIndexes(ctx context.Context, indexes []Index) error {
	return evolve.SetIndexes(ctx, p.k, indexes)
}

// SetAccess puts other access rules into force: those that change returns for the
// ones of now. It returns when every server goes by them.
func (p *Partition) SetAccess(ctx context.Context, change func(s *Snapshot, old []AccessRule) ([]AccessRule, error)) error {
	return evolve.SetAccess(ctx, p.k, func(s *state.Snapshot, old []AccessRule) ([]AccessRule, error) {
		return change(&Snapshot{s}, old)
	})
}

// SetUnique makes an attribute unique in a scope, or no longer so.
func (p *Partition) SetUnique(ctx context.Context, u Unique, on bool) error {
	return evolve.SetUnique(ctx, p.k, u, on)
}
