// Package columns keeps the keys of attributes that have no index in memory, so that repeated
// searches for their values need not scan the store.
//
// A [Table] contains the ids of all entries of a state in ascending order. The place of an id is the
// entry's number. For each of some attribute types the Table has a column: the distinct keys of the type's values in
// ascending order, and the numbers of the entries that have each of them. A filter becomes operations on
// sets of numbers. The entries that commits have touched since that state may have other values, so
// they are always candidates.
package columns

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/index"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/tree"
)

// A Cache holds the Table of one schema, and counts the searches that asked for columns.
type Cache struct {
	most uint64 // size of the table in octets

	mu       sync.Mutex
	table    *Table
	asked    map[*schema.AttributeType]int
	used     map[*schema.AttributeType]use // of columns that the next table keeps
	built    int                           // number of tables that were made
	served   int                           // searches since the table was made
	building bool
	hits     uint64
	misses   uint64
}

// A use says when a column was used last, by the number of tables that had been made, and how large it was then.
type use struct {
	built int
	size  uint64
}

// NewCache returns a cache for a table of at most so many octets.
func NewCache(most uint64) *Cache {
	return &Cache{most: most, asked: map[*schema.AttributeType]int{}, used: map[*schema.AttributeType]use{}}
}

// tooLarge is the count of a type that does not fit into the cache.
const tooLarge = -1 << 30

// A column is worth a scan that builds it when it is asked for the second time. A scan that failed, perhaps
// because it took longer than the client's time limit or its columns do not fit together, is tried again after so many
// searches, and a column that a new table did not keep is built again after as many. So searches for columns that the cache
// cannot keep together do not each build a table. A table that many commits have made old is worth another one at once
// if it has served so many searches.
const (
	askedAgain   = 2
	failedAgain  = 64
	servedEnough = 4
)

// A new table also has the columns that were used since the last so many tables were made, as long as they take at most half of the
// cache. Otherwise searches for different types, by turns, would each build a table.
const keptTables = 8

// Get returns a table that has columns of the types, as current as a state. If there is none, Get returns
// nil. If mayBuild is set, and it is time to build a table, Get also returns the types of its columns:
// the caller must then call Built, whatever happens.
func (c *Cache) Get(s State, types []*schema.AttributeType, mayBuild bool) (t *Table, build []*schema.AttributeType) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t = c.current(s); t != nil && t.has(types) {
		for _, at := range types {
			c.used[at] = use{c.built, t.columns[at].size()}
		}
		c.served++
		c.hits++
		return t, nil
	}
	if !mayBuild {
		return nil, nil
	}
	c.misses++
	asked := askedAgain
	for _, at := range types {
		c.asked[at]++
		asked = min(asked, c.asked[at])
	}
	if asked < askedAgain || c.building {
		return nil, nil
	}
	c.building = true
	return nil, c.withUsed(types)
}

// withUsed adds the types whose columns a new table keeps, those that were used last first.
func (c *Cache) withUsed(types []*schema.AttributeType) []*schema.AttributeType {
	kept := slices.SortedFunc(maps.Keys(c.used), func(a, b *schema.AttributeType) int {
		return cmp.Or(cmp.Compare(c.used[b].built, c.used[a].built), cmp.Compare(a.OID, b.OID))
	})
	types = slices.Clone(types)
	size := uint64(0)
	for _, at := range kept {
		if size += c.used[at].size; slices.Contains(types, at) {
			continue
		}
		if size > c.most/2 || c.built-c.used[at].built >= keptTables {
			delete(c.used, at)
			c.asked[at] = askedAgain - failedAgain
			continue
		}
		types = append(types, at)
	}
	return types
}

