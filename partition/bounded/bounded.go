// Package bounded has caches of a bounded size.
package bounded

import (
	"github.com/maypok86/otter/v2"
	"github.com/maypok86/otter/v2/stats"
)

// A Cache has the methods of otter.Cache that this program uses.
//
// It is an interface to save compile time: every package that can see an instance of a
// generic type compiles all methods of that instance again. When structs had fields of
// otter's types, each of fifty packages took 4 s longer to compile. An interface has
// nothing to compile, so only the packages that call New compile otter.
type Cache[K comparable, V any] interface {
	GetIfPresent(K) (V, bool)
	Set(K, V) (V, bool)
	EstimatedSize() int
	GetMaximum() uint64
	WeightedSize() uint64
	Stats() stats.Stats
}

// New returns an empty cache. It panics if the options contradict each other.
func New[K comparable, V any](o *otter.Options[K, V]) Cache[K, V] { return otter.Must(o) }
