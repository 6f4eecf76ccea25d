package monitor

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// A family is a counter with labels. It keeps its children, one counter for each key, in
// a map that is read without a lock and without allocating.
type family[K comparable] struct {
	vec    *prometheus.CounterVec
	labels func(K) []string
	most   int // largest number of children; further keys are counted as the key other
	other  K

	mu       sync.Mutex // serialises changes of children
	children atomic.Pointer[map[K]prometheus.Counter]
}

// newFamily returns a family with at most limit children, and one more child for all
// other keys.
func newFamily[K comparable](r prometheus.Registerer, name, help string, limit int, other K, labels func(K) []string, names ...string) *family[K] {
	f := &family[K]{
		vec:    prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, names),
		labels: labels, most: limit, other: other,
	}
	f.children.Store(&map[K]prometheus.Counter{})
	r.MustRegister(f.vec)
	return f
}

// The method "of" returns the counter of a key.
func (f *family[K]) of(key K) prometheus.Counter {
	if c := (*f.children.Load())[key]; c != nil {
		return c
	}
	return f.add(key)
}

func (f *family[K]) add(key K) prometheus.Counter {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := *f.children.Load()
	if c := all[key]; c != nil {
		return c
	}
	if len(all) >= f.most {
		return f.vec.WithLabelValues(f.labels(f.other)...)
	}
	all = maps.Clone(all)
	all[key] = f.vec.WithLabelValues(f.labels(key)...)
	f.children.Store(&all)
	return all[key]
}
