package cache

import (
	"hash/maphash"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/index"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/master"
	"github.com/seed-4dac0d86/ldapd/partition/bounded"
	"github.com/seed-4dac0d86/ldapd/partition/columns"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// A Cache keeps entries in memory. It also maps names to the ids of the named entries. An item
// that was read at ordinal n is valid at a later snapshot s as long as s.Unchanged(id, n)
// returns true. So nothing is ever invalidated: a reader detects a stale item when it reads
// the item. All items of a cache refer to the same schema, so each schema has its own cache.
type Cache struct {
	Entries bounded.Cache[entry.ID, *Item]
	// Children is only a hint. A reader checks it against the parent and the RDN in the
	// entry's node, so the values need no ordinal.
	Children bounded.Cache[Hint, entry.ID]
	Postings *Postings
	// Names is only a hint too: see state.Snapshot.Recall.
	Names bounded.Cache[Hint, entry.ID]
	// Referrers contains, for a name, the entries that have the name as a value.
	Referrers bounded.Cache[ValuesKey, *Referrers]
	// RangeSteps serves reads of ranges of values (see the type RangeSteps).
	RangeSteps bounded.Cache[ValuesKey, *RangeSteps]
	// Columns serves searches for values of types without an index, on stores of one server.
	Columns *columns.Cache
	opened  openedItems
	large   largeFinder
	shapes  entry.Shapes
}

// A Hint is a key of Children or of Names: a hash of an id and a name. In a key of Children, the name
// is the normalised RDN of an entry below the entry with the id. In a key of Names, it is a whole name,
// and the id is the zero id, or see BaseHint. A reader checks that the entry has the name that it looks
// for, so names with the same hash cost a miss at most. The hashes of uses that have different ids and
// the same names are different with a probability of one in 2^64.
type Hint uint64

var hintSeed = maphash.MakeSeed()

// HintOf returns the key of a name. T is a type of strings.
func HintOf[T ~string](id entry.ID, name T) Hint {
	return Hint(maphash.Comparable(hintSeed, struct {
		id   entry.ID
		name T
	}{id, name}))
}

// A ValuesKey is a key of RangeSteps or of Referrers. In a key of RangeSteps, ID
// is the id of an entry, and Typ and Text are the type and the options of one of its
// attributes. In a key of Referrers, Text is a name, Typ is the first of the types and ID is
// the zero id.
type ValuesKey struct {
	ID   entry.ID
	Typ  *schema.AttributeType
	Text string
}

// An Item is an entry as it was in the state with the ordinal AsOf. The entry is packed, because a
// million entries with a slice for each attribute and each value occupied 2.3 GB, and the garbage
// collector examined ten pieces of memory for each of them.
type Item struct {
	AsOf    uint64
	Node    master.Node             // its texts are parts of the block of Packed
	Packed  entry.Packed            // without secrets; zero if wide (state.MaxColumns)
	without *Large                  // attributes that were not read
	secrets atomic.Pointer[secrets] // nil until SetSecrets
	opened  atomic.Pointer[opened]
	hashes  atomic.Pointer[[][]uint64] // see KeyHashes; parallel to the attributes
	shape   uint32                     // size of the shape that was made for the item
}

// NewItem returns the item of an entry that is not wide. The attributes are in the order of the
// node, and without secrets. Those in the argument without were not read. The result shares no memory
// with the other arguments.
func (c *Cache) NewItem(asOf uint64, n master.Node, as []entry.Attribute, without *Large) *Item {
	i := &Item{AsOf: asOf, Node: n, without: without}
	norm := string(n.NormRDN)
	var size int
	i.Packed, size = c.shapes.Pack(as, &i.Node.UpRDN, &norm)
	i.Node.NormRDN = dn.Norm(norm)
	i.shape = uint32(size - i.Packed.Size())
	if without == nil {
		c.large.see(as, i.Packed.Size())
	}
	return i
}

// Keep keeps the item of an entry, unless the entry is large.
func (c *Cache) Keep(id entry.ID, i *Item) {
	if i.Weight() < LargeEntry {
		c.Entries.Set(id, i)
	}
}

// Wide reports whether the attributes of the entry are not in the item.
func (i *Item) Wide() bool { return i.Packed.IsZero() }

// Omits returns the attributes that were not read into the item, or nil if all were read.
func (i *Item) Omits() *Large { return i.without }

// manyValues is the number of values from which an attribute has KeyHashes.
const manyValues = 16

// hashSeed is the seed of all KeyHashes.
var hashSeed = maphash.MakeSeed()

// HashKey returns the hash of a key, for comparison with KeyHashes.
func HashKey(key []byte) uint64 { return maphash.Bytes(hashSeed, key) }

// KeyHashes returns the hashes of the keys of an attribute's values, in the order of the
// values. k is the index of the attribute in i.Packed. KeyHashes returns nil if the
// attribute has few values. A value without a key has the hash of the empty key.
//
// The first call normalises all values. Comparing a name with the 268 members of a group took
// 300 us when every comparison normalised the members.
func (i *Item) KeyHashes(k int) []uint64 {
	from, to := i.Packed.Numbers(k)
	if to-from < manyValues {
		return nil
	}
	all := i.hashes.Load()
	if all != nil && (*all)[k] != nil {
		return (*all)[k]
	}
	next := make([][]uint64, i.Packed.Len())
	if all != nil {
		copy(next, *all)
	}
	next[k] = make([]uint64, to-from)
	t, _ := i.Packed.Description(k)
	for n := range next[k] {
		key, _ := t.Equality.Key(i.Packed.Value(from + n))
		next[k][n] = HashKey(key)
	}
	i.hashes.Store(&next) // hashes that another goroutine has stored meanwhile are computed again
	return next[k]
}

// secrets are an entry's secret attributes. A commit can change them without touching the
// entry (see hot attributes in the glossary).
type secrets struct {
	asOf   uint64
	packed entry.Packed
}

// BaseHint is the key in Names of the base of a search. Its id is one that no entry has. Bases
// are kept apart from other names, and by scope, because searches of some scopes from some entries
// are not served from the tree: those of the records of a view.
func BaseHint(scope op.Scope, name string) Hint {
	return HintOf(entry.ID{'b', 'a', 's', 'e', byte(scope)}, name)
}

// Moves is an id that every rename touches in addition to the renamed entry. A rename
// also changes the names of all entries below the entry, but the journal does not list
// these entries.
var Moves = entry.ID{'m', 'o', 'v', 'e', 's'}

// LargeEntry is a size in bytes. Entries of this size and larger entries are not cached.
const LargeEntry = 1 << 20

// NewCache returns a cache that occupies about size bytes. It divides the size in
// proportions that were measured in a directory of people. When a million people and their 10,000 groups
// are cached, the entries occupy 580 MB, the postings of four indexes 470 MB, and
// children and names 43 MB each.
func NewCache(size int64) *Cache {
	share := uint64(max(size/32, 1))
	hint := func(Hint, entry.ID) uint32 { return sizeOfSlot }
	return &Cache{
		Entries:    bounded.New(13*share, func(_ entry.ID, i *Item) uint32 { return i.Weight() }),
		Children:   bounded.New(2*share, hint),
		Postings:   newPostings(12 * share),
		Referrers:  newReferrers(share),
		RangeSteps: newRangeSteps(),
		Columns:    columns.NewCache(2 * share),
		Names:      bounded.New(share, hint),
		opened:     openedItems{most: int(min(share, mostOpened))},
	}
}

// sizeOfSlot is about the memory of an item of a bounded.Cache whose keys and values have 24 octets
// together.
const sizeOfSlot = 44

// Lacks returns true only if the item shows that the entry has no value of a description. It
// returns false for an entry that is wide, and for a secret type.
func (i *Item) Lacks(t *schema.AttributeType, options string) bool {
	return !i.Wide() && !t.Secret() && i.Packed.Index(t, options) < 0 && !i.without.Concerns([]*schema.AttributeType{t})
}

// LacksAll returns true only if the item shows that the entry has no value of any of the types, none of
// which is secret. It returns false for an entry that is wide.
func (i *Item) LacksAll(types []*schema.AttributeType) bool {
	for k := range i.Packed.Len() {
		if t, _ := i.Packed.Description(k); slices.Contains(types, t) {
			return false
		}
	}
	return !i.Wide() && !i.without.Concerns(types)
}

// HasType reports whether an item that does not omit the type has an attribute of the type or of a subtype.
func (i *Item) HasType(t *schema.AttributeType) bool {
	for k := range i.Packed.Len() {
		if own, _ := i.Packed.Description(k); own.Is(t) {
			return true
		}
	}
	return false
}

// sizeOfItem is the size of an Item and of its slot in a Cache.
const sizeOfItem = 136 + 50

// Weight returns an estimate of an item's size in memory.
func (i *Item) Weight() uint32 {
	w := sizeOfItem + int(i.shape)
	if i.Wide() {
		return uint32(w + len(i.Node.UpRDN) + len(i.Node.NormRDN))
	}
	w += i.Packed.Size()
	for k := range i.Packed.Len() {
		if from, to := i.Packed.Numbers(k); to-from >= manyValues {
			w += 24 + 8*(to-from) // KeyHashes
		}
	}
	if s := i.secrets.Load(); s != nil {
		w += 32 + s.packed.Size()
	}
	return uint32(w)
}

// DefaultCache returns a quarter of the memory of the machine or the container. If the
// size of the memory is unknown, it returns 256 MiB.
func DefaultCache() int64 {
	if m := memory("/"); m > 0 {
		return m / 4
	}
	return 256 << 20
}

// memory reads the size of the machine's memory, and the limit of the container if there is
// one, from files below root. It returns the smaller of the two. It returns 0 if the size is
// unknown.
func memory(root string) int64 {
	b, err := os.ReadFile(filepath.Join(root, "proc/meminfo"))
	if err != nil {
		return 0
	}
	line, _, _ := strings.Cut(string(b), "\n")
	f := strings.Fields(line)
	if len(f) < 2 {
		return 0
	}
	kb, err := strconv.ParseInt(f[1], 10, 64)
	if err != nil {
		return 0
	}
	size := kb << 10
	// These are the files for the limit in control groups of version 2 and of version 1. The
	// limit may be "max".
	for _, name := range []string{"memory.max", "memory/memory.limit_in_bytes"} {
		b, err := os.ReadFile(filepath.Join(root, "sys/fs/cgroup", name))
		if limit, e := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64); err == nil && e == nil && limit > 0 {
			size = min(size, limit)
		}
	}
	return size
}

