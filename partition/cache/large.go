package cache

import (
	"bytes"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/master"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// Large are descriptions whose values are large, such as photos. Who does not need their types reads entries
// without them. A nil Large contains no descriptions.
type Large struct {
	types    []*schema.AttributeType
	prefixes [][]byte            // of the columns of the descriptions, sorted
	columns  []table.ColumnRange // all others of the table master
}

// Concerns reports whether the values of some types are in the descriptions, or those of their subtypes. If
// types is nil, it stands for all types.
func (l *Large) Concerns(types []*schema.AttributeType) bool {
	return l != nil && (types == nil || slices.ContainsFunc(types, l.concerns))
}

func (l *Large) concerns(t *schema.AttributeType) bool {
	return slices.ContainsFunc(l.types, func(own *schema.AttributeType) bool { return own.Is(t) })
}

// ConcernsQuery is Concerns for the types and those that a filter tests.
func (l *Large) ConcernsQuery(types []*schema.AttributeType, f filter.Resolved) bool {
	if l == nil || l.Concerns(types) {
		return l != nil
	}
	for t := range filter.Tests(f) {
		if slices.ContainsFunc(t.Types, l.concerns) {
			return true
		}
	}
	return false
}

// Narrow makes sel select the table master without the descriptions.
func (l *Large) Narrow(sel *table.Select) {
	if l != nil {
		sel.Columns = l.columns
	}
}

// with returns the descriptions of l and another one. The argument l may be nil.
func (l *Large) with(t *schema.AttributeType, options string) *Large {
	n := &Large{types: []*schema.AttributeType{t}, prefixes: [][]byte{master.Columns(t, options).From}}
	if l != nil {
		n.types, n.prefixes = append(n.types, l.types...), append(n.prefixes, l.prefixes...)
	}
	slices.SortFunc(n.prefixes, bytes.Compare)
	for _, f := range []table.Family{master.TreeInfo, master.UpAttributes, master.Secrets} {
		var from []byte
		for _, p := range n.prefixes {
			n.columns = append(n.columns, table.ColumnRange{Family: f, From: from, To: p})
			from = table.ColumnPrefix(f, p).To
		}
		n.columns = append(n.columns, table.ColumnRange{Family: f, From: from})
	}
	return n
}

const (
	// largeValue is a size in octets. Only larger values count as large ones.
	largeValue = 1 << 10
	// worthWhile is a number of octets. A description is in Large if its large values have more in the average
	// entry. For a region server of HBase, leaving columns out of a row is as much work as sending 10 to 20 kB.
	worthWhile = 2 << 10
	// sampled is the number of octets of large values that is enough to know the average.
	sampled = 64 * worthWhile
	// mostLarge bounds the number of descriptions in Large: a store compares each column with them.
	mostLarge = 4
)

// A largeFinder finds the descriptions with large values among the entries that are read whole. So nobody pays
// for large values in a directory that has none.
type largeFinder struct {
	found   atomic.Pointer[Large]
	entries atomic.Int64 // number of entries seen
	mu      sync.Mutex
	octets  map[string]int64 // of the large values of descriptions, by prefix
}

// Without returns the descriptions that have large values, as far as is known. It returns nil if they concern
// the types or a filter, which may be nil.
func (c *Cache) Without(types []*schema.AttributeType, f filter.Resolved) *Large {
	l := c.large.found.Load()
	if l.ConcernsQuery(types, f) {
		return nil
	}
	return l
}

// see counts an entry of a size in octets.
func (l *largeFinder) see(as []entry.Attribute, size int) {
	entries := l.entries.Add(1)
	if size <= largeValue {
		return
	}
	for i := range as {
		n := int64(0)
		for _, v := range as[i].Values {
			if len(v) > largeValue {
				n += int64(len(v))
			}
		}
		if n > 0 {
			l.add(as[i].Type, as[i].Options, n, entries)
		}
	}
}

func (l *largeFinder) add(t *schema.AttributeType, options string, n, entries int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.found.Load()
	prefix := master.Columns(t, options).From
	if known != nil && (len(known.prefixes) == mostLarge || slices.ContainsFunc(known.prefixes, func(p []byte) bool { return bytes.Equal(p, prefix) })) {
		return
	}
	if l.octets == nil {
		l.octets = map[string]int64{}
	}
	n += l.octets[string(prefix)]
	l.octets[string(prefix)] = n
	if n >= max(sampled, worthWhile*entries) {
		l.found.Store(known.with(t, options))
	}
}
