package catalog

import (
	"context"
	"math"

	"github.com/seed-4dac0d86/ldapd/index"
	"github.com/seed-4dac0d86/ldapd/partition/cache"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/txn"
)

// warmPosting is the largest number of entries in a posting that Preload loads.
const warmPosting = 64

// PostingHash returns the key that a commit touches when it changes which entries have a
// value of an indexed type (see txn.Tx.TouchKeys).
func PostingHash(t *schema.AttributeType, key []byte) uint64 {
	h := uint64(fnvOffset)
	for i := range len(t.OID) {
		h = (h ^ uint64(t.OID[i])) * fnvPrime
	}
	h = (h ^ '=') * fnvPrime
	for _, b := range key {
		h = (h ^ uint64(b)) * fnvPrime
	}
	return h
}

// These are the constants of the hash FNV-1a with 64 bits. PostingHash does not use package
// hash/fnv, which allocates memory, because searches look up many postings.
const (
	fnvOffset = 14695981039346656037
	fnvPrime  = 1099511628211
)

// A KeptIndex keeps the postings of an index in memory.
type KeptIndex struct {
	index.Index
	typ  *schema.AttributeType
	key  cache.PostingKey // of typ
	kept *cache.Postings
}

// current returns r as a snapshot if r can use the postings in memory. A transaction and a
// snapshot of the past cannot use them.
func current(r table.Reader) (*txn.Snapshot, bool) {
	s, ok := r.(*txn.Snapshot)
	return s, ok && s.Ordinal() != 0
}

// Equal implements index.Index.
func (x KeptIndex) Equal(ctx context.Context, r table.Reader, key, after []byte) index.Candidates {
	s, ok := current(r)
	if !ok {
		return x.Index.Equal(ctx, r, key, after)
	}
	if p := x.known(ctx, s, key, math.MaxInt); p != nil {
		return p.Set.Stream(key, after)
	}
	if len(after) > 0 {
		return x.Index.Equal(ctx, r, key, after)
	}
	return x.keep(ctx, s, key)
}

// keep streams the candidates of a value. If the caller reads the stream to its end and the
// candidates are not too many, keep adds the candidates to the cache. Otherwise it caches only
// that the value has more than a certain number of candidates.
func (x KeptIndex) keep(ctx context.Context, s *txn.Snapshot, key []byte) index.Candidates {
	most := x.kept.Largest()
	return func(yield func(index.Candidate, error) bool) {
		set, n := &index.Set{}, 0
		for c, err := range x.Index.Equal(ctx, s, key, nil) {
			if err == nil {
				if n++; set != nil {
					set.Append(c.ID, c.Parent)
				}
				if set != nil && set.Size() > most {
					set = nil
				}
			}
			if !yield(c, err) || err != nil {
				x.put(key, &cache.Posting{Long: true, MoreThan: n - 1})
				return
			}
		}
		if set == nil {
			x.put(key, &cache.Posting{Long: true, MoreThan: n - 1})
			return
		}
		x.keepSet(s, key, set)
	}
}

// Head implements index.Index. It caches what a set that it has extended to all entries contains, and
// of other values that they have more entries than the set.
func (x KeptIndex) Head(ctx context.Context, r table.Reader, key []byte, set *index.Set, n int) (bool, error) {
	more, err := x.Index.Head(ctx, r, key, set, n)
	s, ok := current(r)
	switch {
	case err != nil || !ok:
	case !more:
		x.keepSet(s, key, set)
	case !x.Longer(key, set.Len()-1):
		x.put(key, &cache.Posting{Long: true, MoreThan: set.Len() - 1})
	}
	return more, err
}

// NoteLonger implements index.Memory. It keeps a set: whoever estimates may read another state.
func (x KeptIndex) NoteLonger(key []byte, n int) {
	if p := x.kept.Get(x.key.Of(key)); p == nil || p.Long && p.MoreThan < n {
		x.put(key, &cache.Posting{Long: true, MoreThan: n})
	}
}

