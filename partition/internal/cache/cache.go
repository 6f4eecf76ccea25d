package cache

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/maypok86/otter/v2"
	"github.com/maypok86/otter/v2/stats"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/index"
	"github.com/seed-4dac0d86/ldapd/master"
	"github.com/seed-4dac0d86/ldapd/schema"
)

// A Cache keeps entries and the entries of names. An item read at ordinal n is valid at
// a later snapshot s as long as s.Unchanged(id, n). So nothing is ever invalidated;
// stale items are detected when they are read. The items refer to one schema, so each
// schema has its own cache.
type Cache struct {
	Entries *otter.Cache[entry.ID, *Item]
	// Children is only a hint: its users compare the entry's node, so it needs no
	// validity of its own.
	Children *otter.Cache[ChildKey, entry.ID]
	Postings *otter.Cache[PostingKey, *Posting]
	// Names are only hints too: see Recall.
	Names *otter.Cache[string, entry.ID]
	// RangeSteps are for attributes with very many values.
	RangeSteps *otter.Cache[RangeStepsKey, *RangeSteps]
	// Classes has the results of HasClass: it maps *schema.ObjectClass to classSeen.
	Classes sync.Map
}

type ChildKey struct {
	Parent entry.ID
	RDN    dn.Norm
}

// An Item is an entry as of an ordinal.
type Item struct {
	AsOf    uint64
	Node    master.Node
	Entry   *entry.Entry            // without secrets; nil if it is wide
	Secrets atomic.Pointer[Secrets] // nil until asked for
	Name    atomic.Pointer[CachedName]
}

// Secrets are an entry's secret attributes. They may change without the entry.
type Secrets struct {
	AsOf       uint64
	Attributes []entry.Attribute
}

// A CachedName is the entry's whole name, valid until some entry moves.
type CachedName struct {
	AsOf uint64
	Name *dn.Name
}

// Moves is an id that every rename touches in addition to the entry: a move also
// renames all entries below, which the journal does not name.
var Moves = entry.ID{'m', 'o', 'v', 'e', 's'}

// LargeEntry is the size in bytes from which an entry is not cached.
const LargeEntry = 1 << 20

// NewCache divides the size in proportions measured in a directory of people: 1,050,000
// of them, all cached, have 2.3 GB of entries, 0.75 GB of postings in three indexes,
// and 0.2 GB each of children and names.
func NewCache(size int64) *Cache {
	share := uint64(max(size/32, 1))
	return &Cache{
		Entries: otter.Must(&otter.Options[entry.ID, *Item]{
			StatsRecorder: stats.NewCounter(),
			MaximumWeight: 19 * share,
			Weigher:       func(_ entry.ID, i *Item) uint32 { return i.Weight() },
		}),
		Children: otter.Must(&otter.Options[ChildKey, entry.ID]{
			StatsRecorder: stats.NewCounter(),
			MaximumWeight: 3 * share,
			Weigher:       func(k ChildKey, _ entry.ID) uint32 { return uint32(128 + len(k.RDN)) },
		}),
		Postings:   newPostings(8 * share),
		RangeSteps: newRangeSteps(),
		Names: otter.Must(&otter.Options[string, entry.ID]{
			StatsRecorder: stats.NewCounter(),
			MaximumWeight: 2 * share,
			Weigher:       func(name string, _ entry.ID) uint32 { return uint32(128 + len(name)) },
		}),
	}
}

// Weight returns an estimate of an item's size in memory.
func (i *Item) Weight() uint32 {
	w := 250 + 2*len(i.Node.UpRDN) + len(i.Node.NormRDN)
	if i.Entry != nil {
		for k := range i.Entry.Attributes {
			w += 48
			for _, v := range i.Entry.Attributes[k].Values {
				w += 24 + len(v)
			}
		}
	}
	return uint32(w)
}

// DefaultCache returns a quarter of the machine's memory, or 256 MiB if that is
// unknown.
func DefaultCache() int64 {
	const fallback = 256 << 20
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return fallback
	}
	line, _, _ := strings.Cut(string(b), "\n")
	f := strings.Fields(line)
	if len(f) < 2 {
		return fallback
	}
	kb, err := strconv.ParseInt(f[1], 10, 64)
	if err != nil {
		return fallback
	}
	return kb << 10 / 4
}

// RangeSteps has the columns of every thousandth value of an attribute with very many,
// as far as they were read. Columns have no numbers, so a value is found by counting
// from the step below it. The steps are valid as long as the entry does not change. A
// reader that takes the values range by range counts none twice.
type RangeSteps struct {
	AsOf   uint64
	Starts [][]byte // qualifiers, beginning with that of value number stepEvery
}

type RangeStepsKey struct {
	ID      entry.ID
	Typ     *schema.AttributeType
	Options string
}

func newRangeSteps() *otter.Cache[RangeStepsKey, *RangeSteps] {
	return otter.Must(&otter.Options[RangeStepsKey, *RangeSteps]{
		MaximumWeight: rangeStepsMemory,
		Weigher:       func(_ RangeStepsKey, l *RangeSteps) uint32 { return uint32(128 + 64*len(l.Starts)) },
	})
}

func newPostings(size uint64) *otter.Cache[PostingKey, *Posting] {
	return otter.Must(&otter.Options[PostingKey, *Posting]{
		StatsRecorder: stats.NewCounter(),
		MaximumWeight: size,
		Weigher: func(k PostingKey, p *Posting) uint32 {
			return uint32(160 + len(k.Key) + p.size())
		},
	})
}

// A Posting is the entries that an index has for one value, as of an ordinal. It is
// valid as long as no commit touched the value (catalog.PostingHash), as cached entries
// are by their ids. After a few commits it can be updated.
//
// A Posting without a set only records that there were more than some number of
// entries.
type Posting struct {
	AsOf uint64
	*index.Set
	MoreThan int
}

type PostingKey struct {
	Typ *schema.AttributeType
	Key string
}

func (p *Posting) size() int {
	if p.Set == nil {
		return 0
	}
	return p.Size()
}

// Stream yields the candidates behind a position. A position is the row of the value
// and the id, whatever the layout of the index.
func (p *Posting) Stream(key, after []byte) index.Candidates {
	return func(yield func(index.Candidate, error) bool) {
		row := index.AppendKey(nil, key)
		position := append(row, make([]byte, len(entry.ID{}))...)
		for i := p.Behind(after); i < p.Len(); i++ {
			id := p.ID(i)
			copy(position[len(row):], id[:])
			if !yield(index.Candidate{ID: id, Parent: p.Parent(i), Position: position}, nil) {
				return
			}
		}
	}
}

// rangeStepsMemory bounds the size of all RangeSteps, in bytes.
const rangeStepsMemory = 16 << 20
