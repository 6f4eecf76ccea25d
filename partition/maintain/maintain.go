// Package maintain has what an operator's tools do with a partition: check it, rebuild
// what is derived from its entries, collect garbage, make checkpoints, and look at the
// servers that share it.
package maintain

import (
	"context"
	"time"

	"github.com/seed-4dac0d86/ldapd/monitor"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/configure"
	"github.com/seed-4dac0d86/ldapd/partition/internal/cache"
	"github.com/seed-4dac0d86/ldapd/partition/internal/erase"
	"github.com/seed-4dac0d86/ldapd/partition/internal/evolve"
	"github.com/seed-4dac0d86/ldapd/partition/internal/search"
	"github.com/seed-4dac0d86/ldapd/partition/internal/verify"
	"github.com/seed-4dac0d86/ldapd/table"
	"github.com/seed-4dac0d86/ldapd/txn"
)

type (
	// VerifyOptions are the options of Verify.
	VerifyOptions = verify.VerifyOptions
	// A Finding is a fault that Verify has found.
	Finding = verify.Finding
	// A Fault is a kind of finding.
	Fault = verify.Fault
	// ReindexOptions are the options of Reindex and Rebuild.
	ReindexOptions = verify.ReindexOptions
	// EraseOptions specify what to erase.
	EraseOptions = erase.EraseOptions
	// Erased is what was erased.
	Erased = erase.Erased
	// A StandingError reports that entries of the present have what should be erased.
	StandingError = erase.StandingError
	// CollectOptions are the options of Collect.
	CollectOptions = txn.CollectOptions
	// A Collection is the result of Collect.
	Collection = txn.Collection
)

// FaultDamage is the fault of parts that the store cannot read.
const FaultDamage = verify.FaultDamage

// Verify compares every index, name and count with the entries, and returns how many
// entries there are.
func Verify(ctx context.Context, p *partition.Partition, o VerifyOptions) (entries int, err error) {
	return verify.Verify(ctx, p.Keeper(), o)
}

// Rebuild rebuilds all keys of the directory in a store, with the normal forms of this
// version, and returns how many entries there are.
func Rebuild(ctx context.Context, s table.Store, o partition.Options, ro ReindexOptions) (entries int, err error) {
	return verify.Rebuild(ctx, s, o, ro)
}

// Reindex changes which attributes are indexed and how, like SetIndexes, and rebuilds
// some indexes.
func Reindex(ctx context.Context, p *partition.Partition, indexes []configure.Index, o ReindexOptions) error {
	return evolve.Reindex(ctx, p.Keeper(), indexes, o)
}

// Explain describes how a query is run and, if run is set, what it found.
func Explain(ctx context.Context, s *partition.Snapshot, q partition.Query, run bool) (string, error) {
	return search.Explain(ctx, s.State(), q, run)
}

// Warm fills the cache as far as possible and returns how many entries it has read.
func Warm(ctx context.Context, p *partition.Partition) (entries int, err error) {
	return search.Warm(ctx, p.Keeper())
}

// Erase removes values from all states of the past.
func Erase(ctx context.Context, p *partition.Partition, o EraseOptions) (*Erased, error) {
	return erase.Erase(ctx, p.Keeper(), o)
}

// Refusal returns why this server takes no changes now, or nil.
func Refusal(p *partition.Partition) error { return p.Keeper().DB.Refusal() }

// Status returns the state of this server's connection to the store.
func Status(p *partition.Partition) txn.Status { return p.Keeper().DB.Status() }

// CacheStats are the statistics of a part of the cache.
type CacheStats = cache.Stats

// Caches returns the statistics of the parts of the cache since the schema changed.
func Caches(p *partition.Partition) []CacheStats { return p.Keeper().Catalog.Load().Cache.Stats() }

// Announce stores this server's description of itself, for other servers of the store.
func Announce(ctx context.Context, p *partition.Partition, s monitor.Server) error {
	return monitor.Announce(ctx, p.Keeper().DB, s)
}

// Withdraw removes this server's description of itself.
func Withdraw(ctx context.Context, p *partition.Partition) error {
	return monitor.Withdraw(ctx, p.Keeper().DB)
}

// Servers returns the descriptions of the store's servers, by owner.
func Servers(ctx context.Context, p *partition.Partition) (map[string]monitor.Server, error) {
	return monitor.Servers(ctx, p.Keeper().DB)
}

// Collected returns how many versions this server's collections have removed, and when
// the last successful one ended.
func Collected(p *partition.Partition) (versions int64, last time.Time) {
	return p.Keeper().DB.Collected()
}

// Formats returns the format of the store's files and the newest one, or zeros if the
// store has no formats.
func Formats(p *partition.Partition) (now, newest int) {
	if u, ok := p.Keeper().Store.(table.Upgrader); ok {
		return u.Formats()
	}
	return 0, 0
}

// Upgrade raises the format of the store's files to the newest one.
func Upgrade(ctx context.Context, p *partition.Partition) error {
	if u, ok := p.Keeper().Store.(table.Upgrader); ok {
		return u.Upgrade(ctx)
	}
	return nil
}

// Purge rewrites the store's files without what was removed.
func Purge(ctx context.Context, p *partition.Partition) error { return p.Keeper().DB.Purge(ctx) }

// Collect collects garbage of the past.
func Collect(ctx context.Context, p *partition.Partition, o CollectOptions) (Collection, error) {
	return p.Keeper().DB.Collect(ctx, o)
}

// Checkpoint makes a checkpoint of the present state.
func Checkpoint(ctx context.Context, p *partition.Partition, name string) (txn.Checkpoint, error) {
	return p.Keeper().DB.Checkpoint(ctx, name)
}

// Checkpoints returns the checkpoints.
func Checkpoints(ctx context.Context, p *partition.Partition) ([]txn.Checkpoint, error) {
	return p.Keeper().DB.Checkpoints(ctx)
}

// DeleteCheckpoint deletes a checkpoint.
func DeleteCheckpoint(ctx context.Context, p *partition.Partition, name string) error {
	return p.Keeper().DB.DeleteCheckpoint(ctx, name)
}

// Cluster returns the descriptions of the servers of a store.
func Cluster(ctx context.Context, p *partition.Partition, now time.Time) (*monitor.Cluster, error) {
	return monitor.Read(ctx, p.Keeper().DB, now)
}
