package txn

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// changes records when each entry, and every other object that has a key, was last
// changed. The time of a change is the ordinal of the first state that shows it. Several
// entries and keys share a stripe, so the recorded ordinal can be too new but never too
// old.
//
// Let the state of ordinal n be the first one that shows a commit. Before DB.Snapshot can
// return this state, the commit raises to n the stripes of everything that it changed. A reader
// with a snapshot of ordinal o >= n therefore sees the raised stripes. If a stripe is at most
// s, the state of ordinal s already showed every commit that touched the entries of the stripe.
type changes struct {
	touched atomic.Uint64 // number of ids that commits named
	all     atomic.Uint64
	stripes []atomic.Uint64 // the length is a power of two
	latest  latest
}

func (c *changes) stripe(hash uint64) *atomic.Uint64 {
	return &c.stripes[(hash^hash>>32)&uint64(len(c.stripes)-1)]
}

// hash mixes all bytes of an id. The bytes need not be random, because imported entries
// may bring ids that this server did not choose. Every lookup in a cache computes this
// hash, so hash multiplies only once (FNV's 16 multiplications were 6 % of a base search).
func hash(id entry.ID) uint64 {
	a := binary.LittleEndian.Uint64(id[:8]) ^ 0x9e3779b97f4a7c15
	b := binary.LittleEndian.Uint64(id[8:]) ^ 0xd1342543de82ef95
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}

func (c *changes) last(hash uint64) uint64 {
	return max(c.all.Load(), c.stripe(hash).Load())
}

func (c *changes) touch(ids []entry.ID, keys []uint64, n uint64) {
	c.touched.Add(uint64(len(ids)))
	c.latest.add(ids, keys, n)
	for _, id := range ids {
		raise(c.stripe(hash(id)), n)
	}
	for _, k := range keys {
		raise(c.stripe(k), n)
	}
}

// The method "everything" records that all entries and keys may have changed in the state of
// ordinal n.
func (c *changes) everything(n uint64) {
	c.latest.forget(n)
	raise(&c.all, n)
}

func raise(a *atomic.Uint64, n uint64) {
	for {
		old := a.Load()
		if old >= n || a.CompareAndSwap(old, n) {
			return
		}
	}
}

// latest records the ids and keys of recent commits. With this record a cache can update what it
// contains instead of reading it again.
type latest struct {
	mu      sync.Mutex
	commits []touched // in ascending order of ordinals
	weight  int       // number of ids and keys in commits
	since   uint64    // the list commits contains every commit with an ordinal above since
}

type touched struct {
	ordinal uint64
	ids     []entry.ID
	keys    []uint64
}

// latestWeight bounds the number of ids and keys in latest. At this bound a latest uses
// about half a MiB.
const latestWeight = 1 << 15

func (l *latest) add(ids []entry.ID, keys []uint64, n uint64) {
	if len(ids)+len(keys) == 0 {
		return // it has no weight, so it would never be dropped
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.commits = append(l.commits, touched{n, ids, keys})
	l.weight += len(ids) + len(keys)
	if l.weight <= latestWeight {
		return
	}
	drop := 0
	for ; l.weight > latestWeight/2; drop++ {
		l.weight -= len(l.commits[drop].ids) + len(l.commits[drop].keys)
		l.since = max(l.since, l.commits[drop].ordinal)
	}
	l.commits = slices.Delete(l.commits, 0, drop)
}

// forget records that anything may have changed at ordinal n.
func (l *latest) forget(n uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.commits, l.weight, l.since = nil, 0, max(l.since, n)
}

// ids returns the ids touched by the commits that have an ordinal larger than the parameter since and, unless
// key is nil, also touched key. The ids are sorted and without duplicates. ok is false if l no longer contains
// all of these commits.
func (l *latest) ids(key *uint64, since uint64) (ids []entry.ID, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if since < l.since {
		return nil, false
	}
	for _, c := range slices.Backward(l.commits) {
		if c.ordinal <= since {
			break
		}
		if key == nil || slices.Contains(c.keys, *key) {
			ids = append(ids, c.ids...)
		}
	}
	slices.SortFunc(ids, entry.ID.Compare)
	return slices.Compact(ids), true
}
