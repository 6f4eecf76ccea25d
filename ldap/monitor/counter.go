package monitor

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"
)

// A Counter counts events or what they transfer. The zero Counter is ready for use.
type Counter struct{ n atomic.Int64 }

// Inc adds 1.
func (c *Counter) Inc() { c.n.Add(1) }

// Add adds n, which must not be negative.
func (c *Counter) Add(n int) {
	if n > 0 {
		c.n.Add(int64(n))
	}
}

func (c *Counter) value() int64 { return c.n.Load() }

func (c *Counter) series(labels ...string) Series {
	return Series{Labels: labels, Value: float64(c.value())}
}

// counters are the counters of a metric with labels, one for each key. They are an interface for the reason
// for which bounded.Cache is one.
type counters[K comparable] interface {
	// The method "of" returns the counter of a key. It takes no lock and allocates nothing if the key has a
	// counter.
	of(K) *Counter
	// all returns the counters, which callers do not change.
	all() map[K]*Counter
}

// children implements counters.
type children[K comparable] struct {
	most  int // largest number of counters; further keys are counted as the key other
	other K
	mu    sync.Mutex // serialises changes of by
	by    atomic.Pointer[map[K]*Counter]
}

// newCounters returns counters of at most limit keys, and one more counter for all other keys.
func newCounters[K comparable](limit int, other K) counters[K] {
	c := &children[K]{most: limit, other: other}
	c.by.Store(&map[K]*Counter{})
	return c
}

func (c *children[K]) all() map[K]*Counter { return *c.by.Load() }

func (c *children[K]) of(key K) *Counter {
	if x := c.all()[key]; x != nil {
		return x
	}
	return c.add(key)
}

func (c *children[K]) add(key K) *Counter {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.all()
	if len(all) >= c.most && all[key] == nil {
		key = c.other
	}
	if x := all[key]; x != nil {
		return x
	}
	all = maps.Clone(all)
	all[key] = &Counter{}
	c.by.Store(&all)
	return all[key]
}

// seriesOf returns the series of counters. The function labels returns the labels of a key.
func seriesOf[K comparable](c counters[K], labels func(K) []string) (all []Series) {
	for key, x := range c.all() {
		all = append(all, x.series(labels(key)...))
	}
	return all
}

// same are the labels of a metric whose label is the key.
func same(label string) []string { return []string{label} }

// total returns the sum of counters.
func total[K comparable](c counters[K]) (n int64) {
	for _, x := range c.all() {
		n += x.value()
	}
	return n
}

// buckets are the upper bounds of the buckets of durations.
var buckets = [...]time.Duration{
	50 * time.Microsecond, 100 * time.Microsecond, 250 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 250 * time.Millisecond, time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second,
}

// durations count in buckets how long something took. The zero value is ready for use.
type durations struct {
	counts [len(buckets) + 1]atomic.Uint64
	sum    atomic.Int64 // nanoseconds
}

func (h *durations) observe(d time.Duration) {
	i := 0
	for i < len(buckets) && d > buckets[i] {
		i++
	}
	h.counts[i].Add(1)
	h.sum.Add(int64(d))
}

func (h *durations) series(labels ...string) Series {
	s := Series{Labels: labels, Value: time.Duration(h.sum.Load()).Seconds(), Buckets: map[float64]uint64{}}
	for i := range h.counts {
		s.Count += h.counts[i].Load()
		if i < len(buckets) {
			s.Buckets[buckets[i].Seconds()] = s.Count
		}
	}
	return s
}