// RangeSteps contains the columns of every thousandth value of an attribute with very many
// values, as far as readers have read the attribute. Columns have no numbers, so a reader finds
// the value with a given number by counting columns from the nearest step below that number.
// The steps are valid as long as the entry does not change. If a client reads the values range
// by range, the server need not count from the first value for each range.
type RangeSteps struct {
	AsOf   uint64
	Starts [][]byte // the qualifiers of the values number stepEvery, 2*stepEvery and so on
}

func newRangeSteps() bounded.Cache[ValuesKey, *RangeSteps] {
	return bounded.New(rangeStepsMemory, func(_ ValuesKey, l *RangeSteps) uint32 { return uint32(128 + 64*len(l.Starts)) })
}

// Referrers contains the entries that have a given name as a value of certain types: one
// posting for each type. The key contains the text of the name, so a look-up normalises
// nothing, and one look-up is enough for all types. Referrers is valid as long as each of the
// postings is valid. It shares the sets of entries with the cache Postings.
type Referrers struct {
	AsOf   uint64
	Types  []*schema.AttributeType
	Hashes []uint64     // for each type, the hash of the value (catalog.PostingHash)
	Sets   []*index.Set // for each type, the entries that have the value
	// Names is nil until a caller needs the names of the entries. The weight of the Referrers
	// always includes the names, even while Names is nil.
	Names atomic.Pointer[ReferrerNames]
}

// ReferrerNames are the names of the entries in the sets of Referrers. The names are valid
// until any entry is renamed or moved, if the sets are still valid.
type ReferrerNames struct {
	AsOf  uint64
	Names [][]*dn.Name // parallel to Sets; nil for an id that no entry has
}

// weightOfName is an estimate of the memory for one name in ReferrerNames, in bytes.
const weightOfName = 120

func newReferrers(size uint64) bounded.Cache[ValuesKey, *Referrers] {
	return bounded.New(size, func(k ValuesKey, r *Referrers) uint32 {
		w := 200 + len(k.Text)
		for _, s := range r.Sets {
			w += 16 + s.Size() + weightOfName*s.Len()
		}
		return uint32(w)
	})
}

// rangeStepsMemory bounds the total size of all RangeSteps, in bytes.
const rangeStepsMemory = 16 << 20
