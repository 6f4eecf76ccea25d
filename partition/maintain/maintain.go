// Package maintain is what an operator's tools do with a partition: check it and build
// anew what follows from its entries, let go of the past or keep a moment of it, and look
// at the servers that share it.
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
	// VerifyOptions are those of Verify.
	VerifyOptions = verify.VerifyOptions
	// Finding is what Verify has found.
	Finding = verify.Finding
	// Fault is a kind of finding.
	Fault = verify.Fault
	// ReindexOptions are those of Reindex and Rebuild.
	ReindexOptions = verify.ReindexOptions
	// EraseOptions say what is erased.
	EraseOptions = erase.EraseOptions
	// Erased is what was erased.
	Erased = erase.Erased
	// StandingError says that entries of the present have what is to be erased.
	StandingError = erase.StandingError
	// CollectOptions are those of Collect.
	CollectOptions = txn.CollectOptions
	// Collection is what went.
	Collection = txn.Collection
)

// FaultDamage is the fault of what the store cannot read.
const FaultDamage = verify.FaultDamage

// Verify compares every index, name and count with the entries, and returns how many
// entries there are.
func Verify(ctx context.Context, p *partition.Partition, o VerifyOptions) (entries int, err error) {
	return verify.Verify(ctx, p.Keeper(), o)
}

// Rebuild makes all keys of the directory in a store anew, by the normal forms of this
// version, and returns how many entries there are.
func Rebuild(ctx context.Context, s table.Store, o partition.Options, ro ReindexOptions) (entries int, err error) {
	return verify.Rebuild(ctx, s, o, ro)
}

// Reindex changes which attributes are indexed and how, as SetIndexes does, and builds
// some indexes again.
func Reindex(ctx context.Context, p *partition.Partition, indexes []configure.Index, o ReindexOptions) error {
	return evolve.Reindex(ctx, p.Keeper(), indexes, o)
}

// Explain describes how a query is run, and, if run is set, what it came upon.
func Explain(ctx context.Context, s *partition.Snapshot, q partition.Query, run bool) (string, error) {
	return search.Explain(ctx, s.State(), q, run)
}

// Warm fills the cache, as far as it goes, and returns how many entries it has read.
func Warm(ctx context.Context, p *partition.Partition) (entries int, err error) {
	return search.Warm(ctx, p.Keeper())
}

// Erase removes values from all states of the past.
func Erase(ctx context.Context, p *partition.Partition, o EraseOptions) (*Erased, error) {
	return erase.Erase(ctx, p.Keeper(), o)
}

// Refusal returns why this server takes no changes now, or nil.
func Refusal(p *partition.Partition) error { return p.Keeper().DB.Refusal() }

// Status returns how this server stands with the store.
func Status(p *partition.Partition) txn.Status { return p.Keeper().DB.Status() }

// CacheStats are what a part of the cache was asked for.
type CacheStats = cache.Stats

// Caches returns what the parts of the cache were asked for since the schema changed.
func Caches(p *partition.Partition) []CacheStats { return p.Keeper().Catalog.Load().Cache.Stats() }

// Announce writes down, for other servers of the store, what this one says of itself.
func Announce(ctx context.Context, p *partition.Partition, s monitor.Server) error {
	return monitor.Announce(ctx, p.Keeper().DB, s)
}

// Withdraw takes away what this server said of itself.
func Withdraw(ctx context.Context, p *partition.Partition) error {
	return monitor.Withdraw(ctx, p.Keeper().DB)
}

// Servers returns what the servers of the store say of themselves, by owner.
func Servers(ctx context.Context, p *partition.Partition) (map[string]monitor.Server, error) {
	return monitor.Servers(ctx, p.Keeper().DB)
}

// Collected returns how many versions this server's collections have removed, and when
// one ended well last.
func Collected(p *partition.Partition) (versions int64, last time.Time) {
	return p.Keeper().DB.Collected()
}

// Formats returns the format of the store's files and the newest one; zeros: it has no
// formats.
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

// Purge writes the store's files anew, without what was removed.
func Purge(ctx context.Context, p *partition.Partition) error { return p.Keeper().DB.Purge(ctx) }

// Collect lets go of the past.
func Collect(ctx context.Context, p *partition.Partition, o CollectOptions) (Collection, error) {
	return p.Keeper().DB.Collect(ctx, o)
}

// Checkpoint keeps the state of now under a name.
func Checkpoint(ctx context.Context, p *partition.Partition, name string) (txn.Checkpoint, error) {
	return p.Keeper().DB.Checkpoint(ctx, name)
}

// Checkpoints returns the states that are kept.
func Checkpoints(ctx context.Context, p *partition.Partition) ([]txn.Checkpoint, error) {
	return p.Keeper().DB.Checkpoints(ctx)
}

// DeleteCheckpoint returns a kept state up.
func DeleteCheckpoint(ctx context.Context, p *partition.Partition, name string) error {
	return p.Keeper().DB.DeleteCheckpoint(ctx, name)
}

// Cluster returns what the servers of a store say of themselves.
func Cluster(ctx context.Context, p *partition.Partition, now time.Time) (*monitor.Cluster, error) {
	return monitor.Read(ctx, p.Keeper().DB, now)
}
