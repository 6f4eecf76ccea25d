// Package partition stores a directory tree in a table store. The tree consists of
// entries by id (package master), names (package tree) and indexes. Transactions change
// the tree, and it can be read at any revision that is kept. The package is a library
// that needs no server.
//
// [Open] opens a store. state.Newest reads the newest state, state.At reads a past state, and
// write.Update changes the directory. The packages do not use LDAP result codes: an operation
// that is refused returns an [Error] with a [Problem].
//
// The folders below this package contain the code. Each of these packages imports only packages
// that precede it in this list:
//
//	cache         entries, names and lists of candidates in memory
//	catalog       schema, indexes and settings in force; errors; the open tables
//	state         one state of the directory, read by name and by id
//	search        queries on a state
//	usage         hot attributes of all entries
//	write         transactions: add, modify, rename, delete
//	load          bulk loads
//	verify        checks and rebuilding of the data that is derived from entries
//	onlineschema  changes of schema, indexes, naming contexts and unique attributes
//	erase         removal of values from the past
//	changestream  changes in the order of commits
//	materialized  views: records that are computed from many entries
//	branch        branches: lines of commits that are hidden until a merge
//	history       what changed between two states, and restoring earlier states
//	reformat      copies of stores with rows in the newest format
package partition

import (
	"context"

	"github.com/seed-4dac0d86/ldapd/partition/cache"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/materialized"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// Options are the options of a partition. The zero Options work.
type Options = catalog.Options

// DefaultCache returns the cache size in bytes that applies if Options.Cache is zero.
func DefaultCache() int64 { return cache.DefaultCache() }

// Open opens the directory in a store. The partition does not own the store.
func Open(ctx context.Context, s table.Store, o Options) (*Partition, error) {
	p, err := onlineschema.Open(ctx, s, o)
	if err != nil {
		return nil, err
	}
	materialized.SetUp(p)
	return p, nil
}
