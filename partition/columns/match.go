package columns

import (
	"bytes"
	"context"
	"iter"
	"math/bits"
	"slices"
	"sort"

	"github.com/seed-4dac0d86/ldapd/filter"
)

// A set contains numbers of entries, a bit for each.
type set []uint64

func (t *Table) newSet() set { return make(set, (len(t.ids)+63)/64) }

func (s set) add(numbers []uint32) {
	for _, n := range numbers {
		s[n/64] |= 1 << (n % 64)
	}
}

func (s set) len() (n int) {
	for _, w := range s {
		n += bits.OnesCount64(w)
	}
	return n
}

// from yields the numbers that are at least n, in ascending order.
func (s set) from(n int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := n / 64; i < len(s); i++ {
			w := s[i]
			if i == n/64 {
				w &= ^uint64(0) << (n % 64)
			}
			for ; w != 0; w &= w - 1 {
				if !yield(64*i + bits.TrailingZeros64(w)) {
					return
				}
			}
		}
	}
}

// match returns the entries that may match a filter, and whether all of them match. A nil set
// means all entries.
func (t *Table) match(ctx context.Context, f filter.Resolved) (s set, exact bool) {
	switch f := f.(type) {
	case filter.Const:
		if f != filter.Const(filter.True) {
			return t.newSet(), true
		}
	case *filter.Test:
		if ctx.Err() != nil { // a filter may have thousands of tests
			return nil, false
		}
		return t.test(f)
	case *filter.NotNode:
		s, exact = t.match(ctx, f.Part)
		if s == nil || !exact {
			return nil, false
		}
		for i := range s {
			s[i] = ^s[i]
		}
		if n := len(t.ids) % 64; n != 0 {
			s[len(s)-1] &= 1<<n - 1
		}
		return s, true
	case *filter.AndNode:
		exact = true
		for _, p := range f.Parts {
			m, e := t.match(ctx, p)
			exact = exact && e
			if s == nil {
				s = m
				continue
			}
			for i := range m {
				s[i] &= m[i]
			}
		}
		return s, exact
	case *filter.OrNode:
		s, exact = t.newSet(), true
		for _, p := range f.Parts {
			m, e := t.match(ctx, p)
			if m == nil {
				return nil, false
			}
			exact = exact && e
			for i := range m {
				s[i] |= m[i]
			}
		}
		return s, exact
	}
	return nil, false
}

func (t *Table) test(f *filter.Test) (s set, exact bool) {
	if !keyed(f) || !t.has(f.Types) {
		return nil, false
	}
	s, exact = t.newSet(), f.Options == ""
	for _, at := range f.Types {
		c := t.columns[at]
		c.find(f, s)
		s.add(c.unsure)
		exact = exact && len(c.unsure) == 0
	}
	return s, exact
}

// find adds the entries with a key that matches a test.
func (c *column) find(f *filter.Test, s set) {
	add := func(k int) { s.add(c.numbers[c.first[k]:c.first[k+1]]) }
	switch {
	case f.Op == filter.TestPresent:
		s.add(c.numbers)
		return
	case f.Op == filter.TestEqual:
		k := sort.Search(len(c.ends), func(k int) bool { return bytes.Compare(c.key(k), f.Key) >= 0 })
		if k < len(c.ends) && bytes.Equal(c.key(k), f.Key) {
			add(k)
		}
		return
	case f.Op == filter.TestSubstrings:
		if part := longest(f); len(part) > 0 {
			for k := range c.containing(part) {
				if f.Holds(c.key(k)) {
					add(k)
				}
			}
			return
		}
	}
	for k := range c.ends {
		if f.Holds(c.key(k)) {
			add(k)
		}
	}
}

// longest returns the longest part of a test of substrings.
func longest(f *filter.Test) []byte {
	part := f.Initial
	for _, p := range append(slices.Clip(f.Any), f.Final) {
		if len(p) > len(part) {
			part = p
		}
	}
	return part
}

// containing yields the keys that contain a part, and perhaps others. It searches the keys as one text, which takes
// a tenth of the time that searching each key would take.
func (c *column) containing(part []byte) iter.Seq[int] {
	return func(yield func(int) bool) {
		for from := 0; ; {
			i := bytes.Index(c.keys[from:], part)
			if i < 0 {
				return
			}
			at := uint32(from + i)
			k := sort.Search(len(c.ends), func(k int) bool { return c.ends[k] > at })
			if !yield(k) {
				return
			}
			from = int(c.ends[k])
		}
	}
}
