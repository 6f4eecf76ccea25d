// Package bounded has caches of a bounded size.
package bounded

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
)

// A Cache maps keys to values. It removes items when the sum of their weights exceeds a maximum. Goroutines
// may use it concurrently.
//
// Cache is an interface only for the sake of compilers: the methods of a generic struct are compiled again
// in every package that sees a type with such a field, which are most packages above.
type Cache[K comparable, V any] interface {
	// Get returns the value of a key.
	Get(K) (v V, ok bool)
	// Set sets the value of a key, and then removes other items while the cache is too large.
	Set(K, V)
	// Delete removes the item of a key.
	Delete(K)
	// EstimatedSize returns the number of items.
	EstimatedSize() int
	// Maximum returns the maximum of the sum of the items' weights.
	Maximum() uint64
	// Weight returns the sum of the items' weights.
	Weight() uint64
	// Counts returns how often Get found a key, and how often it did not.
	Counts() (hits, misses uint64)
}

// A cache has its items in tables, so an item costs no memory besides its slot in the table, and a table
// whose keys and values have no pointers costs the garbage collector nothing. Between 64 and 80 % of the
// slots are used.
//
// When the cache is full, a hand goes round the slots, and removes the items that nobody has looked
// up since it came by last.
type cache[K comparable, V any] struct {
	maximum uint64
	weigh   func(K, V) uint32
	seed    maphash.Seed
	weight  atomic.Uint64
	turn    atomic.Uint32 // counts the sweeps, which take the shards by turns
	shards  []shard[K, V]
}

// A shard has the items whose hashes have the same last bits.
type shard[K comparable, V any] struct {
	mu           sync.Mutex
	slots        []slot[K, V]
	used         int
	hand         int
	hits, misses uint64
	_            [16]byte // shards do not share cache lines
}

// A slot has an item, unless hash is zero. An item is in the first free slot from the place on that
// its hash determines.
type slot[K comparable, V any] struct {
	hash   uint32 // the bits above flags, and used, and perhaps seen
	weight uint32
	key    K
	value  V
}

const (
	used  = 1 // the slot has an item
	seen  = 2 // the item was looked up since the hand came by
	flags = used | seen
)

// New returns an empty cache. The function weigh returns the weight of an item; if it is nil, each
// item has the weight 1. An item that is heavier than the maximum is not kept.
func New[K comparable, V any](maximum uint64, weigh func(K, V) uint32) Cache[K, V] {
	if weigh == nil {
		weigh = func(K, V) uint32 { return 1 }
	}
	const most, each = 256, 4096 // shards, and what a shard is worth
	n := 1
	for n < most && uint64(n)*each < maximum {
		n *= 2
	}
	return &cache[K, V]{maximum: maximum, weigh: weigh, seed: maphash.MakeSeed(), shards: make([]shard[K, V], n)}
}

// shardOf returns the shard of a key, and the hash in the key's slot.
func (c *cache[K, V]) shardOf(k K) (*shard[K, V], uint32) {
	h := maphash.Comparable(c.seed, k)
	return &c.shards[h&uint64(len(c.shards)-1)], uint32(h>>32)&^flags | used
}

// Get returns the value of a key.
func (c *cache[K, V]) Get(k K) (v V, ok bool) {
	s, h := c.shardOf(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	if i, ok := s.find(k, h); ok {
		s.hits++
		s.slots[i].hash |= seen
		return s.slots[i].value, true
	}
	s.misses++
	return v, false
}

// Set sets the value of a key, and then removes other items while the cache is too large.
func (c *cache[K, V]) Set(k K, v V) {
	w := c.weigh(k, v)
	s, h := c.shardOf(k)
	s.mu.Lock()
	before := uint64(s.delete(k, h))
	if uint64(w) > c.maximum {
		w = 0
	} else {
		s.insert(slot[K, V]{h, w, k, v})
	}
	s.mu.Unlock()
	for now := c.weight.Add(uint64(w) - before); now > c.maximum; now = c.sweep() {
	}
}

// Delete removes the item of a key.
func (c *cache[K, V]) Delete(k K) {
	s, h := c.shardOf(k)
	s.mu.Lock()
	w := s.delete(k, h)
	s.mu.Unlock()
	c.weight.Add(-uint64(w))
}

// sweep removes one item of a shard, unless the shard is empty, and returns the weight of the rest.
func (c *cache[K, V]) sweep() uint64 {
	s := &c.shards[int(c.turn.Add(1))&(len(c.shards)-1)]
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.used > 0 {
		s.hand = (s.hand + 1) % len(s.slots)
		switch x := &s.slots[s.hand]; {
		case x.hash&seen != 0:
			x.hash &^= seen
		case x.hash != 0:
			w := x.weight
			s.remove(s.hand)
			return c.weight.Add(-uint64(w))
		}
	}
	return c.weight.Load()
}

// EstimatedSize returns the number of items.
func (c *cache[K, V]) EstimatedSize() (n int) {
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		n += s.used
		s.mu.Unlock()
	}
	return n
}

// Maximum returns the maximum of the sum of the items' weights.
func (c *cache[K, V]) Maximum() uint64 { return c.maximum }

// Weight returns the sum of the items' weights.
func (c *cache[K, V]) Weight() uint64 { return c.weight.Load() }

// Counts returns how often Get found a key, and how often it did not.
func (c *cache[K, V]) Counts() (hits, misses uint64) {
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		hits, misses = hits+s.hits, misses+s.misses
		s.mu.Unlock()
	}
	return hits, misses
}

// place returns the index of the slot from which on the item with a hash is.
func (s *shard[K, V]) place(hash uint32) int {
	return int(uint64(hash&^flags) * uint64(len(s.slots)) >> 32)
}

// next returns the index of the slot behind a slot.
func (s *shard[K, V]) next(i int) int {
	if i++; i < len(s.slots) {
		return i
	}
	return 0
}

// find returns the index of a key's slot.
func (s *shard[K, V]) find(k K, hash uint32) (int, bool) {
	if s.used == 0 {
		return 0, false
	}
	for i := s.place(hash); s.slots[i].hash != 0; i = s.next(i) {
		if x := &s.slots[i]; x.hash&^seen == hash && x.key == k {
			return i, true
		}
	}
	return 0, false
}

// insert inserts an item whose key has no slot.
func (s *shard[K, V]) insert(x slot[K, V]) {
	if 5*(s.used+1) > 4*len(s.slots) {
		old := s.slots
		s.slots, s.used = make([]slot[K, V], len(old)*5/4+4), 0
		for i := range old {
			if old[i].hash != 0 {
				s.insert(old[i])
			}
		}
	}
	i := s.place(x.hash)
	for s.slots[i].hash != 0 {
		i = s.next(i)
	}
	s.slots[i] = x
	s.used++
}

// delete removes the item of a key, and returns its weight.
func (s *shard[K, V]) delete(k K, hash uint32) (weight uint32) {
	if i, ok := s.find(k, hash); ok {
		weight = s.slots[i].weight
		s.remove(i)
	}
	return weight
}

// remove removes the item of a slot. It moves the items behind it, so that no free slot is between
// an item and its place.
func (s *shard[K, V]) remove(i int) {
	n := len(s.slots)
	for j := s.next(i); s.slots[j].hash != 0; j = s.next(j) {
		if (j-s.place(s.slots[j].hash)+n)%n >= (j-i+n)%n {
			s.slots[i] = s.slots[j]
			i = j
		}
	}
	s.slots[i] = slot[K, V]{}
	s.used--
}
