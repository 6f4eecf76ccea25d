// Package sorting puts the results of a search in order (RFC 2891), in bounded memory.
package sorting

import (
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/internal/search"
)

// Sorter puts entries in order, in bounded memory.
type Sorter = search.Sorter

// NewSorter returns a sorter by keys that takes at most so many bytes.
func NewSorter(keys []partition.SortKey, memory int64) *Sorter { return search.NewSorter(keys, memory) }

// Ordered reports whether an index has the order of a key.
func Ordered(s *partition.Snapshot, k *partition.SortKey) bool { return search.Ordered(s.State(), k) }
