// Package partition stores a directory tree in a table store. The tree consists of
// entries by id (package master), names (package tree) and indexes. Transactions change
// the tree, and it can be read at any revision that is kept. The package is a library
// that needs no server.
//
// A [Partition] is an open store. [Partition.Snapshot] reads the newest state,
// [Partition.At] reads a past state, and [Partition.Update] changes the directory. The
// package does not use LDAP result codes: an operation that is refused returns an [Error]
// with a [Problem].
//
// This package contains little code. The packages below internal do the work. Of these
// packages, each imports only packages that precede it in this list:
//
//	cache    entries, names and lists of candidates in memory
//	catalog  schema, indexes and settings in force; errors; the open tables
//	state    one state of the directory, read by name and by id
//	search   queries on a state
//	write    transactions: add, modify, rename, delete
//	load     bulk loads
//	verify   checks and rebuilding of the data that is derived from entries
//	evolve   changes of schema, indexes, naming contexts and unique attributes
//	erase    removal of values from the past
//	feed     changes in the order of commits
//	view     views: records that are computed from many entries
//	branch   branches: lines of commits that are hidden until a merge
//
// The packages beside this one contain functions that only few callers need: changes (the
// stream of commits), past (states of the past), subschema, configure (naming contexts,
// indexes, unique attributes, access rules), sorting, usage (hot attributes), follow (the
// server that a directory follows), transfer (import and export), maintain (checks, indexes,
// collection of the past), branches, views and referrers (entries that name other entries).
package partition

import (
	"context"

	"github.com/seed-4dac0d86/ldapd/partition/internal/cache"
	"github.com/seed-4dac0d86/ldapd/partition/internal/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/internal/materialized"
	"github.com/seed-4dac0d86/ldapd/partition/internal/onlineschema"
	"github.com/seed-4dac0d86/ldapd/partition/internal/state"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// Options are the options of a partition. The zero Options work.
type Options = catalog.Options

// DefaultCache returns the cache size in bytes that applies if Options.Cache is zero.
func DefaultCache() int64 { return cache.DefaultCache() }

// A Partition is an open directory tree.
type Partition struct{ k *catalog.Keeper }

// Open opens the directory in a store. The partition does not own the store.
func Open(ctx context.Context, s table.Store, o Options) (*Partition, error) {
	k, err := onlineschema.Open(ctx, s, o)
	if err != nil {
		return nil, err
	}
	materialized.SetUp(k)
	return &Partition{k}, nil
}

// Keeper returns the open directory. Only the packages beside this one call it.
func (p *Partition) Keeper() *catalog.Keeper { return p.k }

// Close ends background work and releases this server's slot.
func (p *Partition) Close(ctx context.Context) error { return p.k.Close(ctx) }

// Schema returns the schema in force, which is the schema of the newest snapshot.
func (p *Partition) Schema() *schema.Schema { return p.k.Schema() }

// Config returns the configuration that all servers of the directory share.
func (p *Partition) Config() Config { return p.k.Config() }

// Snapshot returns the newest state. The caller must close it.
func (p *Partition) Snapshot() *Snapshot { return &Snapshot{state.Newest(p.k)} }

// Ordinal returns the ordinal of the newest state without opening it. It is 0 if that
// state cannot be read.
func (p *Partition) Ordinal() uint64 { return p.k.DB.Ordinal() }

// At returns the state at a past revision. The caller must close it.
func (p *Partition) At(ctx context.Context, r table.Revision) (*Snapshot, error) {
	return NewSnapshot(state.At(ctx, p.k, r))
}

// CatchUp waits until a new Snapshot shows every commit that any server of the store had
// committed when CatchUp was called.
func (p *Partition) CatchUp(ctx context.Context) error { return p.k.CatchUp(ctx) }

// AtLeast waits until a new Snapshot shows the commit r. Any server of the store may have
// made this commit.
func (p *Partition) AtLeast(ctx context.Context, r table.Revision) error { return p.k.AtLeast(ctx, r) }
