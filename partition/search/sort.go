package search

import (
	"bytes"
	"context"
	"iter"
	"slices"

	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/index"
	"github.com/seed-4dac0d86/ldapd/index/plan"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// A SortKey orders entries by their least value of an attribute. Values of subtypes, and
// values with additional options, are compared too. Entries without a value are last, or
// first if Reverse is set (RFC 2891, 2.2).
type SortKey struct {
	Type    *schema.AttributeType
	Options string
	Rule    *schema.MatchingRule // an ordering rule
	Reverse bool
}

// Least returns the key of an entry's least value, or nil if the entry has no value.
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

// noValue begins the key of an entry without a value. A key that begins with noValue sorts
// after the keys of all values.
const noValue = 0xff

// Append appends the bytes that determine the order of an entry. It writes a value in the
// form of an index's row keys, so that a sort in memory and an index return the same
// order. Of a key longer than index.MaxKey, only the first bytes and a hash determine the
// order.
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

// Bound converts an assertion value to the form that Before compares.
func (k *SortKey) Bound(assertion []byte) ([]byte, error) {
	key, err := k.Rule.Assertion(assertion)
	if err != nil {
		return nil, err
	}
	return k.appendKey(nil, key), nil
}

// Before reports whether an entry sorts before a bound.
func (k *SortKey) Before(e *entry.Entry, bound []byte) bool {
	return bytes.Compare(k.Append(nil, e), bound) < 0
}

// A Sorter sorts entries in bounded memory.
type Sorter struct {
	keys   []SortKey
	memory int64 // memory that may be used
	used   int64
	sorted []sortable
}

type sortable struct {
	key []byte
	id  entry.ID
}

// NewSorter returns a Sorter that sorts by keys and uses about the given number of bytes.
func NewSorter(keys []SortKey, memory int64) *Sorter {
	return &Sorter{keys: keys, memory: memory}
}

// Add adds an entry. It returns false if the memory is exhausted.
func (x *Sorter) Add(e *entry.Entry) bool {
	const head = 24 + 16 // size of a sortable
	var s sortable
	s.id = e.ID
	for i := range x.keys {
		s.key = x.keys[i].Append(s.key, e)
	}
	x.used += int64(cap(s.key)) + head
	x.sorted = append(x.sorted, s)
	return x.used <= x.memory
}

// Used returns about how many octets the Sorter has used.
func (x *Sorter) Used() int64 { return x.used }

// IDs returns the ids of the added entries in order. Entries with equal keys are in the
// order of their ids. IDs empties the Sorter.
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

// Results streams the entries with the given ids, in the order of the argument ids. Callers
// must pass only ids that a Search for q has found in the same state.
func Results(ctx context.Context, s *state.Snapshot, ids []entry.ID, q Query) iter.Seq2[*Result, error] {
	return among(ctx, s, ids, q, false)
}

// Among streams the entries with the given ids that match the filter of q, in the order of
// ids.
func Among(ctx context.Context, s *state.Snapshot, ids []entry.ID, q Query) iter.Seq2[*Result, error] {
	return among(ctx, s, ids, q, true)
}

func among(ctx context.Context, s *state.Snapshot, ids []entry.ID, q Query, maybe bool) iter.Seq2[*Result, error] {
	return func(yield func(*Result, error) bool) {
		f := newFinder(s, q, yield)
		defer f.release()
		f.listed()
		for _, id := range ids {
			if !f.offer(ctx, index.Candidate{ID: id, Maybe: maybe}) {
				return
			}
		}
		f.flush(ctx)
	}
}

// Ordered reports whether an index contains the entries in the order of the key. Only then may
// a query use the key as its Query.Order.
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

// Exceeds reports whether a query examines more than n candidates. It returns true if the
// query must scan all entries in scope.
func Exceeds(ctx context.Context, s *state.Snapshot, q Query, n int) (bool, error) {
	return exceeds(ctx, s, q, listsFor(s), n)
}

// exceeds is Exceeds with the lists that it reads.
func exceeds(ctx context.Context, s *state.Snapshot, q Query, l *plan.Lists, n int) (bool, error) {
	if q.Scope == op.BaseObject {
		return false, nil
	}
	access := plan.Build(filter.Definite(q.Filter), s.Catalog, l)
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

// A sorted search by an index consists of two parts. The first part reads the index, and
// streams the entries that have a value. The second part finds the entries without a value in a
// separate search. The first byte of a position names the part to which the position belongs.
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

// searchPart runs one of the two parts. It returns false if the search must stop.
func searchPart(ctx context.Context, s *state.Snapshot, q Query, part byte, after []byte, yield func(*Result, error) bool) bool {
	var position []byte
	more := true
	f := newFinder(s, q, func(r *Result, err error) bool {
		if err == nil {
			position = append(append(position[:0], part), r.Position...)
			r.Position = position
		}
		more = yield(r, err) && err == nil
		return more
	})
	defer f.release()
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
	for c, err := range orderedBy(s, q.Order).InOrder(ctx, s.Reader, q.Order.Reverse, after, largeBatch) {
		c.Maybe = true
		if !f.consider(ctx, c, err) {
			return more
		}
	}
	f.flush(ctx)
	return more
}

// The method "stands" reports whether position is the index row of the entry's least value. The
// entry's other values have index rows too, and the search ignores these.
func (k *SortKey) stands(e *entry.Entry, position []byte) bool {
	least := k.Least(e)
	if least == nil {
		return false
	}
	row := index.AppendKey(make([]byte, 0, len(position)), least)
	return len(position) == len(row)+len(entry.ID{}) && bytes.HasPrefix(position, row)
}
