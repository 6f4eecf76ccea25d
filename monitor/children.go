package monitor

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// A family is a counter with labels that looks up each child once. Reading its map takes
// no lock and allocates nothing.
type family[K comparable] struct {
	vec    *prometheus.CounterVec
	labels func(K) []string
	most   int // children; later ones are counted as other
	other  K

	mu       sync.Mutex // serialises changes of children
	children atomic.Pointer[map[K]prometheus.Counter]
}

// newFamily returns a family of at most so many children, and one for all others.
func newFamily[K comparable](r prometheus.Registerer, name, help string, most int, other K, labels func(K) []string, names ...string) *family[K] {
	f := &family[K]{
		vec:    prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, names),
		labels: labels, most: most, other: other,
	}
	f.children.Store(&map[K]prometheus.Counter{})
	r.MustRegister(f.vec)
	return f
}

// of returns a key's counter.
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
