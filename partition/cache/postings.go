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

// Postings keeps postings. Most values of an index of names have one entry. Their postings are in a
// table without pointers, and take 90 octets there. All others are packed.
type Postings struct {
	one  bounded.Cache[PostingKey, single]
	more bounded.Cache[PostingKey, packed]
}

// A single is a Posting with one entry.
type single struct {
	asOf       uint64
	id, parent entry.ID
}

// packed is a Posting in one piece of memory without pointers. The first element contains AsOf and
// two numbers of 4 octets: of the entries, and of their parents, or long. The others are those of the set.
type packed []entry.ID

// long is a number of parents that means that there is no set.
const long = 1<<32 - 1

func newPostings(size uint64) *Postings {
	const slots = 16 + 8 // of the key, and of what bounded keeps; 72 % of the slots are used
	return &Postings{
		bounded.New(size/3*2, func(PostingKey, single) uint32 { return (slots + 40) * 100 / 72 }),
		bounded.New(size/3, func(_ PostingKey, p packed) uint32 { return uint32((slots+24)*100/72 + 16*len(p)) }),
	}
}

// Get returns the posting of a key, or nil.
func (ps *Postings) Get(k PostingKey) *Posting {
	if x, ok := ps.one.Get(k); ok {
		p := &struct {
			Posting
			list [2]entry.ID
		}{Posting{AsOf: x.asOf}, [2]entry.ID{x.id, x.parent}}
		p.Set = index.SetOf(p.list[:], 1, 1)
		return &p.Posting
	}
	if x, ok := ps.more.Get(k); ok {
		p := x.posting()
		return &p
	}
	return nil
}

// Longer reports whether a Posting without a set is kept, and says that the value has more than n entries.
func (ps *Postings) Longer(k PostingKey, n int) bool {
	x, ok := ps.more.Get(k)
	if !ok {
		return false
	}
	p := x.posting()
	return p.Long && p.MoreThan >= n
}

// Put keeps a posting. It shares no memory with p.
func (ps *Postings) Put(k PostingKey, p *Posting) {
	if !p.Long && p.Set.Len() == 1 {
		ps.one.Set(k, single{p.AsOf, p.Set.ID(0), p.Set.Parent(0)})
		ps.more.Delete(k)
		return
	}
	ps.more.Set(k, p.pack())
	ps.one.Delete(k)
}

// Largest returns the size in octets of the largest set that is kept.
func (ps *Postings) Largest() int { return int(ps.more.Maximum() / postingShare) }

// postingShare bounds the size of one posting. A posting may occupy at most
// 1/postingShare of the memory for postings of many entries.
const postingShare = 4

// Full reports whether postings of one entry occupy nearly all memory that is for them.
func (ps *Postings) Full() bool { return ps.one.Weight() > ps.one.Maximum()/10*9 }

func (ps *Postings) stats() Stats {
	one, more := of("postings", ps.one), of("", ps.more)
	return Stats{one.Name, one.Hits + more.Hits, more.Misses, one.Bytes + more.Bytes}
}

func (p *Posting) pack() packed {
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

// posting returns the Posting. Its set is a part of p.
func (p packed) posting() Posting {
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
