package search

import (
	"bytes"
	"context"
	"iter"
	"slices"

	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/index"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/partition/internal/state"
	"github.com/seed-4dac0d86/ldapd/plan"
	"github.com/seed-4dac0d86/ldapd/schema"
)

// A SortKey orders entries by their least value of an attribute, its subtypes
// and their options. Entries without one come last, or first in reverse (RFC
// 2891, 2.2).
type SortKey struct {
	Type    *schema.AttributeType
	Options string
	Rule    *schema.MatchingRule // an ordering rule
	Reverse bool
}

// Least returns the key of an entry's least value; nil: it has none.
func (k *SortKey) Least(e *entry.Entry) (least []byte) {
	for i := range e.Attributes {
		a := &e.Attributes[i]
		if !a.Type.Is(k.Type) || !entry.HasOptions(a.Options, k.Options) {
			continue
		}
		for _, v := range a.Values {
			key, err := k.Rule.Key(v)
			if err == nil && (least == nil || bytes.Compare(key, least) < 0) {
				least = key
			}
		}
	}
	return least
}

// noValue sorts behind the rows of all values.
const noValue = 0xff

// Append appends what entries are ordered by: bytes that compare as they do. A
// value is written as a row of an index is, so that both ways to sort agree;
// what follows the first index.MaxKey bytes of its key decides nothing.
func (k *SortKey) Append(b []byte, e *entry.Entry) []byte {
	return k.appendKey(b, k.Least(e))
}

func (k *SortKey) appendKey(b, least []byte) []byte {
	start := len(b)
	if least == nil {
		b = append(b, noValue)
	} else {
		b = index.AppendKey(b, least)
	}
	if k.Reverse {
		for i := start; i < len(b); i++ {
			b[i] = ^b[i]
		}
	}
	return b
}

// Bound makes of an assertion value what Before compares with.
func (k *SortKey) Bound(assertion []byte) ([]byte, error) {
	key, err := k.Rule.Assertion(assertion)
	if err != nil {
		return nil, err
	}
	return k.appendKey(nil, key), nil
}

// Before reports whether an entry comes before a bound in the order of the key.
func (k *SortKey) Before(e *entry.Entry, bound []byte) bool {
	return bytes.Compare(k.Append(nil, e), bound) < 0
}

// A Sorter puts entries in order, in bounded memory.
type Sorter struct {
	keys   []SortKey
	memory int64 // left; negative: too much was added
	sorted []sortable
}

type sortable struct {
	key []byte
	id  entry.ID
}

// NewSorter makes a Sorter that takes about so many bytes.
func NewSorter(keys []SortKey, memory int64) *Sorter {
	return &Sorter{keys: keys, memory: memory}
}

// Add takes an entry; false: the memory is used up.
func (x *Sorter) Add(e *entry.Entry) bool {
	const head = 24 + 16 // of a sortable
	var s sortable
	s.id = e.ID
	for i := range x.keys {
		s.key = x.keys[i].Append(s.key, e)
	}
	x.memory -= int64(cap(s.key)) + head
	x.sorted = append(x.sorted, s)
	return x.memory >= 0
}

// IDs returns the entries added, in order; those that are alike in that of their
// ids. The Sorter is empty after it.
func (x *Sorter) IDs() []entry.ID {
	slices.SortFunc(x.sorted, func(a, b sortable) int {
		if c := bytes.Compare(a.key, b.key); c != 0 {
			return c
		}
		return bytes.Compare(a.id[:], b.id[:])
	})
	ids := make([]entry.ID, len(x.sorted))
	for i := range ids {
		ids[i] = x.sorted[i].id
	}
	x.sorted = nil
	return ids
}

// Results streams entries by their ids, as Search found them in this state.
func Results(ctx context.Context, s *state.Snapshot, ids []entry.ID, q Query) iter.Seq2[*Result, error] {
	return func(yield func(*Result, error) bool) {
		f := NewFinder(s, q, yield)
		defer f.Release()
		for _, id := range ids {
			if !f.Offer(ctx, index.Candidate{ID: id}) {
				return
			}
		}
		f.Flush(ctx)
	}
}

// Ordered reports whether Search can yield entries in the order of a key by an
// index, as Query.Order asks it to.
func Ordered(s *state.Snapshot, k *SortKey) bool {
	return orderedBy(s, k) != nil
}

func orderedBy(s *state.Snapshot, k *SortKey) index.Index {
	in, ok := s.Catalog.Indexed(k.Type)
	if !ok || k.Type.Equality.Form != k.Rule.Form || len(k.Type.Stored()) > 1 {
		return nil
	}
	return in
}

// Exceeds reports whether a query looks at more candidates than n, or at all
// that is in scope.
func Exceeds(ctx context.Context, s *state.Snapshot, q Query, n int) (bool, error) {
	if q.Scope == op.BaseObject {
		return false, nil
	}
	access := plan.Build(filter.Definite(q.Filter), s.Catalog)
	if access == nil {
		return true, nil
	}
	for _, err := range access.Run(ctx, s.Reader, nil) {
		if err != nil {
			return false, err
		}
		if n--; n < 0 {
			return true, nil
		}
	}
	return false, nil
}

// A sorted search by an index is two streams: the entries that have a value, by
// the index, and those that have none, by a search of its own. A position says
// in its first byte of which it is.
const (
	withValue    = 'v'
	withoutValue = 'n'
)

// searchInOrder runs a query with an Order.
func searchInOrder(ctx context.Context, s *state.Snapshot, q Query, yield func(*Result, error) bool) {
	parts := []byte{withValue, withoutValue}
	if q.Order.Reverse {
		parts = []byte{withoutValue, withValue}
	}
	if len(q.After) > 0 && q.After[0] == parts[1] {
		parts = parts[1:]
	}
	var after []byte
	if len(q.After) > 0 {
		after = q.After[1:]
	}
	for _, part := range parts {
		if !searchPart(ctx, s, q, part, after, yield) {
			return
		}
		after = nil
	}
}

// searchPart runs one of the two; false: stop.
func searchPart(ctx context.Context, s *state.Snapshot, q Query, part byte, after []byte, yield func(*Result, error) bool) bool {
	var position []byte
	more := true
	f := NewFinder(s, q, func(r *Result, err error) bool {
		if err == nil {
			position = append(append(position[:0], part), r.Position...)
			r.Position = position
		}
		more = yield(r, err) && err == nil
		return more
	})
	defer f.Release()
	if q.Cost != nil {
		defer f.addTo(q.Cost)
	}
	f.q.After, f.q.Order = after, nil
	if q.Only != nil {
		f.q.Only = append(slices.Clip(q.Only), q.Order.Type)
	}
	f.only = func(e *entry.Entry, _ []byte) bool { return q.Order.Least(e) == nil }
	if part == withoutValue {
		f.run(ctx)
		return more
	}
	f.only = func(e *entry.Entry, position []byte) bool { return q.Order.stands(e, position) }
	for c, err := range orderedBy(s, q.Order).InOrder(ctx, s.Reader, q.Order.Reverse, after) {
		c.Maybe = true
		if !f.consider(ctx, c, err) {
			return more
		}
	}
	f.Flush(ctx)
	return more
}

// stands reports whether a row of an index is that of the entry's least value:
// of its others it has rows too.
func (k *SortKey) stands(e *entry.Entry, position []byte) bool {
	least := k.Least(e)
	if least == nil {
		return false
	}
	row := index.AppendKey(make([]byte, 0, len(position)), least)
	return len(position) == len(row)+len(entry.ID{}) && bytes.HasPrefix(position, row)
}
