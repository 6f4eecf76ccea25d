package partition

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/maypok86/otter/v2"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/master"
)

// cache keeps entries and where names were found. Snapshots make it sound: an
// item read at ordinal n is right at a later snapshot s as long as
// s.Unchanged(id, n). Nothing is ever invalidated, only found stale. What is
// kept points into one schema; each has a cache of its own.
type cache struct {
	entries *otter.Cache[entry.ID, *item]
	// children is a hint only: who uses it compares the entry's node, so it
	// needs no validity of its own.
	children *otter.Cache[childKey, entry.ID]
	postings *otter.Cache[postingKey, *posting]
	// names are hints too: see Recall.
	names *otter.Cache[string, entry.ID]
	// ladders are of attributes with very many values.
	ladders *otter.Cache[ladderKey, *ladder]
	// classes has what HasClass found: *schema.ObjectClass to classSeen.
	classes sync.Map
}

type childKey struct {
	parent entry.ID
	rdn    dn.Norm
}

// item is an entry as it was at an ordinal.
type item struct {
	asOf    uint64
	node    master.Node
	entry   *entry.Entry                      // without secrets; nil if it is wide
	secrets atomic.Pointer[[]entry.Attribute] // once asked for
	name    atomic.Pointer[cachedName]
}

// cachedName is the entry's whole name, right until something moves.
type cachedName struct {
	asOf uint64
	name string
}

// moves is what every rename touches besides the entry: one move renames all
// that is below, which the journal does not name.
var moves = entry.ID{'m', 'o', 'v', 'e', 's'}

// largeEntry is the size in bytes from which an entry is not kept.
const largeEntry = 1 << 20

// newCache shares the size as a directory of people takes it: 1,050,000 of them,
// all warm, have 2.3 GB of entries, 0.75 GB of postings in three indexes, and
// 0.2 GB each of children and names.
func newCache(size int64) *cache {
	share := uint64(max(size/32, 1))
	return &cache{
		entries: otter.Must(&otter.Options[entry.ID, *item]{
			MaximumWeight: 19 * share,
			Weigher:       func(_ entry.ID, i *item) uint32 { return i.weight() },
		}),
		children: otter.Must(&otter.Options[childKey, entry.ID]{
			MaximumWeight: 3 * share,
			Weigher:       func(k childKey, _ entry.ID) uint32 { return uint32(128 + len(k.rdn)) },
		}),
		postings: newPostings(8 * share),
		ladders:  newLadders(),
		names: otter.Must(&otter.Options[string, entry.ID]{
			MaximumWeight: 2 * share,
			Weigher:       func(name string, _ entry.ID) uint32 { return uint32(128 + len(name)) },
		}),
	}
}

// weight estimates what an item takes in memory.
func (i *item) weight() uint32 {
	w := 250 + 2*len(i.node.UpRDN) + len(i.node.NormRDN)
	if i.entry != nil {
		for k := range i.entry.Attributes {
			w += 48
			for _, v := range i.entry.Attributes[k].Values {
				w += 24 + len(v)
			}
		}
	}
	return uint32(w)
}

// DefaultCache is a quarter of the machine's memory, or 256 MiB where that
// cannot be told.
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