// Postings implements index.Index. It reads the postings that are not in memory in one call.
func (x KeptIndex) Postings(ctx context.Context, r table.Reader, keys [][]byte) ([]*index.Set, error) {
	s, ok := current(r)
	if !ok {
		return x.Index.Postings(ctx, r, keys)
	}
	sets := make([]*index.Set, len(keys))
	var missing [][]byte
	var at []int // for each key in missing, its index in keys
	for i, key := range keys {
		if p := x.known(ctx, s, key, math.MaxInt); p != nil {
			sets[i] = &p.Set
			continue
		}
		missing, at = append(missing, key), append(at, i)
	}
	if len(missing) == 0 {
		return sets, nil
	}
	read, err := x.Index.Postings(ctx, s, missing)
	if err != nil {
		return nil, err
	}
	for n, set := range read {
		sets[at[n]] = set
		x.keepSet(s, missing[n], set)
	}
	return sets, nil
}

// keepSet caches the candidates of a value. If these are too many, it caches only that there
// are many.
func (x KeptIndex) keepSet(s *txn.Snapshot, key []byte, set *index.Set) {
	if set.Size() > x.kept.Largest() {
		x.put(key, &cache.Posting{Long: true, MoreThan: set.Len() - 1})
		return
	}
	x.put(key, &cache.Posting{AsOf: s.Ordinal(), Set: *set})
}

func (x KeptIndex) put(key []byte, p *cache.Posting) {
	x.kept.Put(x.key.Of(key), p)
}

// The method "known" returns the posting of a value as a snapshot shows it. It returns nil if
// the posting is not in memory, or if bringing it up to date fails or would cost too much.
func (x KeptIndex) known(ctx context.Context, s *txn.Snapshot, key []byte, upTo int) *cache.Posting {
	p := x.kept.Get(x.key.Of(key))
	if p == nil || p.Long {
		return nil
	}
	hash := PostingHash(x.typ, key)
	if s.UnchangedKey(hash, p.AsOf) {
		return p
	}
	ids, ok := s.TouchedWith(hash, p.AsOf)
	if !ok || len(ids) > 0 && p.Set.Len() > upTo || len(ids) > mostChanges(p.Set.Len()) {
		return nil
	}
	p = x.upToDate(ctx, s, key, p, ids)
	if p != nil {
		x.put(key, p)
	}
	return p
}

// mostChanges returns the largest number of changed entries for which a posting is
// updated. If more entries changed, the posting is read again.
func mostChanges(entries int) int { return 8 + entries/8 }

// upToDate returns a copy of a posting that includes the changes to the entries with the
// given ids.
func (x KeptIndex) upToDate(ctx context.Context, s *txn.Snapshot, key []byte, p *cache.Posting, ids []entry.ID) *cache.Posting {
	if len(ids) == 0 {
		return &cache.Posting{AsOf: s.Ordinal(), Set: p.Set}
	}
	changes, err := x.Index.Among(ctx, s, key, ids)
	if err != nil {
		return nil // the next read of the posting will return the error
	}
	return &cache.Posting{AsOf: s.Ordinal(), Set: *p.Set.With(changes)}
}

// Known implements index.Memory.
func (x KeptIndex) Known(ctx context.Context, r table.Reader, key []byte, upTo int) (*index.Set, bool) {
	s, ok := current(r)
	if !ok {
		return nil, false
	}
	p := x.known(ctx, s, key, upTo)
	if p == nil {
		return nil, false
	}
	return &p.Set, true
}

// Preload caches the postings that the index's Warm returns, until the cache is nearly full.
// The caller passes the ordinal of the state that r reads.
func (x KeptIndex) Preload(ctx context.Context, r table.Reader, ordinal uint64) error {
	n := 0
	for v, err := range x.Warm(ctx, r, warmPosting) {
		if err != nil {
			return err
		}
		x.put(v.Key, &cache.Posting{AsOf: ordinal, Set: *v.Set})
		if n++; n%1024 == 0 && x.kept.Full() {
			break
		}
	}
	return nil
}

// Longer implements index.Memory.
func (x KeptIndex) Longer(key []byte, n int) bool {
	return x.kept.Longer(x.key.Of(key), n)
}
