// Package sorting sorts the results of a search (RFC 2891) in bounded memory.
package sorting

import (
	"context"

	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/internal/search"
)

// A Sorter sorts entries in bounded memory.
type Sorter = search.Sorter

// NewSorter returns a Sorter that sorts by keys and uses about the given number of bytes.
func NewSorter(keys []partition.SortKey, memory int64) *Sorter { return search.NewSorter(keys, memory) }

// Ordered reports whether an index contains the entries in the order of a key.
func Ordered(s *partition.Snapshot, k *partition.SortKey) bool { return search.Ordered(s.State(), k) }

// Exceeds reports whether a query examines more than n candidates. It returns true if the
// query must scan all entries in scope.
func Exceeds(ctx context.Context, s *partition.Snapshot, q partition.Query, n int) (bool, error) {
	return search.Exceeds(ctx, s.State(), q, n)
}
