package cache

import (
	"encoding/binary"
	"hash/maphash"

	"github.com/seed-4dac0d86/ldapd/index"
	"github.com/seed-4dac0d86/ldapd/partition/bounded"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// A Posting is the set of entries that an index contains for one value, as of an ordinal. It
// is valid as long as no commit touches the value (catalog.PostingHash), just as a cached
// entry is valid as long as no commit touches the entry's id. If only a few commits have
// touched the value, the Posting can be brought up to date.
//
// If Long is set, the Posting has no set, and records only that the value had more than MoreThan
// entries.
type Posting struct {
	AsOf     uint64
	Set      index.Set
	Long     bool
	MoreThan int
}

// A PackedPosting is a Posting as it is kept: in one piece of memory without pointers. Most values of
// an index of names have one entry, and their postings take 48 octets. The first element contains AsOf and
// two numbers of 4 octets: of the entries, and of their parents, or long. The others are those of the set.
type PackedPosting []entry.ID

// long is a number of parents that means that there is no set.
const long = 1<<32 - 1

// Pack packs a Posting. The result shares no memory with it.
func (p *Posting) Pack() PackedPosting {
	ids, parents := p.MoreThan, long
	if !p.Long {
		ids, parents = p.Set.Len(), p.Set.Parents()
	}
	head := entry.ID{}
	binary.LittleEndian.PutUint64(head[:], p.AsOf)
	binary.LittleEndian.PutUint32(head[8:], uint32(ids))
	binary.LittleEndian.PutUint32(head[12:], uint32(parents))
	return p.Set.AppendTo(append(make([]entry.ID, 0, 1+p.Set.Elements()), head))
}

// Posting returns the Posting. Its set is a part of p.
func (p PackedPosting) Posting() Posting {
	asOf, ids, parents := binary.LittleEndian.Uint64(p[0][:]), binary.LittleEndian.Uint32(p[0][8:]), binary.LittleEndian.Uint32(p[0][12:])
	if parents == long {
		return Posting{AsOf: asOf, Long: true, MoreThan: int(ids)}
	}
	return Posting{AsOf: asOf, Set: index.SetOf(p[1:], int(ids), int(parents))}
}

// A PostingKey is the key of a posting: two hashes of a type and of a value, with different seeds that nobody
// knows. Two values of a million have the same key with a probability of one in 10^26.
type PostingKey [2]uint64

var postingSeeds = [4]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed(), maphash.MakeSeed(), maphash.MakeSeed()}

// PostingKeyOf returns what is common to the keys of a type. The method Of makes keys of it.
func PostingKeyOf(t *schema.AttributeType) PostingKey {
	return PostingKey{maphash.String(postingSeeds[0], t.OID), maphash.String(postingSeeds[1], t.OID)}
}

// Of returns the key of a normalised value. k is the result of PostingKeyOf.
func (k PostingKey) Of(value []byte) PostingKey {
	return PostingKey{k[0] ^ maphash.Bytes(postingSeeds[2], value), k[1] ^ maphash.Bytes(postingSeeds[3], value)}
}

func newPostings(size uint64) *bounded.Cache[PostingKey, PackedPosting] {
	return bounded.New(size, func(_ PostingKey, p PackedPosting) uint32 { return uint32(70 + 16*len(p)) })
}