// current returns the table if it can serve a state, after adding the entries that commits touched.
func (c *Cache) current(s State) *Table {
	t := c.table
	switch {
	case t == nil || s.Max() < t.asOf.revision || s.Ordinal() == 0 && s.Max() > t.upTo.revision:
		return nil
	case s.Ordinal() < t.upTo.ordinal:
		if s.Ordinal() != 0 && s.Ordinal() < t.asOf.ordinal {
			return nil
		}
		return t
	}
	ids, ok := s.TouchedSince(t.upTo.ordinal)
	if len(ids) > 0 {
		ids = merge(t.touched, ids)
	} else {
		ids = t.touched
	}
	if !ok || len(ids) > mostTouched+len(t.ids)/64 {
		if c.served < servedEnough {
			maps.DeleteFunc(c.asked, func(_ *schema.AttributeType, asked int) bool { return asked > 0 })
		}
		c.table = nil
		return nil
	}
	next := *t
	next.touched, next.upTo = ids, momentOf(s)
	c.table = &next
	return c.table
}

// mostTouched is the number of touched entries up to which a small table is used.
const mostTouched = 256

// merge returns the ids of two ascending lists, each once.
func merge(a, b []entry.ID) []entry.ID {
	all := slices.Concat(a, b)
	slices.SortFunc(all, entry.ID.Compare)
	return slices.Compact(all)
}

// Built ends what Get has asked for. A nil builder means that the columns were not built. If the
// table does not fit, Built keeps none, and a column that did not fit alone is never asked for again.
func (c *Cache) Built(b *Builder, types []*schema.AttributeType) {
	var t *Table
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.building = false
		c.keep(b, t, types)
	}()
	if b != nil && !b.full {
		t = b.table()
	}
}

// keep keeps a table, or notes why there is none.
func (c *Cache) keep(b *Builder, t *Table, types []*schema.AttributeType) {
	switch {
	case t == nil:
		again := askedAgain - failedAgain
		if b != nil {
			clear(c.used) // the next table has only what a search asks for
			if len(b.types) == 1 {
				again = tooLarge
			}
		}
		for _, at := range types {
			c.asked[at] = again
		}
	default:
		c.table, c.served = t, 0
		c.built++
	}
}

// Counts returns how many searches found their columns, how many did not, and the size of the table.
func (c *Cache) Counts() (hits, misses, size uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.hits, c.misses, c.table.Size()
}

// A State is a state of the directory. The ordinal of a state of the past is zero.
type State interface {
	Ordinal() uint64
	Max() table.Revision
	TouchedSince(ordinal uint64) ([]entry.ID, bool)
}

// A moment identifies a state. On a store of one server, states with larger ordinals have larger revisions.
type moment struct {
	ordinal  uint64
	revision table.Revision
}

func momentOf(s State) moment { return moment{s.Ordinal(), s.Max()} }

// A Table contains columns as of a state. It does not change.
type Table struct {
	asOf, upTo moment     // of the state, and of the newest state whose commits are in touched
	touched    []entry.ID // ascending
	ids        []entry.ID // ascending
	parent     []uint32   // of each id, in parents
	parents    []entry.ID
	columns    map[*schema.AttributeType]*column
}

// Len returns the number of entries that a search through the table may examine.
func (t *Table) Len() int { return len(t.ids) + len(t.touched) }

// Size returns about how many octets the table takes. A nil Table takes none.
func (t *Table) Size() (n uint64) {
	if t == nil {
		return 0
	}
	for _, c := range t.columns {
		n += c.size()
	}
	return n + uint64(sizeOfEntry*len(t.ids)+16*(len(t.parents)+len(t.touched)))
}

// sizeOfEntry is the size of an entry's id and of the place of its parent.
const sizeOfEntry = 20

func (t *Table) has(types []*schema.AttributeType) bool {
	for _, at := range types {
		if t.columns[at] == nil {
			return false
		}
	}
	return true
}

// A column contains the keys of the values of one type, under any options.
type column struct {
	keys    []byte   // distinct and ascending
	ends    []uint32 // of each key, where it ends in keys
	first   []uint32 // of each key, and of the end: the place of its first number in numbers
	numbers []uint32 // of the entries with the first key, with the second, and so on
	unsure  []uint32 // numbers of entries with values whose keys are not in the column
}

func (c *column) size() uint64 {
	return uint64(len(c.keys) + 4*(len(c.ends)+len(c.first)+len(c.numbers)+len(c.unsure)))
}

