// Package maintain contains the operations of administrative tools on a partition. They
// check the partition, rebuild the data that is derived from its entries, collect
// garbage, create checkpoints, and list the servers that share the store.
package maintain

import (
	"context"
	"time"

	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/configure"
	"github.com/seed-4dac0d86/ldapd/partition/internal/cache"
	"github.com/seed-4dac0d86/ldapd/partition/internal/erase"
	"github.com/seed-4dac0d86/ldapd/partition/internal/onlineschema"
	"github.com/seed-4dac0d86/ldapd/partition/internal/search"
	"github.com/seed-4dac0d86/ldapd/partition/internal/verify"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/txn"
)

type (
	// VerifyOptions are the options of Verify.
	VerifyOptions = verify.VerifyOptions
	// A Finding is a fault that Verify has found.
	Finding = verify.Finding
	// A Fault is the kind of a Finding.
	Fault = verify.Fault
	// ReindexOptions are the options of Reindex and Rebuild.
	ReindexOptions = verify.ReindexOptions
	// EraseOptions specify what to erase.
	EraseOptions = erase.EraseOptions
	// Erased describes what an Erase has removed.
	Erased = erase.Erased
	// A StandingError reports that entries of the present state, naming contexts or checkpoints
	// contain the data to be erased.
	StandingError = erase.StandingError
	// CollectOptions are the options of Collect.
	CollectOptions = txn.CollectOptions
	// A Server is what a server of the store publishes about itself.
	Server = txn.Server
	// A ClusterState describes the servers of a store.
	ClusterState = txn.Cluster
	// A Collection is the result of Collect.
	Collection = txn.Collection
)

// FaultDamage is the fault of rows that the store cannot read.
const FaultDamage = verify.FaultDamage

// Verify compares the tree and every index with the entries, and looks for other faults.
// It returns the number of entries.
func Verify(ctx context.Context, p *partition.Partition, o VerifyOptions) (entries int, err error) {
	return verify.Verify(ctx, p.Keeper(), o)
}

// Rebuild computes all keys of the directory in a store again, with this version's normal
// forms. It returns the number of entries.
func Rebuild(ctx context.Context, s table.Store, o partition.Options, ro ReindexOptions) (entries int, err error) {
	return verify.Rebuild(ctx, s, o, ro)
}

// Reindex replaces the set of indexes, like SetIndexes of package configure. It also rebuilds
// the indexes that o selects.
func Reindex(ctx context.Context, p *partition.Partition, indexes []configure.Index, o ReindexOptions) error {
	return onlineschema.Reindex(ctx, p.Keeper(), indexes, o)
}

// Explain describes how a query is evaluated. If run is set, Explain evaluates the query
// and also describes what the search did.
func Explain(ctx context.Context, s *partition.Snapshot, q partition.Query, run bool) (string, error) {
	return search.Explain(ctx, s.State(), q, run)
}

// Learn makes Explain describe a query as it runs on a server that has run such a query before.
func Learn(ctx context.Context, s *partition.Snapshot, q partition.Query) error {
	return search.Learn(ctx, s.State(), q)
}

// Warm reads entries into the cache until it has read all entries or the cache is nearly full,
// and then reads postings. It returns the number of entries that it has read.
func Warm(ctx context.Context, p *partition.Partition) (entries int, err error) {
	return search.Warm(ctx, p.Keeper())
}

// Erase removes values from all states of the past.
func Erase(ctx context.Context, p *partition.Partition, o EraseOptions) (*Erased, error) {
	return erase.Erase(ctx, p.Keeper(), o)
}

// Refusal returns the reason why this server refuses changes now, or nil if it accepts
// changes.
func Refusal(p *partition.Partition) error { return p.Keeper().DB.Refusal() }

// ShowNewest makes new snapshots of a standby show all commits that have been written to its
// store.
func ShowNewest(ctx context.Context, p *partition.Partition) error {
	return p.Keeper().DB.ShowNewest(ctx)
}

// Status describes this server's connection to the store.
func Status(p *partition.Partition) txn.Status { return p.Keeper().DB.Status() }

// CacheStats are the statistics of a part of the cache.
type CacheStats = cache.Stats

// Caches returns the statistics of the main parts of the cache. The numbers count from the
// creation of the cache. A change of the schema or of the indexes creates a new cache, and so
// does an erasure.
func Caches(p *partition.Partition) []CacheStats { return p.Keeper().Catalog.Load().Cache.Stats() }

// Announce stores a description of this server for the other servers of the store.
func Announce(ctx context.Context, p *partition.Partition, s Server) error {
	return p.Keeper().DB.Announce(ctx, s)
}

// Withdraw removes the description that Announce stored.
func Withdraw(ctx context.Context, p *partition.Partition) error {
	return p.Keeper().DB.Withdraw(ctx)
}

// Servers returns the descriptions of all servers of the store, by the owner of the server's
// slot.
func Servers(ctx context.Context, p *partition.Partition) (map[string]Server, error) {
	return p.Keeper().DB.Servers(ctx)
}

// Collected returns the number of versions that this server's collections have removed,
// and the time at which the last successful collection ended.
func Collected(p *partition.Partition) (versions int64, last time.Time) {
	return p.Keeper().DB.Collected()
}

// Formats returns the present format of the store's files and the newest format that this
// program supports. It returns zeros if the store has no formats.
func Formats(p *partition.Partition) (now, newest int) {
	if u, ok := p.Keeper().Store.(table.Upgrader); ok {
		return u.Formats()
	}
	return 0, 0
}

// Upgrade raises the format of the store's files to the newest format.
func Upgrade(ctx context.Context, p *partition.Partition) error {
	if u, ok := p.Keeper().Store.(table.Upgrader); ok {
		return u.Upgrade(ctx)
	}
	return nil
}

// Purge rewrites the store's files without the data that was removed.
func Purge(ctx context.Context, p *partition.Partition) error { return p.Keeper().DB.Purge(ctx) }

// Collect removes versions of the past that nothing needs any more.
func Collect(ctx context.Context, p *partition.Partition, o CollectOptions) (Collection, error) {
	return p.Keeper().DB.Collect(ctx, o)
}

// Checkpoint creates a checkpoint of the present state.
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
func Cluster(ctx context.Context, p *partition.Partition, now time.Time) (*ClusterState, error) {
	return p.Keeper().DB.ReadCluster(ctx, now)
}
