package bounded

import (
	"math/rand/v2"
	"testing"
)

// TestLikeMap checks that a cache without a bound behaves as a map, that a bound holds, and that
// every item that a bounded cache returns is the newest one of its key.
func TestLikeMap(t *testing.T) {
	for _, c := range []struct {
		maximum uint64
		keys    uint64
	}{{1 << 40, 5000}, {1 << 20, 50_000}, {1000, 500}, {10, 500}, {1, 5}, {0, 5}} {
		weigh := func(k, v uint64) uint32 { return uint32(v % 50) }
		bounded, model := New(c.maximum, weigh), map[uint64]uint64{}
		r := rand.New(rand.NewPCG(1, c.keys))
		for range 200_000 {
			k := r.Uint64N(c.keys)
			if r.IntN(2) == 0 {
				v := r.Uint64()
				bounded.Set(k, v)
				model[k] = v
			}
			if r.IntN(20) == 0 {
				d := r.Uint64N(c.keys)
				bounded.Delete(d)
				delete(model, d)
			}
			v, ok := bounded.Get(k)
			want, known := model[k]
			if ok && v != want || ok && !known || !ok && known && c.maximum == 1<<40 {
				t.Fatalf("maximum %d, key %d: %d, %v, want %d, %v", c.maximum, k, v, ok, want, known)
			}
			if w := bounded.Weight(); w > c.maximum {
				t.Fatalf("weight %d, more than %d", w, c.maximum)
			}
		}
		var sum uint64
		n := 0
		for k := range model {
			if v, ok := bounded.Get(k); ok {
				sum, n = sum+v%50, n+1
			}
		}
		if sum != bounded.Weight() || n != bounded.EstimatedSize() {
			t.Errorf("maximum %d: %d items of weight %d, but the cache says %d and %d", c.maximum, n, sum, bounded.EstimatedSize(), bounded.Weight())
		}
		if hits, misses := bounded.Counts(); hits == 0 && c.maximum > 0 || hits+misses != 200_000+uint64(len(model)) {
			t.Errorf("maximum %d: %d hits and %d misses", c.maximum, hits, misses)
		}
	}
}

// TestKeepsWhatIsUsed checks that items that are looked up stay while others pass through.
func TestKeepsWhatIsUsed(t *testing.T) {
	c := New[int, int](1000, nil)
	for i := range 100_000 {
		c.Set(i, i)
		for k := range 10 {
			if _, ok := c.Get(k); !ok && i >= 10 {
				t.Fatalf("item %d is gone after %d", k, i)
			}
		}
	}
}

// TestConcurrent is for the race detector.
func TestConcurrent(t *testing.T) {
	c := New[int, int](1<<16, nil)
	done := make(chan bool)
	for g := range 4 {
		go func() {
			for i := range 100_000 {
				k := (i*7 + g) % 100_000
				c.Set(k, k)
				if v, ok := c.Get(k + 1); ok && v != k+1 {
					t.Errorf("key %d has the value %d", k+1, v)
				}
			}
			done <- true
		}()
	}
	for range 4 {
		<-done
	}
	if c.Weight() != uint64(c.EstimatedSize()) || c.Weight() > c.Maximum() {
		t.Errorf("weight %d, %d items", c.Weight(), c.EstimatedSize())
	}
}