func (c *column) key(k int) []byte {
	from := uint32(0)
	if k > 0 {
		from = c.ends[k-1]
	}
	return c.keys[from:c.ends[k]]
}

// Found are the entries of a Table that may match a filter.
type Found struct {
	table *Table
	set   set
	exact bool // those in set match, unless they were touched
	n     int
}

// Len returns about how many candidates there are.
func (f *Found) Len() int { return f.n + len(f.table.touched) }

// Exact reports whether the entries that were not touched need no test.
func (f *Found) Exact() bool { return f.exact }

// Find returns the entries that may match a filter. It returns nil if the columns exclude none, or the context has ended.
func (t *Table) Find(ctx context.Context, f filter.Resolved) *Found {
	s, exact := t.match(ctx, f)
	if s == nil || ctx.Err() != nil {
		return nil
	}
	return &Found{t, s, exact, s.len()}
}

// Each passes the candidates behind an id to a function, in the order of ids, until the function returns false. Each
// reports whether it passed all of them. The parents of entries that were touched are not known.
func (f *Found) Each(after []byte, yield func(index.Candidate) bool) bool {
	t, touched := f.table, f.table.touched
	from := 0
	if len(after) > 0 {
		behind := func(id entry.ID, after []byte) int {
			if bytes.Compare(id[:], after) <= 0 {
				return -1
			}
			return 1
		}
		from, _ = slices.BinarySearchFunc(t.ids, after, behind)
		at, _ := slices.BinarySearchFunc(touched, after, behind)
		touched = touched[at:]
	}
	maybe := func(id *entry.ID) bool {
		return yield(index.Candidate{ID: *id, Maybe: true, Position: id[:]})
	}
	for n := range f.set.from(from) {
		id := &t.ids[n]
		for len(touched) > 0 && touched[0].Compare(*id) < 0 {
			if !maybe(&touched[0]) {
				return false
			}
			touched = touched[1:]
		}
		if len(touched) > 0 && touched[0] == *id {
			continue // with touched
		}
		if !yield(index.Candidate{ID: *id, Parent: t.parents[t.parent[n]], Maybe: !f.exact, Position: id[:]}) {
			return false
		}
	}
	for i := range touched {
		if !maybe(&touched[i]) {
			return false
		}
	}
	return true
}

// Types returns the types whose columns Find needs to exclude entries that do not match all of the filters.
// It returns none if columns cannot exclude any.
func Types(fs ...filter.Resolved) []*schema.AttributeType {
	var types []*schema.AttributeType
	for _, f := range fs {
		add(&types, f)
	}
	return types
}

// add adds the types of a filter to a list, and reports whether columns of them can decide the filter or exclude entries.
func add(types *[]*schema.AttributeType, f filter.Resolved) (decides, narrows bool) {
	before := len(*types)
	switch f := f.(type) {
	case filter.Const:
		return true, f != filter.Const(filter.True)
	case *filter.Test:
		if !keyed(f) {
			return false, false
		}
		for _, at := range f.Types {
			if !slices.Contains(*types, at) {
				*types = append(*types, at)
			}
		}
		return true, true
	case *filter.NotNode:
		if decides, _ = add(types, f.Part); decides {
			return true, true
		}
	case *filter.AndNode:
		decides = true
		for _, p := range f.Parts {
			d, n := add(types, p)
			decides, narrows = decides && d, narrows || n
		}
		return decides, narrows
	case *filter.OrNode:
		decides, narrows = true, true
		for _, p := range f.Parts {
			d, n := add(types, p)
			decides, narrows = decides && d, narrows && n
		}
		if narrows {
			return decides, true
		}
	}
	*types = (*types)[:before]
	return false, false
}

// manyTypes is the number of types of a test from which on their columns are not worth it.
const manyTypes = 16

// keyed reports whether columns can evaluate a test.
func keyed(t *filter.Test) bool {
	if t.Op != filter.TestPresent && !t.ByKey || t.DNAttrs || t.IsComputed() || t.List() != nil || len(t.Types) > manyTypes {
		return false
	}
	for _, at := range t.Types {
		if !tree.IsKeyed(at) {
			return false
		}
	}
	return true
}
